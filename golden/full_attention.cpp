#include "golden/full_attention.h"

#include <algorithm>
#include <cmath>
#include <vector>

#include "golden/bound.h"
#include "golden/cuda/attention.h"
#include "golden/math.h"
#include "golden/ordered.h"
#include "golden/values.h"

namespace h3::golden {
namespace {

std::int64_t tiles_of(std::int64_t count, std::int64_t tile) { return (count + tile - 1) / tile; }

// One head of one tensor (rows, heads, d): channel c of row s is at [s * stride + c].
struct Head {
  Reals data;
  std::int64_t rows, stride, dim;

  Head range(std::int64_t first, std::int64_t count) const {
    return {data + first * stride, count, stride, dim};
  }
};

Head head_of(const Tensor& x, std::int64_t head) {
  const auto& shape = x.shape();
  return {Reals(x) + head * shape[2], shape[0], shape[1] * shape[2], shape[2]};
}

// Tiles of `tile` rows, each [channel][row]: what a sum over channels reads. The last one is filled with
// zeros.
std::vector<double> pack_rows(const Head& x, std::int64_t tile) {
  std::vector<double> packed(std::size_t(tiles_of(x.rows, tile) * tile * x.dim));
  for (std::int64_t s = 0; s < x.rows; ++s)
    for (std::int64_t c = 0; c < x.dim; ++c)
      packed[(s / tile * x.dim + c) * tile + s % tile] = x.data[s * x.stride + c];
  return packed;
}

// Tiles of kTileCols channels, each [row][channel]: what a sum over rows reads.
std::vector<double> pack_channels(const Head& x) {
  std::vector<double> packed(std::size_t(tiles_of(x.dim, kTileCols) * kTileCols * x.rows));
  for (std::int64_t s = 0; s < x.rows; ++s)
    for (std::int64_t c = 0; c < x.dim; ++c)
      packed[(c / kTileCols * x.rows + s) * kTileCols + c % kTileCols] = x.data[s * x.stride + c];
  return packed;
}

constexpr std::int64_t kTile = kTileRows * kTileCols;
constexpr std::int64_t kQueryBlock = 64;  // of the backward: queries whose weights are kept for all keys

// Products of kTileRows queries, a tile of pack_rows, with all rows of another head, scaled: [row][query].
void row_products(const double* query, const std::vector<double>& others, std::int64_t dim, std::int64_t rows,
                  double divisor, double* products) {
  for (std::int64_t tile = 0; tile < tiles_of(rows, kTileCols); ++tile) {
    double sums[kTile] = {};
    accumulate_tile(query, &others[tile * dim * kTileCols], dim, sums);
    for (std::int64_t i = 0; i < kTileRows; ++i)
      for (std::int64_t j = 0; j < kTileCols; ++j)
        products[(tile * kTileCols + j) * kTileRows + i] = sums[i * kTileCols + j] / divisor;
  }
}

// Logits [key][query] become exp(logit - largest of the query); total: their sums.
void exponentials(double* weights, std::int64_t keys, std::int64_t queries, double* total) {
  for (std::int64_t i = 0; i < queries; ++i) {
    double largest = weights[i];
    for (std::int64_t s = 1; s < keys; ++s) largest = std::max(largest, weights[s * kTileRows + i]);
    for (std::int64_t s = 0; s < keys; ++s) {
      double& weight = weights[s * kTileRows + i];
      weight = exp(weight - largest);
      total[i] += weight;
    }
  }
}

// out[query] = sum over the keys of weights[key][query] values[key], divided by the query's divisor.
void weighted_sums(const double* weights, const std::vector<double>& values, std::int64_t keys,
                   const Head& shape, const double* divisor, const Store& out, std::int64_t at) {
  for (std::int64_t tile = 0; tile < tiles_of(shape.dim, kTileCols); ++tile) {
    double sums[kTile] = {};
    accumulate_tile(weights, &values[tile * keys * kTileCols], keys, sums);
    for (std::int64_t i = 0; i < shape.rows; ++i)
      for (std::int64_t j = 0; j < std::min(kTileCols, shape.dim - tile * kTileCols); ++j)
        out.set(at + i * shape.stride + tile * kTileCols + j, sums[i * kTileCols + j] / divisor[i]);
  }
}

void check_shapes(const Tensor& q, const Tensor& k, const Tensor& v) {
  require(q.shape().size() == 3 && k.shape().size() == 3,
          "golden full_attention: q {} and k {}, expected 3 extents", to_string(q.shape()),
          to_string(k.shape()));
  const std::int64_t keys = k.shape()[0], heads = q.shape()[1], dim = q.shape()[2];
  require_shape("full_attention", "k", k, {keys, heads, dim});
  require_shape("full_attention", "v", v, {keys, heads, dim});
  require(keys > 0, "golden full_attention: no keys");
}

// Room for all keys, in whole tiles, of kTileRows queries.
std::size_t tile_size(std::int64_t keys) { return std::size_t(tiles_of(keys, kTileCols) * kTile); }

// Sums over the queries of left[query][key] right[query][channel], for a block of queries after another:
// tiles of kTileRows keys and kTileCols channels.
class QuerySums {
 public:
  QuerySums(std::int64_t keys, std::int64_t dim)
      : keys_(keys),
        dim_(dim),
        col_tiles_(tiles_of(dim, kTileCols)),
        sums_(std::size_t(tiles_of(keys, kTileRows) * col_tiles_ * kTile)) {}

  // left: tiles of kTileRows keys, each [query][key]; right: from pack_channels.
  void add(const std::vector<double>& left, const std::vector<double>& right, std::int64_t queries) {
    for (std::int64_t r = 0; r < tiles_of(keys_, kTileRows); ++r)
      for (std::int64_t c = 0; c < col_tiles_; ++c)
        accumulate_tile(&left[r * queries * kTileRows], &right[c * queries * kTileCols], queries,
                        &sums_[(r * col_tiles_ + c) * kTile]);
  }

  // Row s to out[at + s * stride].
  void store(const Store& out, std::int64_t at, std::int64_t stride) const {
    for (std::int64_t s = 0; s < keys_; ++s)
      for (std::int64_t c = 0; c < dim_; ++c)
        out.set(at + s * stride + c, sums_[(s / kTileRows * col_tiles_ + c / kTileCols) * kTile +
                                           s % kTileRows * kTileCols + c % kTileCols]);
  }

 private:
  std::int64_t keys_, dim_, col_tiles_;
  std::vector<double> sums_;
};

// Everything of one head; its first element in dq, dk and dv is `at`.
void backward_of_head(const Head& q, const Head& k, const Head& v, const Head& gradient, std::int64_t at,
                      AttentionGradients& result) {
  const std::int64_t keys = k.rows, dim = q.dim;
  const auto key_tiles = pack_rows(k, kTileCols), value_tiles = pack_rows(v, kTileCols);
  const auto key_channels = pack_channels(k);
  const double root = std::sqrt(double(dim));
  QuerySums dk(keys, dim), dv(keys, dim);
  std::vector<double> p(tile_size(keys)), ds(tile_size(keys));
  const Store dq(result.q);
  for (std::int64_t begin = 0; begin < q.rows; begin += kQueryBlock) {
    const std::int64_t queries = std::min(kQueryBlock, q.rows - begin);
    const Head query = q.range(begin, queries), dout = gradient.range(begin, queries);
    const auto query_tiles = pack_rows(query, kTileRows), gradient_tiles = pack_rows(dout, kTileRows);
    std::vector<double> p_block(std::size_t(tiles_of(keys, kTileRows) * kTileRows * queries)),
        ds_block(p_block.size());
    for (std::int64_t first = 0; first < queries; first += kTileRows) {
      const Head tile = query.range(first, std::min(kTileRows, queries - first));
      double total[kTileRows] = {};
      row_products(&query_tiles[first * dim], key_tiles, dim, keys, root, p.data());
      exponentials(p.data(), keys, tile.rows, total);
      row_products(&gradient_tiles[first * dim], value_tiles, dim, keys, 1, ds.data());
      for (std::int64_t i = 0; i < tile.rows; ++i) {
        double mean = 0;
        for (std::int64_t s = i; s < keys * kTileRows; s += kTileRows) {
          p[s] /= total[i];
          mean += p[s] * ds[s];
        }
        for (std::int64_t s = 0; s < keys; ++s) {
          const std::int64_t here = s * kTileRows + i;
          ds[here] = p[here] * (ds[here] - mean) / root;
          const std::int64_t there = (s / kTileRows * queries + first + i) * kTileRows + s % kTileRows;
          p_block[there] = p[here];
          ds_block[there] = ds[here];
        }
      }
      constexpr double kOne[kTileRows] = {1, 1, 1, 1};
      weighted_sums(ds.data(), key_channels, keys, tile, kOne, dq, at + (begin + first) * q.stride);
    }
    dk.add(ds_block, pack_channels(query), queries);
    dv.add(p_block, pack_channels(dout), queries);
  }
  dk.store(Store(result.k), at, k.stride);
  dv.store(Store(result.v), at, v.stride);
}

}  // namespace

Tensor full_attention(const Tensor& q, const Tensor& k, const Tensor& v, Summation summation) {
  check_shapes(q, k, v);
  if (summation == Summation::gpu) return attention_on_gpu(q, k, v, border_of(q));
  const std::int64_t queries = q.shape()[0], keys = k.shape()[0], heads = q.shape()[1], dim = q.shape()[2];
  const Tensor q_values = widened(q), k_values = widened(k), v_values = widened(v);
  Tensor o(border_of(q), {queries, heads * dim});
  const Store out(o);
  constexpr std::int64_t kBlock = 256;  // queries of a work item: they share one packing of the head
  const std::int64_t blocks = tiles_of(queries, kBlock);
  parallel_for_each(heads * blocks, [&](std::int64_t item) {
    const std::int64_t head = item / blocks, begin = item % blocks * kBlock;
    const Head query = head_of(q_values, head).range(begin, std::min(kBlock, queries - begin));
    const auto query_tiles = pack_rows(query, kTileRows);
    const auto key_tiles = pack_rows(head_of(k_values, head), kTileCols);
    const auto value_tiles = pack_channels(head_of(v_values, head));
    std::vector<double> weights(tile_size(keys));
    for (std::int64_t first = 0; first < query.rows; first += kTileRows) {
      const Head tile = query.range(first, std::min(kTileRows, query.rows - first));
      double total[kTileRows] = {};
      row_products(&query_tiles[first * dim], key_tiles, dim, keys, std::sqrt(double(dim)), weights.data());
      exponentials(weights.data(), keys, tile.rows, total);
      weighted_sums(weights.data(), value_tiles, keys, tile, total, out,
                    ((begin + first) * heads + head) * dim);
    }
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

AttentionGradients full_attention_backward(const Tensor& q, const Tensor& k, const Tensor& v,
                                           const Tensor& gradient, Summation summation) {
  check_shapes(q, k, v);
  require(gradient.elements() == q.elements(), "golden full_attention_backward: gradient {} for q {}",
          to_string(gradient.shape()), to_string(q.shape()));
  if (summation == Summation::gpu) return attention_backward_on_gpu(q, k, v, gradient, border_of(q));
  const Tensor q_values = widened(q), k_values = widened(k), v_values = widened(v),
               gradients = widened(gradient.reshaped(q.shape()));
  const DType border = border_of(q);
  AttentionGradients result{Tensor(border, q.shape()), Tensor(border, k.shape()), Tensor(border, v.shape())};
  parallel_for_each(q.shape()[1], [&](std::int64_t head) {
    backward_of_head(head_of(q_values, head), head_of(k_values, head), head_of(v_values, head),
                     head_of(gradients, head), head * q.shape()[2], result);
  });
  return result;
}

}  // namespace h3::golden
