#include "harness/capsule/appearance.h"

#include <algorithm>
#include <cmath>
#include <cstring>
#include <functional>
#include <numeric>

#include "harness/compare/tensor_changes.h"
#include "harness/execution/row_subset.h"
#include "kernels/numerics/chain.h"

namespace h3 {
namespace {

using numerics::Operand;
using Sums = std::vector<float>;

// Holds every way against the words found.
class Matches {
 public:
  explicit Matches(const Tensor& found) : found_(found) {}

  void look(const std::string& way, const Tensor& words) {
    ++tried_;
    if (words.dtype() != found_.dtype() || words.size_bytes() != found_.size_bytes() ||
        std::memcmp(words.bytes(), found_.bytes(), found_.size_bytes()))
      return;
    if (first_.empty())
      first_ = way;
    else
      ++others_;
  }
  void look(const std::string& way, const Sums& sums) {
    Tensor words(DType::fp32, found_.shape());
    std::copy(sums.begin(), sums.end(), words.data<float>());
    look(way, words.to(found_.dtype()));
  }
  // A way that these operands do not allow is none.
  void look(const std::string& way, const std::function<Tensor()>& words) {
    try {
      look(way, words());
    } catch (const Error&) {
    }
  }
  std::optional<Appearance> best() const {
    if (first_.empty()) return {};
    return Appearance{first_, others_, tried_, found_.elements()};
  }

 private:
  const Tensor& found_;
  std::string first_;
  std::int64_t others_ = 0, tried_ = 0;
};

// ---- a product as one sum per word

struct Product {
  Operand a, b;
  const char* over;

  std::int64_t depth() const { return a.depth; }
  Sums chain(std::int64_t first, std::int64_t last) const {
    Operand left = a, right = b;
    left.data += first * a.depth_stride;
    right.data += first * b.depth_stride;
    left.depth = right.depth = last - first;
    Sums sums(static_cast<std::size_t>(a.rows * b.rows));
    numerics::chain(left, right, nullptr, sums.data(), b.rows);
    return sums;
  }
  // One term after the other: next(sum, left, right), k from `first` by `step`.
  template <class Next>
  Sums one_by_one(std::int64_t first, std::int64_t step, const Next& next) const {
    Sums sums;
    for (std::int64_t i = 0; i < a.rows; ++i)
      for (std::int64_t j = 0; j < b.rows; ++j) {
        float sum = 0;
        for (std::int64_t n = 0, k = first; n < depth(); ++n, k += step)
          sum = next(sum, to_float(a.data[i * a.row_stride + k * a.depth_stride]),
                     to_float(b.data[j * b.row_stride + k * b.depth_stride]));
        sums.push_back(sum);
      }
    return sums;
  }
};

Sums added(Sums sums, const Sums& more) {
  for (std::size_t i = 0; i < sums.size(); ++i) sums[i] += more[i];
  return sums;
}

Sums rounded(Sums sums) {
  for (float& sum : sums) sum = round_bf16(sum);
  return sums;
}

void look_at_orders(const Product& product, Matches& matches) {
  const std::int64_t depth = product.depth();
  constexpr std::int64_t step = numerics::kChainStep;
  const std::string over = product.over;
  for (const std::int64_t pieces : {2, 3, 4, 5, 6, 7, 8, 12, 16, 32}) {
    if (depth < pieces * step) break;
    Sums wide, narrow;
    for (std::int64_t i = 0; i < pieces; ++i) {
      const auto at = [&](std::int64_t n) { return n == pieces ? depth : n * depth / pieces / step * step; };
      const Sums part = product.chain(at(i), at(i + 1));
      wide = wide.empty() ? part : added(wide, part);
      narrow = narrow.empty() ? rounded(part) : rounded(added(narrow, rounded(part)));
    }
    matches.look(fmt::format("{} in {} pieces, FP32 partial sums", over, pieces), wide);
    matches.look(fmt::format("{} in {} pieces, BF16 partial sums", over, pieces), narrow);
  }
  matches.look(over + " one by one by FMA in FP32, ascending",
               product.one_by_one(0, 1, [](float s, float x, float y) { return std::fma(x, y, s); }));
  matches.look(
      over + " one by one in FP32, descending",
      product.one_by_one(depth - 1, -1, [](float s, float x, float y) { return std::fma(x, y, s); }));
  matches.look(over + " one by one in BF16",
               product.one_by_one(0, 1, [](float s, float x, float y) { return round_bf16(s + x * y); }));
  for (std::int64_t k = depth / step * step; k >= step; k -= step) {
    if (k == depth) continue;
    const Sums head = product.chain(0, k), tail = product.chain(k, depth);
    matches.look(fmt::format("{} from {} on left out", over, k), head);
    matches.look(fmt::format("{} below {} left out", over, k), tail);
    matches.look(fmt::format("{} split at {}, FP32 partial sums", over, k), added(head, tail));
  }
}

std::optional<Product> product_of(const NodeCall& call, const Tensor& gradient) {
  if (!call.node.row.ends_with("_gemm")) return {};
  const Tensor &x = call.inputs[0], &weight = call.parameters[0];
  using numerics::columns_of, numerics::rows_of;
  if (!call.backward()) return Product{rows_of(x), rows_of(weight), "K"};
  if (call.gradient_of == call.node.inputs[0])
    return Product{rows_of(gradient), columns_of(weight), "the outputs"};
  return Product{columns_of(gradient), columns_of(x), "rows"};
}

// ---- the call with something else in the place of an operand

Tensor zeros(const Tensor& x) {
  return spoil::values(x, [](float) { return 0.0f; });
}

Tensor parts_rotated(const Tensor& table, std::int64_t by) {
  const std::int64_t cols = table.cols();
  return spoil::columns(table, [=](std::int64_t c) { return (c + by * (cols / 6)) % cols; });
}

void look_at_other_operands(const NodeCall& call, const Execution& strict, Matches& matches) {
  const auto with = [&](const char* way, std::size_t input,
                        const std::function<Tensor(const Tensor&)>& change) {
    matches.look(way, [&] {
      NodeCall other = call;
      other.inputs[input] = change(other.inputs[input]);
      return run(other, strict);
    });
  };
  const std::string& row = call.node.row;
  if (row == "adaln_gate_residual") {
    with("the gate of the other half", 2, [](const Tensor& table) { return parts_rotated(table, 3); });
    with("the branch left out", 1, zeros);
    with("the residual left out", 0, zeros);
  } else if (row == "h3_rmsnorm" && call.inputs.size() > 1) {
    with("the modulation left out", 1, zeros);
    with("the modulation of the other half", 1, [](const Tensor& table) { return parts_rotated(table, 3); });
    with("the modulation's next part", 1, [](const Tensor& table) { return parts_rotated(table, 1); });
  } else if (row == "h3_swiglu") {
    with("the activation on the other half", 0, spoil::halves_swapped);
  } else if (row == "h3_mm_rope_3axis_partial") {
    with("the opposite angle", 2,
         [](const Tensor& sin) { return spoil::values(sin, [](float x) { return -x; }); });
    matches.look("no rotation", call.inputs[0]);
  } else if (row == "h3_full_attention") {
    matches.look("keys in reverse order", [&] {
      NodeCall other = call;
      for (const std::size_t i : {1, 2}) other.inputs[i] = spoil::rows_reversed(other.inputs[i]);
      return run(other, strict);
    });
    for (const std::int64_t multiple : {8, 64, 128, 256})
      matches.look(fmt::format("keys of zeros up to a multiple of {}", multiple), [&] {
        NodeCall other = call;
        for (const std::size_t i : {1, 2}) other.inputs[i] = spoil::padded(other.inputs[i], multiple);
        return run(other, strict);
      });
  }
}

}  // namespace

std::optional<Appearance> appearance_of(const NodeCall& call, const Tensor& found) {
  Matches matches(found);
  matches.look("nothing written", Tensor(found.dtype(), found.shape()));
  matches.look("zeros", zeros(found));
  matches.look("every step wide, one rounding at the end", [&] {
    return run(widened(call), *golden_execution(true, call.config)).to(found.dtype()).reshaped(found.shape());
  });
  const Tensor gradient = call.backward()
                              ? call.gradient.reshaped({call.gradient.shape()[0],
                                                        call.gradient.elements() / call.gradient.shape()[0]})
                              : Tensor();
  if (const auto product = product_of(call, gradient)) look_at_orders(*product, matches);
  if (!call.backward()) look_at_other_operands(call, *cpu_execution(call.config), matches);
  return matches.best();
}

}  // namespace h3
