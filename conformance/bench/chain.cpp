// Speed of the chain, in 10^9 multiply-adds per second of one core's time, for each instruction set at real
// shapes:
//   h3_bench --benchmark_filter=avx2
#include "kernels/numerics/chain.h"

#include <benchmark/benchmark.h>

#include "conformance/operands.h"

namespace h3::numerics {
namespace {

struct Product {
  const char* name;
  std::int64_t rows, columns, depth;
  bool a_columns, b_columns;  // operands that lie across the sum
};

// A quarter of the columns: the same speed in a quarter of the time.
constexpr Product kProducts[] = {
    {"q_264", 264, 7168 / 4, 5376, false, false},         {"o_264", 264, 5376 / 4, 7168, false, false},
    {"gate_up_264", 264, 28672 / 16, 5376, false, false}, {"down_264", 264, 5376 / 4, 14336, false, false},
    {"down_dx_264", 264, 14336 / 4, 5376, false, true},   {"q_dw_264", 7168 / 4, 5376, 264, true, true},
    {"attention_tile", 512, 128, 128, false, false},
};

void multiply(benchmark::State& state, ChainIsa isa, const Product& product) {
  const auto operand = [](const char* name, std::int64_t rows, std::int64_t depth, bool across) {
    return normal_operand(name, across ? Shape{depth, rows} : Shape{rows, depth});
  };
  const Tensor a = operand("a", product.rows, product.depth, product.a_columns);
  const Tensor b = operand("b", product.columns, product.depth, product.b_columns);
  std::vector<float> c(static_cast<std::size_t>(product.rows * product.columns));
  for (auto _ : state)
    chain_with(isa, product.a_columns ? columns_of(a) : rows_of(a),
               product.b_columns ? columns_of(b) : rows_of(b), nullptr, c.data(), product.columns);
  state.counters["GMAC/s/core"] =
      benchmark::Counter(double(product.rows * product.columns * product.depth) * 1e-9,
                         benchmark::Counter::kIsIterationInvariantRate);
}

const bool kRegistered = [] {
  for (const ChainIsa isa : available_chain_isas())
    for (const Product& product : kProducts)
      benchmark::RegisterBenchmark((std::string("chain/") + name_of(isa) + "/" + product.name).c_str(),
                                   multiply, isa, product)
          ->MeasureProcessCPUTime()
          ->Unit(benchmark::kMillisecond);
  return true;
}();

}  // namespace
}  // namespace h3::numerics
