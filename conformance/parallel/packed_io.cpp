// Gate parallel, RFC row distributed_packed_io: packed rows scattered from rank 0 with what describes them,
// and gathered again. Every row keeps its identity; the streams of the modalities come back as they were.
#include <ostream>

#include "conformance/claims.h"
#include "conformance/parallel/runs.h"
#include "model/synthetic.h"

namespace h3 {
namespace {

struct PackedRow {
  const char* layout;
  int ranks;
};
void PrintTo(const PackedRow& row, std::ostream* out) { *out << row.layout << "_ranks" << row.ranks; }

struct PackedIo : testing::TestWithParam<PackedRow> {};

TEST_P(PackedIo, keeps_the_identity_of_every_row) {
  const PackedLayout layout =
      named_layout(GetParam().layout == std::string("768p_124f") ? "768p-124f" : GetParam().layout);
  const std::int64_t rows = layout.rows();
  const Ownership ownership(Config{}, rows, GetParam().ranks);
  Tensor ids(DType::i64, {rows, 1});
  std::ranges::copy(layout.row_ids, ids.values<std::int64_t>().begin());
  const std::map<std::string, Tensor> sent = {
      {"hidden_states", synthetic_activation(3, "packed", {rows, 24}, DType::bf16)},
      {"positions", layout.positions_tensor()},
      {"adaln_indices", layout.adaln_indices_tensor().reshaped({rows, 1})},
      {"row_ids", ids}};
  std::map<std::string, Tensor> back;
  run_logical_ranks(GetParam().ranks, std::chrono::minutes(1), [&](Exchange& exchange) {
    for (const auto& [name, whole] : sent) {
      const Extent extent = {rows, whole.cols()};
      const Tensor on_root = exchange.rank() == 0 ? whole : Tensor(whole.dtype(), {0, 0});
      const Tensor own = redistribute(on_root, ownership, kRoot, rows_by(Kind::rows), extent, exchange, name);
      const h3::Run run = ownership.of(Kind::rows, exchange.rank());
      require(own.shape() == Shape{run.count, extent.cols}, "rank {}: {} {}", exchange.rank(), name,
              to_string(own.shape()));
      require(bool(bitwise_equal(whole.row_range(run.first, run.count), own)), "rank {}: {} of other rows",
              exchange.rank(), name);
      const Tensor gathered =
          redistribute(own, ownership, rows_by(Kind::rows), kRoot, extent, exchange, name);
      if (exchange.rank() == 0) back[name] = gathered;
    }
  });
  for (const auto& [name, whole] : sent) EXPECT_TRUE(bitwise_equal(whole, back.at(name))) << name;
}

constexpr PackedRow kPacked[] = {{"tiny", 1},   {"tiny", 7},   {"small", 2},     {"small", 8},
                                 {"medium", 3}, {"medium", 7}, {"768p_124f", 4}, {"768p_124f", 7}};
INSTANTIATE_TEST_SUITE_P(parallel, PackedIo, testing::ValuesIn(kPacked), kRowName);

}  // namespace
}  // namespace h3
