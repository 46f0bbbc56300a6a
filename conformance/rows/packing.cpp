// Boundary packing: rows of the modalities to their places, and back out.
#include "kernels/packing.h"

#include "conformance/rows/on_cuda.h"
#include "golden/packing.h"
#include "model/synthetic.h"

namespace h3 {
namespace {

struct PackingRow {
  const char* name;
  std::int64_t text, video, audio, cols;
};
void PrintTo(const PackingRow& row, std::ostream* out) { *out << row.name; }

struct Packing : testing::TestWithParam<PackingRow> {
  // Places interleave: packed row s goes to the modality that still has rows, in turn.
  void SetUp() override {
    const PackingRow& row = GetParam();
    const std::int64_t counts[] = {row.text, row.video, row.audio};
    std::vector<std::vector<double>> places(3);
    for (std::int64_t s = 0, turn = 0; s < row.text + row.video + row.audio; ++turn)
      if (std::int64_t(places[turn % 3].size()) < counts[turn % 3]) places[turn % 3].push_back(double(s++));
    for (int m = 0; m < 3; ++m) {
      const DType dtype = m == 0 ? DType::bf16 : DType::fp32;
      const Tensor rows = synthetic_activation(7, fmt::format("rows{}", m), {counts[m], row.cols}, dtype);
      modalities.push_back({rows, listed_index(places[m])});
      goldens.push_back({rows.to(DType::bf16).to(DType::fp32), modalities.back().indices});
    }
    length = row.text + row.video + row.audio;
  }
  std::vector<kernels::ModalityRows> modalities;
  std::vector<golden::ModalityRows> goldens;
  std::int64_t length = 0;
};

TEST_P(Packing, rounds_once_and_puts_every_row_in_its_place) {
  GuardedOutput packed(DType::bf16, {length, GetParam().cols});
  kernels::pack_rows(modalities, packed.tensor());
  EXPECT_TRUE(bitwise_equal(golden::pack_rows(goldens).to(DType::bf16), packed.tensor()));
  EXPECT_TRUE(packed.nothing_written_outside());
}

TEST_P(Packing, selection_brings_the_rows_back) {
  Tensor packed(DType::bf16, {length, GetParam().cols});
  kernels::pack_rows(modalities, packed);
  for (const auto& [rows, indices] : modalities) {
    GuardedOutput back(DType::bf16, rows.shape());
    kernels::select_rows(packed, indices, back.tensor());
    EXPECT_TRUE(bitwise_equal(rows.to(DType::bf16), back.tensor()));
    EXPECT_TRUE(back.nothing_written_outside());
  }
}

TEST_P(Packing, gradients_go_back_to_their_rows) {
  const Tensor dpacked = synthetic_activation(7, "dpacked", {length, GetParam().cols}, DType::bf16);
  std::vector<kernels::ModalityRows> gradients;
  for (const auto& [rows, indices] : modalities)
    gradients.push_back({Tensor(rows.dtype(), rows.shape()), indices});
  kernels::pack_rows_backward(dpacked, gradients);
  for (const auto& [rows, indices] : gradients)
    EXPECT_TRUE(bitwise_equal(golden::select_rows(dpacked.to(DType::fp32), indices).to(rows.dtype()), rows));
}

TEST_P(Packing, selected_rows_bring_their_gradients_and_the_others_none) {
  for (const auto& [rows, indices] : modalities) {
    const Tensor drows = synthetic_activation(7, "drows", rows.shape(), DType::bf16);
    GuardedOutput dpacked(DType::bf16, {length, GetParam().cols});
    kernels::select_rows_backward(drows, indices, dpacked.tensor());
    const Tensor golden = golden::select_rows_backward(drows.to(DType::fp32), indices, length);
    EXPECT_TRUE(bitwise_equal(golden.to(DType::bf16), dpacked.tensor()));
    EXPECT_TRUE(dpacked.nothing_written_outside());
  }
}

constexpr PackingRow kRows[] = {
    {"one_of_each", 1, 1, 1, 8},
    {"more_video", 5, 40, 9, 24},
    {"wide", 20, 200, 44, 5376},
};
INSTANTIATE_TEST_SUITE_P(rows, Packing, testing::ValuesIn(kRows),
                         [](const auto& info) { return info.param.name; });

#ifdef H3_HAVE_CUDA

struct PackingOnCuda : Packing {
  void SetUp() override {
    H3_NEEDS_HOPPER();
    Packing::SetUp();
  }
  Tensor packed_by_the_twin() const {
    Tensor packed(DType::bf16, {length, GetParam().cols});
    kernels::pack_rows(modalities, packed);
    return packed;
  }
};

TEST_P(PackingOnCuda, equals_the_twin) {
  std::vector<kernels::ModalityRows> strict;
  for (const auto& [rows, indices] : modalities) strict.push_back({cuda::upload(rows), indices});
  Tensor packed = cuda::allocate(DType::bf16, {length, GetParam().cols});
  kernels::cuda::pack_rows(strict, packed, nullptr);
  EXPECT_TRUE(bitwise_equal(packed_by_the_twin(), cuda::download(packed)));
}

TEST_P(PackingOnCuda, selection_brings_the_rows_back) {
  const Tensor packed = cuda::upload(packed_by_the_twin());
  for (const auto& [rows, indices] : modalities) {
    Tensor back = cuda::allocate(DType::bf16, rows.shape());
    kernels::cuda::select_rows(packed, {indices, length}, back, nullptr);
    EXPECT_TRUE(bitwise_equal(rows.to(DType::bf16), cuda::download(back)));
  }
}

TEST_P(PackingOnCuda, gradients_equal_the_twins) {
  const Tensor dpacked = synthetic_activation(7, "dpacked", {length, GetParam().cols}, DType::bf16);
  std::vector<kernels::ModalityRows> twin, strict;
  for (const auto& [rows, indices] : modalities) {
    twin.push_back({Tensor(rows.dtype(), rows.shape()), indices});
    strict.push_back({cuda::allocate(rows.dtype(), rows.shape()), indices});
  }
  kernels::pack_rows_backward(dpacked, twin);
  kernels::cuda::pack_rows_backward(cuda::upload(dpacked), strict, nullptr);
  for (std::size_t m = 0; m < twin.size(); ++m) {
    EXPECT_TRUE(bitwise_equal(twin[m].rows, cuda::download(strict[m].rows)));
    const Tensor drows = twin[m].rows.to(DType::bf16);
    const cuda::RowIndex places(twin[m].indices, length);
    Tensor expected(DType::bf16, dpacked.shape()), back = cuda::allocate(DType::bf16, dpacked.shape());
    Tensor memory = workspace(places.runs() * dpacked.cols());
    kernels::select_rows_backward(drows, twin[m].indices, expected);
    kernels::cuda::select_rows_backward(cuda::upload(drows), places, back, memory, nullptr);
    EXPECT_TRUE(bitwise_equal(expected, cuda::download(back)));
  }
}

INSTANTIATE_TEST_SUITE_P(rows_cuda, PackingOnCuda, testing::ValuesIn(kRows),
                         [](const auto& info) { return info.param.name; });

#endif

struct PackingBadInput : testing::TestWithParam<BadInput> {};
TEST_P(PackingBadInput, is_refused) { EXPECT_TRUE(is_refused(GetParam())); }

const BadInput kBad[] = {
    {"a_row_given_twice", "packing: packed row 1 is given twice",
     [](Tensor& y) {
       kernels::pack_rows({{filled(DType::bf16, {2, 8}, 1), listed_index({1, 1})}}, y);
     }},
    {"a_row_not_given", "packing: 1 of 2 packed rows are given, expected all",
     [](Tensor& y) {
       kernels::pack_rows({{filled(DType::bf16, {1, 8}, 1), listed_index({1})}}, y);
     }},
    {"a_place_past_the_end", "packing: indices[1] is 2, expected 0..1",
     [](Tensor& y) {
       kernels::pack_rows({{filled(DType::fp32, {2, 8}, 1), listed_index({0, 2})}}, y);
     }},
    {"selected_past_the_end", "index[0] is 5, expected 0..2",
     [](Tensor& y) {
       kernels::select_rows(filled(DType::bf16, {3, 8}, 1), listed_index({5, 0}), y);
     }},
};
INSTANTIATE_TEST_SUITE_P(rows, PackingBadInput, testing::ValuesIn(kBad), bad_name);

}  // namespace
}  // namespace h3
