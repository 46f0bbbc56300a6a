// Elements of a row in their own type, two to a register: sums and products without widening. Each is rounded
// once, to nearest even, and is R of the FP32 operation that the arithmetic descriptions name: FP32 has at
// least 2p + 2 significant bits for the p of BF16 (8) and FP16 (11), and then rounding to FP32 in between
// changes nothing (Figueroa, "When is double rounding innocuous?", 1995). conformance/rows/packed_cuda.cpp
// looks at every pair of words.
#pragma once

#include "kernels/cuda/vector.cuh"

namespace h3::cuda {

// Two elements of one type in 32 bits, as the toolkit's own pairs compute with them.
template <class Pair>
__device__ inline Pair as_pair(std::uint32_t word) {
  return reinterpret_cast<const Pair&>(word);
}
template <class Pair>
__device__ inline std::uint32_t as_word(Pair pair) {
  return reinterpret_cast<const std::uint32_t&>(pair);
}

template <class T>
struct PairOf;
template <>
struct PairOf<__nv_bfloat16> {
  using type = __nv_bfloat162;
  __device__ static type narrow(float low, float high) { return __floats2bfloat162_rn(low, high); }
};
template <>
struct PairOf<__half> {
  using type = __half2;
  __device__ static type narrow(float low, float high) { return __floats2half2_rn(low, high); }
};

// V elements of a 2-byte type; an odd last one shares its word with a zero.
template <class T, int V>
struct Packed {
  using Pair = typename PairOf<T>::type;
  using Bits = typename Vector<T, V>::Bits;
  static constexpr int kWords = (V + 1) / 2;
  union {
    Bits bits;
    std::uint32_t word[kWords];
  };

  __device__ static Packed of(Bits bits) {
    Packed p;
    if constexpr (V % 2 == 1) p.word[kWords - 1] = 0;
    p.bits = bits;
    return p;
  }
  __device__ static Packed load(const T* from) { return of(Vector<T, V>::load_bits(from)); }
  __device__ static Packed rounded(const Vector<T, V>& v) {  // R
    Packed p;
#pragma unroll
    for (int i = 0; i < kWords; ++i)
      p.word[i] = as_word(PairOf<T>::narrow(v.value[2 * i], 2 * i + 1 < V ? v.value[2 * i + 1] : 0));
    return p;
  }
  __device__ static Packed filled(float value) {
    Packed p;
#pragma unroll
    for (int i = 0; i < kWords; ++i) p.word[i] = as_word(PairOf<T>::narrow(value, value));
    return p;
  }
  __device__ Vector<T, V> widened() const { return Vector<T, V>::of(bits); }
  __device__ void store(T* to) const { *reinterpret_cast<Bits*>(to) = bits; }

  __device__ friend Packed operator+(const Packed& a, const Packed& b) {
    return by_pairs(a, b, [](Pair x, Pair y) { return __hadd2_rn(x, y); });
  }
  __device__ friend Packed operator-(const Packed& a, const Packed& b) {
    return by_pairs(a, b, [](Pair x, Pair y) { return __hsub2_rn(x, y); });
  }
  __device__ friend Packed operator*(const Packed& a, const Packed& b) {
    return by_pairs(a, b, [](Pair x, Pair y) { return __hmul2_rn(x, y); });
  }

 private:
  template <class Op>
  __device__ static Packed by_pairs(const Packed& a, const Packed& b, const Op& op) {
    Packed result;
#pragma unroll
    for (int i = 0; i < kWords; ++i)
      result.word[i] = as_word(op(as_pair<Pair>(a.word[i]), as_pair<Pair>(b.word[i])));
    return result;
  }
};

}  // namespace h3::cuda
