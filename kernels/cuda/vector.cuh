// Elements of a row in registers: V at a time, widened to FP32, rounded to nearest even on the way out.
#pragma once

#include <cuda_bf16.h>
#include <cuda_fp16.h>

#include <cstdint>

namespace h3::cuda {

__device__ inline float widen(__nv_bfloat16 x) { return __bfloat162float(x); }
__device__ inline float widen(__half x) { return __half2float(x); }
__device__ inline float widen(float x) { return x; }

template <class T>
__device__ inline T narrow(float x);
template <>
__device__ inline __nv_bfloat16 narrow(float x) {
  return __float2bfloat16_rn(x);
}
template <>
__device__ inline __half narrow(float x) {
  return __float2half_rn(x);
}
template <>
__device__ inline float narrow(float x) {
  return x;
}

// One rounding to T, kept in FP32: R(.) of the arithmetic descriptions.
template <class T>
__device__ inline float round_to(float x) {
  return widen(narrow<T>(x));
}

template <int kBytes>
struct Word;
template <>
struct Word<2> {
  using type = std::uint16_t;
};
template <>
struct Word<4> {
  using type = std::uint32_t;
};
template <>
struct Word<8> {
  using type = uint2;
};
template <>
struct Word<16> {
  using type = uint4;
};

// V elements through one load or store of V * sizeof(T) <= 16 bytes, which must be aligned to their size.
template <class T, int V>
struct Vector {
  using Bits = typename Word<V * sizeof(T)>::type;  // what a thread keeps when it waits: half the registers
  float value[V];

  __device__ static Bits load_bits(const T* from) { return *reinterpret_cast<const Bits*>(from); }
  __device__ static Vector of(Bits bits) {
    union {
      Bits bits;
      T element[V];
    } u;
    u.bits = bits;
    Vector v;
#pragma unroll
    for (int i = 0; i < V; ++i) v.value[i] = widen(u.element[i]);
    return v;
  }
  __device__ static Vector load(const T* from) { return of(load_bits(from)); }
  __device__ Bits bits() const {
    union {
      Bits bits;
      T element[V];
    } u;
#pragma unroll
    for (int i = 0; i < V; ++i) u.element[i] = narrow<T>(value[i]);
    return u.bits;
  }
  __device__ void store(T* to) const { *reinterpret_cast<Bits*>(to) = bits(); }
};

}  // namespace h3::cuda
