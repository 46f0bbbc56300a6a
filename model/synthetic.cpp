#include "model/synthetic.h"

#include <algorithm>
#include <array>
#include <cmath>
#include <cstdlib>
#include <iterator>

#include "model/parallel.h"

namespace h3 {
namespace {

// ---- distributions ----

enum class Spread : std::uint8_t { absolute, per_fan_in };  // std as given, or times 1/sqrt(fan_in)

struct Distribution {
  std::string_view ending;  // of the tensor's name; the first row that fits counts
  float mean, std;
  Spread spread;
  bool planted;
  Pattern pattern;
};

// Away from neutral values on purpose: a norm weight of one, a bias of zero or a gate of zero hides mistakes.
// With these the time embedding is of order one, AdaLN shifts and scales have a std of 0.4, gates are
// 0.7 +- 0.4.
constexpr Distribution kDistributions[] = {
    {"adaln_proj.linear.weight", 0, 0.5f, Spread::per_fan_in, true, Pattern::modulation},
    {"adaln_proj.linear.bias", 0, 0.2f, Spread::absolute, false, Pattern::modulation},
    {"norm_out.linear.weight", 0, 0.5f, Spread::per_fan_in, true, Pattern::even},
    {"norm_out.linear.bias", 0, 0.2f, Spread::absolute, false, Pattern::even},
    {"time_embedder.linear_1.weight", 0, 2.0f, Spread::per_fan_in, true, Pattern::even},
    {"time_embedder.linear_2.weight", 0, 1.25f, Spread::per_fan_in, true, Pattern::even},
    {"attn.norm_q.weight", 1, 0.3f, Spread::absolute, false, Pattern::even},
    {"attn.norm_k.weight", 1, 0.3f, Spread::absolute, false, Pattern::even},
    {"norm1.weight", 1, 0.2f, Spread::absolute, false, Pattern::outliers},
    {"norm2.weight", 1, 0.2f, Spread::absolute, false, Pattern::outliers},
    {"norm.weight", 1, 0.2f, Spread::absolute, false, Pattern::even},
    {"attn.to_out.0.weight", 0, 1.0f, Spread::per_fan_in, true, Pattern::outliers},
    {"ff.net.2.weight", 0, 1.0f, Spread::per_fan_in, true, Pattern::outliers},
    {".weight", 0, 1.0f, Spread::per_fan_in, true, Pattern::even},
    {".bias", 0, 0.1f, Spread::absolute, false, Pattern::even},
};

constexpr float kGateMean = 0.7f, kSmallScale = 0x1p-8f;
constexpr float kLoudNorm = 16;      // norm1 and norm2 of every block, in four channels
constexpr float kMassiveRows = 16;   // output rows of later blocks, in four other channels
constexpr float kMassiveInput = 32;  // a block's input, in the same channels as the rows
constexpr float kHotAttention = 32;  // q and k norm of one late block: logits in the thousands

// Where the outliers sit, in 64ths of the width; the two sets have no channel in common.
constexpr std::array<std::int64_t, kOutliers> kMassive64ths = {3, 17, 40, 55}, kLoud64ths = {9, 23, 34, 49};

void set_outliers(SyntheticRule& rule, const std::array<std::int64_t, kOutliers>& places, float factor,
                  std::int64_t channels) {
  rule.pattern = Pattern::outliers;
  rule.channels = channels;
  for (int i = 0; i < kOutliers; ++i) rule.outlier[i] = places[i] * channels / 64;
  rule.outlier_factor = factor;
}

std::int64_t first_massive_block(const Config& config) { return config.num_layers * 2 / 5; }  // 20 of 50

// ---- runs of elements with one scale and mean ----

#if defined(__GNUC__)
#define H3_ALWAYS_INLINE inline __attribute__((always_inline))
#else
#define H3_ALWAYS_INLINE inline
#endif

H3_ALWAYS_INLINE void store(float value, float& out) { out = value; }
H3_ALWAYS_INLINE void store(float value, Bf16& out) {
  const std::uint32_t bits = std::bit_cast<std::uint32_t>(value);
  out = Bf16((bits + 0x7fffu + ((bits >> 16) & 1u)) >>
             16);  // to_bf16 without its NaN case, which would not vectorise
}

template <class T>
H3_ALWAYS_INLINE void run_body(std::uint64_t key, std::uint64_t first, std::int64_t count, Affine affine,
                               T* out) {
  for (std::int64_t i = 0; i < count; ++i)
    store(synthetic_value(synthetic_normal(key, first + std::uint64_t(i)), affine), out[i]);
}

// The same loop for the instruction sets that have fast 64-bit lanes; the arithmetic is exact or rounded once
// per operation, so the bytes are the same.
#if defined(__x86_64__) && defined(__GNUC__)
template <class T>
__attribute__((target("avx512f,avx512dq,avx512bw,avx512vl"))) void run_avx512(std::uint64_t key,
                                                                              std::uint64_t first,
                                                                              std::int64_t count,
                                                                              Affine affine, T* out) {
  run_body(key, first, count, affine, out);
}
template <class T>
__attribute__((target("avx2"))) void run_avx2(std::uint64_t key, std::uint64_t first, std::int64_t count,
                                              Affine affine, T* out) {
  run_body(key, first, count, affine, out);
}
#endif

template <class T>
void run_portable(std::uint64_t key, std::uint64_t first, std::int64_t count, Affine affine, T* out) {
  run_body(key, first, count, affine, out);
}

template <class T>
using Run = void (*)(std::uint64_t, std::uint64_t, std::int64_t, Affine, T*);

template <class T>
Run<T> best_run() {
#if defined(__x86_64__) && defined(__GNUC__)
  if (__builtin_cpu_supports("avx512dq") && __builtin_cpu_supports("avx512bw") &&
      __builtin_cpu_supports("avx512vl"))
    return run_avx512<T>;
  if (__builtin_cpu_supports("avx2")) return run_avx2<T>;
#endif
  return run_portable<T>;
}

// One past the last element from `index` on that is sure to share its scale and mean.
std::int64_t run_end(const SyntheticRule& rule, std::int64_t index) {
  if (rule.pattern == Pattern::even) return INT64_MAX;
  const std::int64_t row = index / rule.inner, channel = row % rule.channels;
  if (rule.pattern == Pattern::modulation || rule.is_outlier(channel)) return (row + 1) * rule.inner;
  const auto* next = std::upper_bound(std::begin(rule.outlier), std::end(rule.outlier), channel);
  return (row - channel + (next == std::end(rule.outlier) ? rule.channels : *next)) * rule.inner;
}

template <class T>
void fill(const SyntheticRule& rule, std::int64_t first, std::int64_t count, T* out) {
  static const Run<T> run = best_run<T>();
  const std::int64_t last = first + count;
  for (std::int64_t index = first; index < last;) {
    const std::int64_t end = std::min(last, run_end(rule, index));
    run(rule.key, std::uint64_t(index), end - index, rule.affine(index), out + (index - first));
    index = end;
  }
  if (!rule.planted) return;
  for (std::int64_t group = first / kPlantGroup; group * kPlantGroup < last; ++group) {
    const std::uint64_t plant = rule.plant(group);
    const std::int64_t index = SyntheticRule::planted_index(group, plant);
    if (index >= first && index < last)
      store(std::bit_cast<float>(rule.planted_bits(plant)), out[index - first]);
  }
}

// Every byte is about to be written, by several threads: poisoning it first would double the work.
Tensor unwritten(DType dtype, Shape shape, std::size_t size_bytes) {
  const std::size_t bytes = std::max<std::size_t>(64, (size_bytes + 63) / 64 * 64);
  auto* memory = static_cast<std::byte*>(std::aligned_alloc(64, bytes));
  if (!memory) fail("out of memory: {} bytes for a {} tensor {}", bytes, name_of(dtype), to_string(shape));
  return {dtype, std::move(shape), std::shared_ptr<std::byte>(memory, [](std::byte* p) { std::free(p); })};
}

Tensor generate(const SyntheticRule& rule, const TensorSpec& spec, std::int64_t first, int threads) {
  constexpr std::int64_t kGrain = std::int64_t(1) << 20;
  Tensor tensor = unwritten(spec.dtype, spec.shape, std::size_t(spec.size_bytes()));
  const std::int64_t width = std::int64_t(size_of(spec.dtype));
  parallel_for(
      0, spec.elements(), kGrain,
      [&](std::int64_t begin, std::int64_t end) {
        fill_range(rule, spec.dtype, first + begin, end - begin, tensor.bytes() + begin * width);
      },
      threads);
  return tensor;
}

}  // namespace

// 47 of 50. A model of a few blocks has none: all its gradients would lie behind it.
std::int64_t hot_block(const Config& config) { return config.num_layers < 8 ? -1 : config.num_layers - 3; }

SyntheticRule synthetic_rule(std::uint64_t seed, const Config& config, const TensorSpec& spec) {
  const auto* row =
      std::find_if(std::begin(kDistributions), std::end(kDistributions),
                   [&](const Distribution& d) { return std::string_view(spec.name).ends_with(d.ending); });
  require(row != std::end(kDistributions), "tensor '{}' has no synthetic distribution", spec.name);

  SyntheticRule rule;
  rule.key = synthetic_key(seed, spec.name);
  rule.mean = row->mean;
  rule.std = row->spread == Spread::absolute ? row->std
                                             : float(double(row->std) / std::sqrt(double(spec.shape.back())));
  rule.planted = row->planted;
  rule.inner = spec.shape.size() == 2 ? spec.shape[1] : 1;

  if (row->pattern == Pattern::modulation) {
    rule.pattern = Pattern::modulation;
    rule.channels = spec.shape[0];
    rule.part_width = config.hidden_size;
    if (spec.shape.size() == 1) {  // the bias carries the means
      rule.gate_mean = kGateMean;
      rule.small_scale = kSmallScale;
    }
  }
  if (row->pattern == Pattern::outliers) {
    const bool norm = spec.shape.size() == 1;
    if (norm)
      set_outliers(rule, kLoud64ths, kLoudNorm, spec.shape[0]);
    else if (spec.group == Group::block && spec.index >= first_massive_block(config))
      set_outliers(rule, kMassive64ths, kMassiveRows, spec.shape[0]);
  }
  const bool qk_norm = row->ending == "attn.norm_q.weight" || row->ending == "attn.norm_k.weight";
  if (qk_norm && spec.group == Group::block && spec.index == hot_block(config)) {
    rule.mean *= kHotAttention;
    rule.std *= kHotAttention;
  }
  return rule;
}

void fill_range(const SyntheticRule& rule, DType dtype, std::int64_t first, std::int64_t count,
                std::byte* out) {
  switch (dtype) {
    case DType::bf16:
      return fill(rule, first, count, reinterpret_cast<Bf16*>(out));
    case DType::fp32:
      return fill(rule, first, count, reinterpret_cast<float*>(out));
    default:
      fail("synthetic values are bf16 or fp32, asked for {}", name_of(dtype));
  }
}

Tensor synthetic(std::uint64_t seed, const Config& config, const TensorSpec& spec, int threads) {
  return generate(synthetic_rule(seed, config, spec), spec, 0, threads);
}

Tensor synthetic_rows(std::uint64_t seed, const Config& config, const TensorSpec& spec,
                      std::int64_t first_row, std::int64_t rows, int threads) {
  require(first_row >= 0 && rows >= 0 && first_row + rows <= spec.shape[0], "{}: rows [{}, {}) of {}",
          spec.name, first_row, first_row + rows, to_string(spec.shape));
  TensorSpec part = spec;
  part.shape[0] = rows;
  const std::int64_t stride = spec.elements() / spec.shape[0];
  return generate(synthetic_rule(seed, config, spec), part, first_row * stride, threads);
}

Tensor synthetic_activation(std::uint64_t seed, const std::string& name, const Shape& shape, DType dtype,
                            float std, bool massive) {
  SyntheticRule rule;
  rule.key = synthetic_key(seed, name);
  rule.std = std;
  rule.planted = true;
  if (massive) set_outliers(rule, kMassive64ths, kMassiveInput, shape.back());
  const bool native = dtype == DType::bf16 || dtype == DType::fp32;
  const Tensor values = generate(rule, {name, shape, native ? dtype : DType::fp32}, 0, 0);
  return native ? values : values.to(dtype);
}

}  // namespace h3
