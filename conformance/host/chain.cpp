// The tensor core's sum: the rule by hand, every implementation against it, and what the GPU answered.
#include "kernels/numerics/chain.h"

#include <gtest/gtest.h>

#include <atomic>
#include <bit>
#include <cstring>
#include <functional>
#include <optional>
#include <ostream>

#include "conformance/operands.h"
#include "fixtures/hdf5.h"
#include "fixtures/path.h"
#include "kernels/numerics/chain_step.h"
#include "model/parallel.h"

namespace h3::numerics {
namespace {

std::uint32_t bits_of(float value) { return std::bit_cast<std::uint32_t>(value); }

testing::AssertionResult same_bits(std::span<const float> expected, std::span<const float> got) {
  if (expected.size() != got.size()) return testing::AssertionFailure() << "sizes differ";
  std::size_t differing = 0, first = 0;
  for (std::size_t i = 0; i < got.size(); ++i)
    if (bits_of(expected[i]) != bits_of(got[i]) && differing++ == 0) first = i;
  if (differing == 0) return testing::AssertionSuccess();
  return testing::AssertionFailure() << fmt::format(
             "{} of {} differ; first at {}: expected {} ({:08x}), got {} ({:08x})", differing, got.size(),
             first, expected[first], bits_of(expected[first]), got[first], bits_of(got[first]));
}

std::vector<float> poisoned(std::int64_t count) {
  return std::vector<float>(std::size_t(count), std::bit_cast<float>(0xffffffffu));
}

// ---- one step, by hand

struct StepRow {
  const char* name;
  std::vector<std::pair<float, float>> products;  // the rest are zeros
  float start;
  std::uint32_t result;
};
void PrintTo(const StepRow& row, std::ostream* out) { *out << row.name; }

struct ChainStep : testing::TestWithParam<StepRow> {};

TEST_P(ChainStep, follows_the_rule) {
  const StepRow& row = GetParam();
  Bf16 a[kChainStep] = {}, b[kChainStep] = {};
  for (std::size_t i = 0; i < row.products.size(); ++i) {
    a[i] = to_bf16(row.products[i].first);
    b[i] = to_bf16(row.products[i].second);
    ASSERT_EQ(to_float(a[i]), row.products[i].first);
    ASSERT_EQ(to_float(b[i]), row.products[i].second);
  }
  EXPECT_EQ(bits_of(chain_step(a, b, row.start)), row.result)
      << std::hex << bits_of(chain_step(a, b, row.start));
}

std::vector<std::pair<float, float>> with(float x, float y, int count, float p, float q) {
  std::vector<std::pair<float, float>> products{{x, y}};
  products.insert(products.end(), std::size_t(count), {p, q});
  return products;
}

const float kHuge = 0x1p127f;
INSTANTIATE_TEST_SUITE_P(
    host, ChainStep,
    testing::Values(
        StepRow{"nothing_is_positive_zero", {}, 0.0f, 0},
        StepRow{"negative_zero_becomes_positive", {{-1, 0}}, -0.0f, 0},
        StepRow{"the_start_is_kept", {}, 0x1.fffffep-100f, bits_of(0x1.fffffep-100f)},
        StepRow{"one_product", {{1.5f, 2.5f}}, 0, bits_of(3.75f)},
        StepRow{"25_fraction_bits_are_kept", with(1, 1, 8, 0x1p-12f, 0x1p-13f), 0, bits_of(1 + 0x1p-22f)},
        StepRow{"the_26th_is_dropped", with(1, 1, 15, 0x1p-13f, 0x1p-13f), 0, bits_of(1)},
        StepRow{"negative_terms_drop_it_too", with(1, 1, 15, -0x1p-13f, 0x1p-13f), 0, bits_of(1)},
        StepRow{"a_product_of_two_significands_is_not_normalised", with(1.5f, 1.5f, 8, 0x1p-12f, 0x1p-13f), 0,
                bits_of(2.25f + 0x1p-22f)},
        StepRow{"the_start_takes_part_in_the_alignment", with(1, 0x1p-2f, 8, 0x1p-13f, 0x1p-13f), 2.0f,
                bits_of(2.25f)},
        StepRow{"the_start_is_cut_as_well", {{4, 4}, {-4, 4}}, 0x1.fffffep0f, bits_of(0x1.fffff8p0f)},
        StepRow{"the_sum_is_truncated", with(1, 1, 1, -0x1p-12f, 0x1p-13f), 0, bits_of(1 - 0x1p-24f)},
        StepRow{"below_zero_toward_zero", with(-1, 1, 3, -0x1p-12f, 0x1p-13f), 0, bits_of(-1)},
        StepRow{"sums_may_need_more_than_32_bits",
                std::vector<std::pair<float, float>>(16, {0x1.fep0f, 0x1.fep0f}), 0x1.fffffep0f,
                bits_of(0x1.0600fep6f)},
        StepRow{"small_results_are_subnormal", {{0x1p-70f, 0x1p-70f}}, 0, 0x200},
        StepRow{"and_truncate_to_zero", {{-0x1p-75f, 0x1p-75f}}, 0, 0x80000000u},
        StepRow{"overflow_is_infinite", {{-kHuge, 2}}, 0, 0xff800000u},
        StepRow{"infinities_stay", {{kHuge, kHuge}, {-1, 1}}, INFINITY, 0x7f800000u},
        StepRow{"opposite_infinities_are_nan", {{-INFINITY, 1}}, INFINITY, 0x7fffffffu},
        StepRow{"infinity_times_zero_is_nan", {{-INFINITY, 0}}, 0, 0x7fffffffu}),
    [](const auto& info) { return std::string(info.param.name); });

// ---- implementations against the rule

// A word of operand data by its kind; `k` is the position in the sum.
struct DataKind {
  const char* name;
  int low, high;         // exponents of the operands
  bool special = false;  // infinities and NaN, any start
  Bf16 (*word)(std::uint64_t random, std::int64_t k) = nullptr;
  int start = 1;  // least exponent of a start that is not zero
};

constexpr DataKind kKinds[] = {
    {"narrow", -2, 2},
    {"spread_8", -8, 8},
    {"spread_60", -60, 60},
    {"at_the_small_end_of_the_fast_path", -51, -45},
    {"at_the_large_end_of_the_fast_path", 20, 30},
    {"tiny_beside_large", -52, 28},
    {"every_finite_exponent", -127, 127, true},
    {"subnormal", -127, -126, true},
    {"infinities_and_nans", -127, 128, true},
    {"sums_beyond_31_bits", 0, 0, false,
     [](std::uint64_t random, std::int64_t) { return Bf16(0x3ff0 | (random & 15)); }},
    {"cancelling", -6, 6, false,
     [](std::uint64_t random, std::int64_t k) {
       return Bf16(std::uint16_t(0x3f80 + (std::uint64_t(k) / 2 % 7 << 7)) | (k % 2 != 0 ? 0x8000 : 0) |
                   (random % 11 == 0 ? 1 : 0));
     }},
    {"zeros", 0, 0, false, [](std::uint64_t random, std::int64_t) { return Bf16(random % 2 ? 0x8000 : 0); }},
    {"a_tiny_product_then_zeros", 0, 0, false,
     [](std::uint64_t random, std::int64_t k) {
       const std::uint64_t exponent = 127 - 60 + (random >> 20) % 3;
       return Bf16(k % 48 != 3 ? 0 : std::uint16_t((random >> 40 & 0x807f) | exponent << 7));
     }},
    {"zeros_beside_large_operands", 0, 0, false,
     [](std::uint64_t random, std::int64_t) { return Bf16(random % 64 ? 0 : 0x4d80); }, -101},  // 2^28
    {"mostly_zeros", -40, 40, false,
     [](std::uint64_t random, std::int64_t) {
       const std::uint64_t exponent = 127 - 40 + (random >> 20) % 81;
       return Bf16(random % 8 ? 0 : std::uint16_t((random >> 40 & 0x807f) | exponent << 7));
     }},
};

Tensor matrix_of(const DataKind& kind, const std::string& name, std::int64_t rows, std::int64_t depth) {
  Tensor tensor(DType::bf16, {rows, depth});
  const OperandSource source(name, 0);
  for (std::int64_t i = 0; i < tensor.elements(); ++i) {
    const std::uint64_t random = source.word(i);
    const std::uint64_t exponent = 127 + kind.low + (random >> 24) % std::uint64_t(kind.high - kind.low + 1);
    Bf16 word = Bf16(std::uint16_t((random & 0x807f) | exponent << 7));
    if (kind.high == 128 && random >> 48 & 0x7f) word = Bf16(std::uint16_t(word) & 0xbfff);  // few infinities
    tensor.data<Bf16>()[i] = kind.word != nullptr ? kind.word(random, i % depth) : word;
  }
  return tensor;
}

std::vector<float> start_of(const DataKind& kind, std::int64_t count) {
  std::vector<float> start(static_cast<std::size_t>(count));
  const OperandSource source("start", 0);
  for (std::int64_t i = 0; i < count; ++i) {
    const std::uint64_t random = source.word(i);
    start[std::size_t(i)] =
        kind.special      ? std::bit_cast<float>(std::uint32_t(random))
        : random % 3 == 0 ? 0.0f
                          : std::ldexp(float(std::int32_t(random)), int(random >> 60) - 31 + kind.start);
  }
  return start;
}

struct IsaRow {
  ChainIsa isa;
  DataKind kind;
};
void PrintTo(const IsaRow& row, std::ostream* out) { *out << name_of(row.isa) << ' ' << row.kind.name; }

std::vector<IsaRow> isa_rows() {
  std::vector<IsaRow> rows;
  for (const ChainIsa isa : {ChainIsa::portable, ChainIsa::avx2, ChainIsa::avx512})
    for (const DataKind& kind : kKinds) rows.push_back({isa, kind});
  return rows;
}

struct ChainIsas : testing::TestWithParam<IsaRow> {};

// Where the machine lacks the instruction set, asking for it is refused; the required cases are the same
// everywhere.
TEST_P(ChainIsas, equals_the_reference_or_is_refused) {
  const auto& [isa, kind] = GetParam();
  if (const auto isas = available_chain_isas(); std::find(isas.begin(), isas.end(), isa) == isas.end()) {
    const Tensor a = matrix_of(kind, "a", 1, 16);
    float c = 0;
    EXPECT_THROW(chain_with(isa, rows_of(a), rows_of(a), nullptr, &c, 1), Error);
    return;
  }
  // Tails in every extent: of a tile, of a block of the depth, of a step.
  struct Extents {
    std::int64_t rows, columns, depth;
  };
  for (const auto [rows, columns, depth] : {Extents{19, 77, 331}, Extents{1, 1, 1}, Extents{3, 64, 128}}) {
    const Tensor a = matrix_of(kind, "a", rows, depth), b = matrix_of(kind, "b", columns, depth);
    std::vector<float> expected = poisoned(rows * columns), got = expected;
    const std::vector<float> start = start_of(kind, rows * columns);
    for (const float* from : {static_cast<const float*>(nullptr), start.data()}) {
      chain_reference(rows_of(a), rows_of(b), from, expected.data(), columns);
      chain_with(isa, rows_of(a), rows_of(b), from, got.data(), columns);
      EXPECT_TRUE(same_bits(expected, got))
          << rows << "x" << columns << "x" << depth << (from ? " from a start" : "");
    }
  }
}

INSTANTIATE_TEST_SUITE_P(host, ChainIsas, testing::ValuesIn(isa_rows()), [](const auto& info) {
  return std::string(name_of(info.param.isa)) + "_" + info.param.kind.name;
});

// ---- simple claims

struct ChainClaim {
  const char* name;
  void (*check)();
};
void PrintTo(const ChainClaim& claim, std::ostream* out) { *out << claim.name; }

std::vector<float> chained(const Operand& a, const Operand& b, const float* start = nullptr) {
  std::vector<float> c = poisoned(a.rows * b.rows);
  chain(a, b, start, c.data(), b.rows);
  return c;
}

Tensor transposed(const Tensor& matrix) {
  Tensor result(DType::bf16, {matrix.cols(), matrix.rows()});
  for (std::int64_t i = 0; i < matrix.rows(); ++i)
    for (std::int64_t j = 0; j < matrix.cols(); ++j)
      result.data<Bf16>()[j * matrix.rows() + i] = matrix.data<Bf16>()[i * matrix.cols() + j];
  return result;
}

void integers_are_exact() {
  const Tensor a = integer_operand("integers.a", {70, 700}, 100),
               b = integer_operand("integers.b", {90, 700}, 100);
  const std::vector<float> c = chained(rows_of(a), rows_of(b));
  for (std::int64_t i = 0; i < 70; ++i)
    for (std::int64_t j = 0; j < 90; ++j) {
      std::int64_t sum = 0;
      for (std::int64_t k = 0; k < 700; ++k)
        sum += std::int64_t(to_float(a.data<Bf16>()[i * 700 + k])) *
               std::int64_t(to_float(b.data<Bf16>()[j * 700 + k]));
      ASSERT_EQ(c[std::size_t(i * 90 + j)], float(sum)) << i << ", " << j;
    }
}

void operands_may_lie_either_way() {
  const Tensor a = normal_operand("layout.a", {45, 300}), b = normal_operand("layout.b", {130, 300});
  const Tensor at = transposed(a), bt = transposed(b);
  const std::vector<float> c = chained(rows_of(a), rows_of(b));
  EXPECT_TRUE(same_bits(c, chained(rows_of(a), columns_of(bt))));
  EXPECT_TRUE(same_bits(c, chained(columns_of(at), rows_of(b))));
  EXPECT_TRUE(same_bits(c, chained(columns_of(at), columns_of(bt))));
}

void operands_may_be_exchanged() {
  const Tensor a = normal_operand("exchange.a", {45, 300}), b = normal_operand("exchange.b", {61, 300});
  const std::vector<float> ab = chained(rows_of(a), rows_of(b)), ba = chained(rows_of(b), rows_of(a));
  for (std::size_t i = 0; i < 45; ++i)
    for (std::size_t j = 0; j < 61; ++j) ASSERT_EQ(bits_of(ab[i * 61 + j]), bits_of(ba[j * 45 + i]));
}

void the_start_continues_a_sum() {
  const Tensor a = normal_operand("start.a", {33, 400}), b = normal_operand("start.b", {40, 400});
  const std::vector<float> whole = chained(rows_of(a), rows_of(b));
  for (const std::int64_t cut : {16, 128, 304}) {
    Operand a_head = rows_of(a), b_head = rows_of(b), a_tail = a_head, b_tail = b_head;
    a_head.depth = b_head.depth = cut;
    a_tail.depth = b_tail.depth = 400 - cut;
    a_tail.data += cut;
    b_tail.data += cut;
    std::vector<float> c = chained(a_head, b_head);
    chain(a_tail, b_tail, c.data(), c.data(), 40);
    EXPECT_TRUE(same_bits(whole, c)) << cut;
  }
}

void the_start_continues_a_sum_in_every_task() {  // 512 rows and 256 columns make one
  const Tensor a = normal_operand("tasks.a", {600, 48}), b = normal_operand("tasks.b", {300, 48});
  const std::vector<float> whole = chained(rows_of(a), rows_of(b));
  Operand a_head = rows_of(a), b_head = rows_of(b), a_tail = a_head, b_tail = b_head;
  a_head.depth = b_head.depth = 16;
  a_tail.depth = b_tail.depth = 32;
  a_tail.data += 16;
  b_tail.data += 16;
  std::vector<float> c = chained(a_head, b_head);
  chain(a_tail, b_tail, c.data(), c.data(), 300);
  EXPECT_TRUE(same_bits(whole, c));
}

// Rows so small that the fast path may lose their last bits, columns that ask for no care; from the first
// step on, or after one of zeros.
void one_side_may_be_small() {
  const Tensor large = normal_operand("small.b", {70, 160}, -44);
  for (const std::int64_t zeros : {0, 16}) {
    Tensor small = normal_operand("small.a", {9, 160}, -62);
    for (std::int64_t row = 0; row < 9; ++row) std::fill_n(small.data<Bf16>() + row * 160, zeros, Bf16(0));
    std::vector<float> expected = poisoned(9 * 70), got = expected;
    chain_reference(rows_of(small), rows_of(large), nullptr, expected.data(), 70);
    for (const ChainIsa isa : available_chain_isas()) {
      chain_with(isa, rows_of(small), rows_of(large), nullptr, got.data(), 70);
      EXPECT_TRUE(same_bits(expected, got)) << name_of(isa) << " after " << zeros << " zeros";
    }
  }
}

void only_the_result_is_written() {
  const Tensor a = normal_operand("band.a", {5, 64}), b = normal_operand("band.b", {37, 64});
  std::vector<float> wide = poisoned(5 * 50);
  chain(rows_of(a), rows_of(b), nullptr, wide.data(), 50);
  const std::vector<float> c = chained(rows_of(a), rows_of(b));
  for (std::size_t i = 0; i < 5; ++i)
    for (std::size_t j = 0; j < 50; ++j)
      ASSERT_EQ(bits_of(wide[i * 50 + j]), j < 37 ? bits_of(c[i * 37 + j]) : 0xffffffffu) << i << ", " << j;
}

void a_row_does_not_see_its_neighbours() {
  const Tensor a = normal_operand("rows.a", {600, 272}), b = normal_operand("rows.b", {300, 272});
  const std::vector<float> together = chained(rows_of(a), rows_of(b));
  for (const std::int64_t row : {0, 1, 255, 511, 512, 599}) {
    const std::vector<float> alone = chained(rows_of(a.row_range(row, 1)), rows_of(b));
    EXPECT_TRUE(same_bits(std::span(together).subspan(std::size_t(row * 300), 300), alone)) << row;
  }
}

void threads_do_not_matter() {
  const Tensor a = normal_operand("threads.a", {600, 272}), b = normal_operand("threads.b", {700, 272});
  const int before = thread_count();
  std::optional<std::vector<float>> first;
  for (const int count : {1, 2, 3, 7}) {
    set_thread_count(count);
    const std::vector<float> c = chained(rows_of(a), rows_of(b));
    if (first) {
      EXPECT_TRUE(same_bits(*first, c)) << count;
    }
    first = c;
  }
  set_thread_count(before);
}

// Data that cannot tell one order of summation from another would prove nothing above.
void the_order_of_the_sum_is_seen() {
  const Tensor a = normal_operand("order.a", {40, 400}), b = normal_operand("order.b", {40, 400});
  Operand a_back = rows_of(a), b_back = rows_of(b);
  a_back.data += 399;
  b_back.data += 399;
  a_back.depth_stride = b_back.depth_stride = -1;
  EXPECT_FALSE(same_bits(chained(rows_of(a), rows_of(b)), chained(a_back, b_back)));
  std::vector<float> plain(1600, 0.0f);
  for (std::size_t i = 0; i < 1600; ++i)
    for (std::size_t k = 0; k < 400; ++k)
      plain[i] = std::fma(to_float(a.values<Bf16>()[i / 40 * 400 + k]),
                          to_float(b.values<Bf16>()[i % 40 * 400 + k]), plain[i]);
  EXPECT_FALSE(same_bits(plain, chained(rows_of(a), rows_of(b))));
}

std::string error_of(const std::function<void()>& action) {
  try {
    action();
  } catch (const Error& error) {
    return error.what();
  }
  return "no error";
}

void misfits_are_one_line() {
  const Tensor a = normal_operand("errors.a", {2, 32}), b = normal_operand("errors.b", {3, 48});
  float c[6];
  EXPECT_EQ(error_of([&] { chain(rows_of(a), rows_of(b), nullptr, c, 3); }),
            "chain: depths 32 and 48 differ");
  EXPECT_EQ(error_of([&] { chain(rows_of(b), rows_of(b), nullptr, c, 2); }),
            "chain: row stride 2 of the result is below its 3 columns");
  EXPECT_EQ(error_of([&] { chain(Operand{}, rows_of(b), nullptr, c, 3); }),
            "chain: empty operand (0 and 3 rows, depth 0)");
  EXPECT_EQ(error_of([&] { rows_of(Tensor(DType::fp32, {2, 2})); }), "tensor holds fp32, asked for bf16");
}

void parallel_ranges_cover_once_and_errors_arrive() {
  std::vector<std::atomic<int>> seen(1000);
  parallel_for(0, 1000, 7, [&](std::int64_t first, std::int64_t last) {
    parallel_for(first, last, 1, [&](std::int64_t i, std::int64_t) { ++seen[std::size_t(i)]; });
  });
  for (const auto& count : seen) ASSERT_EQ(count, 1);
  EXPECT_EQ(error_of([] {
              parallel_for(0, 100, 1, [](std::int64_t i, std::int64_t) { require(i != 63, "range {}", i); });
            }),
            "range 63");
}

struct Chain : testing::TestWithParam<ChainClaim> {};

TEST_P(Chain, keeps_its_promise) { GetParam().check(); }

#define CLAIM(name) \
  ChainClaim { #name, name }
INSTANTIATE_TEST_SUITE_P(host, Chain,
                         testing::Values(CLAIM(integers_are_exact), CLAIM(operands_may_lie_either_way),
                                         CLAIM(operands_may_be_exchanged), CLAIM(the_start_continues_a_sum),
                                         CLAIM(the_start_continues_a_sum_in_every_task),
                                         CLAIM(one_side_may_be_small), CLAIM(only_the_result_is_written),
                                         CLAIM(a_row_does_not_see_its_neighbours),
                                         CLAIM(threads_do_not_matter), CLAIM(the_order_of_the_sum_is_seen),
                                         CLAIM(misfits_are_one_line),
                                         CLAIM(parallel_ranges_cover_once_and_errors_arrive)),
                         [](const auto& info) { return std::string(info.param.name); });
#undef CLAIM

// ---- what the GPU answered for operands that no healthy model shows

struct ChainFixture : testing::TestWithParam<const char*> {
  void SetUp() override {
    if (!exists(fixture_path("products.h5"))) GTEST_SKIP() << "fixture_absent: products.h5";
  }
};

TEST_P(ChainFixture, matches_the_gpu) {
  const Hdf5Reader file(fixture_path("products.h5"));
  const std::string group = std::string("adversarial/") + GetParam() + "/";
  const Tensor a = file.read(group + "a"), b = file.read(group + "b"), y = file.read(group + "y");
  EXPECT_TRUE(same_bits(y.values<float>(), chained(rows_of(a), rows_of(b))));
}

INSTANTIATE_TEST_SUITE_P(host, ChainFixture,
                         testing::Values("exponents_8", "exponents_60", "one_step_exponents_14",
                                         "subnormal_operands", "subnormal_among_normal", "subnormal_results",
                                         "products_below_fp32", "sums_beyond_31_bits",
                                         "sums_beyond_31_bits_negative", "exact_cancellation",
                                         "late_cancellation", "zeros_of_both_signs", "only_negative_zeros",
                                         "zeros_against_huge", "subnormal_against_huge", "near_overflow",
                                         "overflow", "infinities", "opposite_infinities",
                                         "infinity_times_zero", "nans"),
                         [](const auto& info) { return std::string(info.param); });

}  // namespace
}  // namespace h3::numerics
