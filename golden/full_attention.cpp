#include "golden/full_attention.h"

#include <algorithm>
#include <cmath>
#include <vector>

#include "golden/bound.h"
#include "golden/math.h"
#include "golden/ordered.h"
#include "golden/values.h"

namespace h3::golden {
namespace {

std::int64_t tiles_of(std::int64_t count, std::int64_t tile) { return (count + tile - 1) / tile; }

// One head of one tensor (rows, heads, d): channel c of row s is at [s * stride + c].
struct Head {
  const float* data;
  std::int64_t rows, stride, dim;
};

Head head_of(const Tensor& x, std::int64_t head) {
  const auto& shape = x.shape();
  return {x.data<float>() + head * shape[2], shape[0], shape[1] * shape[2], shape[2]};
}

// Tiles of kTileCols keys, each [channel][key]: the columns of q k^T.
std::vector<double> pack_keys(const Head& k) {
  std::vector<double> packed(std::size_t(tiles_of(k.rows, kTileCols) * kTileCols * k.dim));
  for (std::int64_t s = 0; s < k.rows; ++s)
    for (std::int64_t c = 0; c < k.dim; ++c)
      packed[(s / kTileCols * k.dim + c) * kTileCols + s % kTileCols] = k.data[s * k.stride + c];
  return packed;
}

// Tiles of kTileCols channels, each [key][channel]: the columns of p v.
std::vector<double> pack_values(const Head& v) {
  std::vector<double> packed(std::size_t(tiles_of(v.dim, kTileCols) * kTileCols * v.rows));
  for (std::int64_t s = 0; s < v.rows; ++s)
    for (std::int64_t c = 0; c < v.dim; ++c)
      packed[(c / kTileCols * v.rows + s) * kTileCols + c % kTileCols] = v.data[s * v.stride + c];
  return packed;
}

// kTileRows queries against every key. `weights` is [key][query], room for whole key tiles.
void attend(const Head& q, std::int64_t first, const std::vector<double>& keys,
            const std::vector<double>& values, std::int64_t key_count, std::vector<double>& weights,
            float* out) {
  constexpr std::int64_t kTile = kTileRows * kTileCols;
  const std::int64_t dim = q.dim, rows = std::min(kTileRows, q.rows - first);
  std::vector<double> query(std::size_t(dim * kTileRows));
  for (std::int64_t i = 0; i < rows; ++i)
    for (std::int64_t c = 0; c < dim; ++c) query[c * kTileRows + i] = q.data[(first + i) * q.stride + c];

  for (std::int64_t tile = 0; tile < tiles_of(key_count, kTileCols); ++tile) {
    double logits[kTile] = {};
    accumulate_tile(query.data(), &keys[tile * dim * kTileCols], dim, logits);
    for (std::int64_t i = 0; i < kTileRows; ++i)
      for (std::int64_t j = 0; j < kTileCols; ++j)
        weights[(tile * kTileCols + j) * kTileRows + i] = logits[i * kTileCols + j] / std::sqrt(double(dim));
  }
  double total[kTileRows] = {};
  for (std::int64_t i = 0; i < rows; ++i) {
    double largest = weights[i];
    for (std::int64_t s = 1; s < key_count; ++s) largest = std::max(largest, weights[s * kTileRows + i]);
    for (std::int64_t s = 0; s < key_count; ++s) {
      double& weight = weights[s * kTileRows + i];
      weight = exp(weight - largest);
      total[i] += weight;
    }
  }
  for (std::int64_t tile = 0; tile < tiles_of(dim, kTileCols); ++tile) {
    double sums[kTile] = {};
    accumulate_tile(weights.data(), &values[tile * key_count * kTileCols], key_count, sums);
    for (std::int64_t i = 0; i < rows; ++i)
      for (std::int64_t j = 0; j < std::min(kTileCols, dim - tile * kTileCols); ++j)
        out[(first + i) * q.stride + tile * kTileCols + j] = float(sums[i * kTileCols + j] / total[i]);
  }
}

}  // namespace

Tensor full_attention(const Tensor& q, const Tensor& k, const Tensor& v) {
  require(q.shape().size() == 3 && k.shape().size() == 3,
          "golden full_attention: q {} and k {}, expected 3 extents", to_string(q.shape()),
          to_string(k.shape()));
  const std::int64_t queries = q.shape()[0], keys = k.shape()[0], heads = q.shape()[1], dim = q.shape()[2];
  require_shape("full_attention", "k", k, {keys, heads, dim});
  require_shape("full_attention", "v", v, {keys, heads, dim});
  require(keys > 0, "golden full_attention: no keys");
  const Tensor q32 = fp32(q), k32 = fp32(k), v32 = fp32(v);
  Tensor o(DType::fp32, {queries, heads * dim});
  constexpr std::int64_t kBlock = 256;  // queries of a work item: they share one packing of the head
  const std::int64_t blocks = tiles_of(queries, kBlock);
  parallel_for_each(heads * blocks, [&](std::int64_t item) {
    const std::int64_t head = item / blocks, begin = item % blocks * kBlock;
    const Head query = head_of(q32, head);
    const auto packed_keys = pack_keys(head_of(k32, head)), packed_values = pack_values(head_of(v32, head));
    std::vector<double> weights(std::size_t(tiles_of(keys, kTileCols) * kTileCols * kTileRows));
    for (std::int64_t first = begin; first < std::min(queries, begin + kBlock); first += kTileRows)
      attend(query, first, packed_keys, packed_values, keys, weights, o.data<float>() + head * dim);
  });
  return o;
}

Tensor full_attention_bound(const Tensor& q, const Tensor& k, const Tensor& v) {
  const Tensor o = full_attention(q, k, v), terms = full_attention(q, k, absolute(v));
  const std::int64_t heads = q.shape()[1], dim = q.shape()[2];
  // sum |q||k| <= |q| |k|: the lengths of every head row.
  const auto lengths = [&](const Tensor& x) {
    std::vector<double> squares(std::size_t(x.elements() / dim));
    for (std::int64_t i = 0; i < x.elements(); ++i) squares[i / dim] += double(x.at(i)) * double(x.at(i));
    return squares;
  };
  const auto query = lengths(q), key = lengths(k);
  std::vector<double> longest(std::size_t(heads), 0);
  for (std::size_t i = 0; i < key.size(); ++i) longest[i % heads] = std::max(longest[i % heads], key[i]);
  const double sums = 2 * fp32_sum_unit(k.shape()[0]);
  return bound_of(o, [&](std::int64_t i) {
    const double logit =
        std::sqrt(query[i / dim] * longest[i / dim % heads] / double(dim)) * fp32_sum_unit(dim + 4);
    return terms.at(i) * (kBf16Unit + 2 * logit + sums) + std::fabs(o.at(i)) * kBf16Unit;
  });
}

}  // namespace h3::golden
