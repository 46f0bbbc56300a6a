#include "harness/capsule/reduction.h"

#include <algorithm>
#include <cstring>
#include <numeric>

#include "harness/compare/compare.h"
#include "harness/compare/first_difference.h"
#include "harness/execution/backward_chain.h"
#include "harness/execution/row_subset.h"
#include "kernels/numerics/chain.h"

namespace h3 {
namespace {

using Places = std::vector<std::int64_t>;

constexpr std::size_t kOperandBytes = kCapsuleBytes / 10 * 9;
constexpr std::int64_t kColumns = 16;  // so many words tell most orders of a sum apart

Places range(std::int64_t first, std::int64_t count) {
  Places all(static_cast<std::size_t>(count));
  std::iota(all.begin(), all.end(), first);
  return all;
}

// A result as rows and columns; of one extent it is one row.
Tensor flat(const Tensor& x) {
  if (x.shape().size() == 1) return x.reshaped({1, x.elements()});
  return x.reshaped({x.shape()[0], x.elements() / x.shape()[0]});
}

// What of the result the reduced calls give.
struct Selection {
  Places rows, columns;

  Tensor of(const Tensor& result) const { return gather_columns(gather_rows(flat(result), rows), columns); }
};

// How small a part of the result can be had by itself.
enum class Grain { element, head, row, whole };

bool is_gemm(const Node& node) { return node.row.ends_with("_gemm"); }
bool is_norm(const Node& node) { return node.row == "h3_rmsnorm"; }
bool is_head_norm(const Node& node) { return node.row == "h3_qk_rmsnorm_d128"; }
bool is_rope(const Node& node) { return node.row == "h3_mm_rope_3axis_partial"; }
bool is_attention(const Node& node) { return node.row == "h3_full_attention"; }
bool is_adaln(const Node& node) { return node.row == "adaln_projection_3mod"; }
bool is_swiglu(const Node& node) { return node.row == "h3_swiglu"; }
bool is_gated(const Node& node) { return node.row == "adaln_gate_residual"; }
bool is_residual(const Node& node) { return node.row == "residual"; }

bool of_stream(const NodeCall& call) { return call.gradient_of == call.node.inputs[0]; }

Grain grain_of(const NodeCall& call) {
  const Node& node = call.node;
  if (is_gemm(node) || is_adaln(node) || is_swiglu(node) || is_gated(node) || is_residual(node))
    return Grain::element;
  if (is_norm(node)) return call.backward() && !of_stream(call) ? Grain::whole : Grain::row;
  if (is_head_norm(node)) return call.backward() && !of_stream(call) ? Grain::whole : Grain::head;
  require(is_rope(node) || is_attention(node), "node '{}' ({}): only nodes of the blocks are reduced",
          node.name, node.row);
  return Grain::head;
}

// The first differing column of the row, others that differ, then their neighbours: what agrees is evidence,
// too.
Places tile(const Tensor& expected, const Tensor& found, std::int64_t row, std::int64_t first,
            std::int64_t most, std::int64_t width) {
  const std::size_t word = size_of(expected.dtype());
  Places chosen = {first}, others;
  for (std::int64_t c = 0; c < width; ++c) {
    if (c == first) continue;
    const std::size_t at = std::size_t(row * expected.cols() + c) * word;
    (std::memcmp(expected.bytes() + at, found.bytes() + at, word) ? chosen : others).push_back(c);
  }
  chosen.resize(std::size_t(std::min<std::int64_t>(most, std::int64_t(chosen.size()))));
  std::ranges::stable_sort(others, {}, [&](std::int64_t c) { return std::abs(c - first); });
  for (const std::int64_t c : others)
    if (std::int64_t(chosen.size()) < most) chosen.push_back(c);
  std::ranges::sort(chosen);
  return chosen;
}

struct Place {
  std::int64_t row, column;
};

// Of the widest call one column's operands.
std::size_t bytes_of_a_column(const NodeCall& call) {
  if (is_adaln(call.node))
    return std::size_t(call.backward() ? call.parameters[0].rows() : 3 * call.parameters[0].cols()) * 2;
  if (!is_gemm(call.node)) return 64;
  const std::int64_t depth = !call.backward()  ? call.parameters[0].cols()
                             : of_stream(call) ? call.parameters[0].rows()
                                               : call.inputs[0].rows();
  return std::size_t(depth) * 2;
}

Places multiplied(const Places& columns, std::int64_t parts, std::int64_t width) {
  Places all;
  for (std::int64_t part = 0; part < parts; ++part)
    for (const std::int64_t c : columns) all.push_back(part * width + c);
  return all;
}

Selection selection_of(const Calls& calls, const Tensor& expected, const Tensor& found, Place at) {
  Grain grain = Grain::element;
  std::size_t column_bytes = 0;
  for (const NodeCall& call : calls) {
    grain = std::max(grain, grain_of(call));
    column_bytes += bytes_of_a_column(call);
  }
  const NodeCall& call = calls.front();
  const Tensor a = flat(expected), b = flat(found);
  const std::int64_t cols = a.cols(), head = call.config.attention_head_dim;
  const auto columns = [&](std::int64_t first, std::int64_t width) {
    const std::int64_t fit = std::max<std::int64_t>(1, std::int64_t(kOperandBytes / 2 / column_bytes));
    return tile(a, b, at.row, first, std::min(kColumns, fit), width);
  };
  if (grain == Grain::whole) return {range(0, a.rows()), range(0, cols)};
  if (grain == Grain::row) return {{at.row}, range(0, cols)};
  if (grain == Grain::head) {
    const bool all_rows = is_attention(call.node) && call.backward() && !of_stream(call);
    return {all_rows ? range(0, a.rows()) : Places{at.row}, range(at.column / head * head, head)};
  }
  const auto parts_of = [&](std::int64_t column) { return range(column / 6 * 6, 6); };
  if (is_adaln(call.node)) {
    const std::int64_t width = call.node.cols;
    if (!call.backward()) return {range(at.row / kTags * kTags, kTags), parts_of(at.column)};
    if (call.gradient_of == call.node.parameters[0])
      return {multiplied(parts_of(at.row % width), kTags, width),
              columns(at.column, std::min(cols, kColumns))};
    if (call.gradient_of == call.node.parameters[1])
      return {{0}, multiplied(parts_of(at.column % width), kTags, width)};
  }
  if (is_swiglu(call.node) && call.backward())
    return {{at.row}, multiplied({at.column % (cols / 2)}, 2, cols / 2)};
  if (is_gated(call.node) && call.backward() && call.gradient_of == call.node.inputs[2])
    return {range(0, a.rows()), multiplied({at.column % call.node.cols}, 6, call.node.cols)};
  return {{at.row}, columns(at.column, cols)};
}

// ---- a call whose result is the selection

class Part {
 public:
  Part(const NodeCall& whole, const Selection& chosen) : whole_(whole), chosen_(chosen), call_(whole) {}

  NodeCall call() {
    const Node& node = whole_.node;
    if (is_gemm(node)) {
      product();
    } else if (is_adaln(node)) {
      adaln();
    } else if (is_norm(node) || is_head_norm(node)) {
      norm();
    } else if (is_rope(node)) {
      one_head({0});
      for (const std::size_t table : {1, 2}) call_.inputs[table] = rows(whole_.inputs[table]);
    } else if (is_attention(node)) {
      const bool all_queries = whole_.backward() && !of_stream(whole_);
      one_head(all_queries ? Places{} : Places{0});
      for (const std::size_t i : {0, 1, 2})
        if (i > 0 || all_queries) call_.inputs[i] = head(whole_.inputs[i]);
      if (whole_.backward()) call_.gradient = flat(call_.gradient);
    } else if (is_swiglu(node)) {
      const std::int64_t width = node.cols;
      Places columns = chosen_.columns;
      if (whole_.backward()) columns.resize(columns.size() / 2);
      call_.inputs[0] = gather_columns(rows(in(0)), multiplied(columns, 2, width));
      narrowed(columns);
    } else {
      residual();
    }
    return call_;
  }

 private:
  Tensor in(std::size_t i) const { return flat(whole_.inputs[i]); }
  Tensor rows(const Tensor& x) const { return gather_rows(flat(x), chosen_.rows); }
  Tensor tile_of(const Tensor& x) const { return gather_columns(rows(x), chosen_.columns); }
  // The node is that narrow, and so is the gradient of its output.
  void narrowed(const Places& columns) {
    call_.node.cols = std::int64_t(columns.size());
    if (whole_.backward()) call_.gradient = gather_columns(rows(whole_.gradient), columns);
  }

  // (S, 1, channels) of the chosen head.
  Tensor head(const Tensor& x) const {
    const Tensor chosen = gather_columns(flat(x), chosen_.columns);
    return chosen.reshaped({chosen.rows(), 1, chosen.cols()});
  }
  void one_head(const Places& by_row) {
    call_.config.num_attention_heads = 1;
    call_.node.cols = std::int64_t(chosen_.columns.size());
    for (const std::int64_t i : by_row)
      call_.inputs[std::size_t(i)] = gather_rows(head(whole_.inputs[std::size_t(i)]), chosen_.rows);
    if (whole_.backward())
      call_.gradient =
          by_row.empty() ? head(whole_.gradient) : gather_rows(head(whole_.gradient), chosen_.rows);
  }

  void product() {
    const Tensor& weight = whole_.parameters[0];
    if (!whole_.backward()) {
      call_.inputs[0] = rows(in(0));
      call_.parameters[0] = gather_rows(weight, chosen_.columns);
      call_.node.cols = std::int64_t(chosen_.columns.size());
    } else if (of_stream(whole_)) {
      call_.inputs[0] = tile_of(in(0));
      call_.parameters[0] = gather_columns(weight, chosen_.columns);
      call_.gradient = rows(whole_.gradient);
    } else {
      call_.inputs[0] = gather_columns(in(0), chosen_.columns);
      call_.parameters[0] = tile_of(weight);
      call_.gradient = gather_columns(flat(whole_.gradient), chosen_.rows);
      call_.node.cols = std::int64_t(chosen_.rows.size());
    }
  }

  // A row of temb makes one row of the table per tag, in which the weight's rows lie tag after tag.
  void adaln() {
    const Tensor &weight = whole_.parameters[0], &bias = whole_.parameters[1];
    const std::int64_t width = whole_.node.cols;
    Places outputs, inputs = range(0, weight.cols());
    if (!whole_.backward()) {
      call_.inputs[0] = gather_rows(in(0), Places{chosen_.rows[0] / kTags});
      outputs = multiplied(chosen_.columns, kTags, width);
    } else if (of_stream(whole_)) {
      outputs = range(0, weight.rows());
      inputs = chosen_.columns;
      call_.inputs[0] = tile_of(in(0));
      call_.gradient = gather_rows(flat(whole_.gradient), range(chosen_.rows[0] * kTags, kTags));
    } else {
      const bool of_bias = whole_.gradient_of == whole_.node.parameters[1];
      outputs = of_bias ? chosen_.columns : chosen_.rows;
      inputs = of_bias ? Places{0} : chosen_.columns;
      call_.inputs[0] = gather_columns(in(0), inputs);
      Places columns = outputs;
      columns.resize(columns.size() / kTags);
      call_.gradient = gather_columns(flat(whole_.gradient), columns);
    }
    call_.parameters = {gather_columns(gather_rows(weight, outputs), inputs), gather_rows(bias, outputs)};
    call_.node.cols = std::int64_t(outputs.size()) / kTags;
  }

  void norm() {
    if (whole_.backward() && !of_stream(whole_)) return;  // a sum over all rows
    if (is_head_norm(whole_.node)) return one_head({0});
    call_.inputs[0] = rows(in(0));
    if (whole_.inputs.size() > 1) one_table_row(1, 2);
    if (whole_.backward()) call_.gradient = rows(whole_.gradient);
  }

  void one_table_row(std::size_t table, std::size_t index) {
    const std::int64_t row = whole_.inputs[index].data<std::int64_t>()[chosen_.rows[0]];
    call_.inputs[table] = gather_rows(whole_.inputs[table], Places{row});
    call_.inputs[index] = Tensor(DType::i64, {1});
    call_.inputs[index].data<std::int64_t>()[0] = 0;
  }

  void residual() {
    const std::int64_t width = whole_.node.cols;
    Places columns = chosen_.columns;
    if (is_residual(whole_.node)) {
      for (Tensor& x : call_.inputs) x = tile_of(x);
    } else if (whole_.backward() && whole_.gradient_of == whole_.node.inputs[2]) {  // a sum over rows
      columns.resize(columns.size() / 6);
      for (const std::size_t i : {0, 1}) call_.inputs[i] = gather_columns(in(i), columns);
      call_.inputs[2] = gather_columns(in(2), chosen_.columns);
      call_.node.cols = std::int64_t(columns.size());
      call_.gradient = gather_columns(flat(whole_.gradient), columns);
      return;
    } else {
      for (const std::size_t i : {0, 1}) call_.inputs[i] = tile_of(in(i));
      one_table_row(2, 3);
      call_.inputs[2] = gather_columns(call_.inputs[2], multiplied(columns, 6, width));
    }
    narrowed(columns);
  }

  const NodeCall& whole_;
  const Selection& chosen_;
  NodeCall call_;
};

// ---- the part of a sum

// Operands of the sum [first, last): depth of a product, keys of attention.
NodeCall of_range(const NodeCall& call, std::int64_t first, std::int64_t last) {
  NodeCall part = call;
  const Places places = range(first, last - first);
  if (is_gemm(call.node)) {
    part.inputs[0] = gather_columns(call.inputs[0], places);
    part.parameters[0] = gather_columns(call.parameters[0], places);
  } else {
    for (const std::size_t i : {1, 2}) part.inputs[i] = gather_rows(call.inputs[i], places);
  }
  return part;
}

// Halves, quarters, ... are left out at both ends as long as the candidate still differs from the row.
void narrow_the_sum(Reduced& reduced, const Execution& strict, const Execution& candidate) {
  NodeCall& call = reduced.calls.front();
  const bool product = is_gemm(call.node);
  if (call.backward() || !(product || is_attention(call.node))) return;
  const std::int64_t all = product ? call.inputs[0].cols() : call.inputs[1].shape()[0],
                     step = product ? numerics::kChainStep : 1;
  std::int64_t first = 0, last = all;
  const auto differs = [&](std::int64_t from, std::int64_t to) {
    const NodeCall part = of_range(call, from, to);
    return !identical(run(part, strict), run(part, candidate));
  };
  for (std::int64_t piece = all / 2 / step * step; piece >= step; piece = piece / 2 / step * step) {
    while (last - first > piece && differs(first, last - piece)) last -= piece;
    while (last - first > piece && differs(first + piece, last)) first += piece;
  }
  if (last - first == all) return;
  call = of_range(call, first, last);
  reduced.expected = run(call, strict);
  reduced.found = run(call, candidate);
  reduced.steps.push_back(
      fmt::format("{} {} to {} of {} are enough", product ? "K" : "keys", first, last - 1, all));
}

void ask_again(Reduced& reduced, const MakeExecution& candidate) {
  const NodeCall& call = reduced.calls.front();
  const auto strict = cpu_execution(call.config);
  try {
    const auto asked = candidate(call.config);
    const Tensor alone = run(reduced.calls, *asked).reshaped(reduced.expected.shape());
    if (identical(alone, reduced.expected)) {
      reduced.steps.push_back(
          "alone the candidate gives the expected words: found depends on what is around it");
      return;
    }
    reduced.steps.push_back(identical(alone, reduced.found)
                                ? "alone the candidate gives the same words"
                                : "alone the candidate gives yet other words, which are kept");
    reduced.found = alone;
    if (reduced.calls.size() == 1) narrow_the_sum(reduced, *strict, *asked);
  } catch (const Error& error) {
    reduced.steps.push_back(fmt::format("the candidate does not take these operands: {}", error.what()));
  }
}

// ---- when it does not fit

std::size_t size_of(const Calls& calls) {
  std::size_t bytes = 0;
  for (const NodeCall& call : calls) bytes += call.size_bytes();
  return bytes;
}

// Attention's values but for one channel: the others are zeros, which cost nothing in a file.
void keep_one_channel(Reduced& reduced, std::int64_t channel) {
  const auto only = [&](const Tensor& x) {
    Tensor masked = x.clone();
    const std::size_t word = h3::size_of(x.dtype());
    for (std::int64_t i = 0; i < x.elements(); ++i)
      if (i % x.cols() != channel) std::memset(masked.bytes() + std::size_t(i) * word, 0, word);
    return masked;
  };
  reduced.calls[0].inputs[2] = only(reduced.calls[0].inputs[2]);
  reduced.expected = only(reduced.expected);
  reduced.found = only(reduced.found);
  reduced.steps.push_back("of the values one channel, the others are zeros");
}

// The leading rows of everything that is taken row by row, and of keys and values.
void cut_rows(Reduced& reduced, std::int64_t count) {
  const std::int64_t all = reduced.calls[0].inputs.size() > 1 && is_attention(reduced.calls[0].node)
                               ? reduced.calls[0].inputs[1].shape()[0]
                               : reduced.calls[0].inputs[0].shape()[0];
  const auto cut = [&](Tensor& x) {
    if (!x.empty() && x.shape()[0] == all) x = x.row_range(0, count).clone();
  };
  for (NodeCall& call : reduced.calls) {
    for (std::size_t i = 0; i < call.inputs.size(); ++i)
      if (call.node.by_row(i) || is_attention(call.node)) cut(call.inputs[i]);
    cut(call.gradient);
  }
  if (reduced.found.shape()[0] == all) {
    cut(reduced.found);
    reduced.rows.resize(std::size_t(count));
  }
  reduced.cut_short = true;
  reduced.steps.push_back(
      fmt::format("does not fit into {} bytes: rows 0 to {} of {} are kept", kCapsuleBytes, count - 1, all));
}

void make_fit(Reduced& reduced, std::int64_t channel) {
  NodeCall& call = reduced.calls.front();
  if (size_of(reduced.calls) <= kOperandBytes) return;
  std::size_t bytes = size_of(reduced.calls);
  if (reduced.calls.size() == 1 && is_attention(call.node) && !call.backward()) {
    keep_one_channel(reduced, channel);
    bytes = call.inputs[1].size_bytes() + std::size_t(call.inputs[2].shape()[0]) * 2;
    if (bytes <= kOperandBytes) return;
  }
  const std::int64_t rows = is_attention(call.node) ? call.inputs[1].shape()[0] : call.inputs[0].shape()[0];
  const auto kept = std::int64_t(double(rows) * double(kOperandBytes) / double(bytes) * 0.9);
  require(kept >= 1 && rows > 1, "node '{}': its smallest part takes {} bytes, a capsule has {}",
          call.node.name, bytes, kCapsuleBytes);
  cut_rows(reduced, kept);
}

}  // namespace

Tensor run(const Calls& calls, const Execution& execution) {
  Tensor sum;
  for (const NodeCall& call : calls) {
    const Tensor part = run(call, execution);
    sum = sum.empty() ? part : sum_of_gradients(execution, sum, part.reshaped(sum.shape()));
  }
  return sum;
}

Reduced reduced(const Calls& calls, const Tensor& expected, const Tensor& found,
                const MakeExecution& candidate) {
  require(!calls.empty() && expected.dtype() == found.dtype() && expected.elements() == found.elements(),
          "reduction: the two results do not fit each other");
  const Tensor given = found.reshaped(expected.shape());
  const Comparison difference = compare(expected, given);
  require(difference.differing > 0, "reduction: the two results are equal");
  const NodeCall& call = calls.front();
  const Tensor matrix = flat(expected);
  const Place at = {difference.first_differing / matrix.cols(), difference.first_differing % matrix.cols()};
  const Selection chosen = selection_of(calls, expected, given, at);

  Reduced made;
  made.row = at.row;
  made.column = at.column;
  made.rows = chosen.rows;
  made.columns = chosen.columns;
  const bool by_head = is_attention(call.node) || is_rope(call.node) || is_head_norm(call.node);
  if (by_head && matrix.cols() > call.config.attention_head_dim)
    made.head = at.column / call.config.attention_head_dim;
  for (const NodeCall& whole : calls) made.calls.push_back(Part(whole, chosen).call());
  const auto strict = cpu_execution(made.calls.front().config);
  made.expected = run(made.calls, *strict);
  made.found = chosen.of(given).reshaped(made.expected.shape());
  require(identical(made.expected, chosen.of(expected).reshaped(made.expected.shape())),
          "node '{}': the row gives other words for these operands alone than in the whole", call.node.name);
  made.steps.push_back(fmt::format("{} of {} words differ; kept: {} of {} rows, {} of {} columns",
                                   difference.differing, difference.elements, chosen.rows.size(),
                                   matrix.rows(), chosen.columns.size(), matrix.cols()));
  if (candidate) ask_again(made, candidate);
  make_fit(made, at.column % call.config.attention_head_dim);
  if (made.cut_short) made.expected = run(made.calls, *strict);
  return made;
}

std::string declared_order(const NodeCall& call) {
  const Node& node = call.node;
  constexpr const char* kChain = "one chain in ascending steps of 16, never split; rounded once";
  if (is_gemm(node) || is_adaln(node)) {
    if (!call.backward())
      return fmt::format("{}over K {}",
                         is_adaln(node) ? "silu rounded; then with the bias added in FP32, " : "", kChain);
    if (of_stream(call)) return fmt::format("over the outputs {}", kChain);
    if (is_adaln(node) && call.gradient_of == node.parameters[1])
      return "over rows: trees of 8 in runs of 128, then the runs; rounded once";
    return fmt::format("over rows {}", kChain);
  }
  if (is_attention(node))
    return call.backward()
               ? "recomputed P; over queries (dk, dv) or keys (dq) one chain, ascending, rounded once"
               : "keys ascending in tiles of 128, one chain; four partial row sums; rounded once";
  if (is_norm(node) || is_head_norm(node)) {
    if (call.backward() && !of_stream(call))
      return "over rows: trees of 8 in runs of 128, then the runs; rounded once";
    return is_norm(node) ? "128 partial sums, halving trees of 32, (0 + 2) + (1 + 3); normalised, scaled and "
                           "shifted with a rounding after each"
                         : "per head as kernels/qk_norm.h states, rounded once";
  }
  if (is_gated(node)) {
    if (!call.backward()) return "gate * branch rounded, then the sum rounded";
    if (call.gradient_of == node.inputs[2])
      return "over rows: trees of 8 in runs of 128, then the runs; rounded once";
    return "one product, rounded";
  }
  if (is_swiglu(node)) return "silu rounded, then the product rounded";
  if (is_rope(node)) return "both products rounded, then their sum rounded";
  return "one sum, rounded";
}

}  // namespace h3
