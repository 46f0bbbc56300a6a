// The rotation of a head that lies in 16 lanes, 8 channels a lane: a channel's partner comes by a shuffle,
// and a lane's angles serve all heads of its packed row.
#pragma once

#include "kernels/cuda/packed.cuh"

namespace h3::cuda {

enum class Turn { forward, backward };

template <Turn kTurn>
class Rotation {
 public:
  static constexpr int kV = 8, kLanes = 16;
  using Part = Packed<__nv_bfloat16, kV>;

  // cos and sin: rows of the tables, `rotated` angles each, a multiple of 16.
  __device__ Rotation(const float* cos, const float* sin, int rotated, int lane)
      : rotates_(lane * kV < rotated), subtracts_((lane * kV < rotated / 2) == (kTurn == Turn::forward)) {
    const int half = rotated / 2 / kV;
    partner_ = !rotates_ ? lane : lane < half ? lane + half : lane - half;
    if (!rotates_) return;
    c_ = angles(cos + lane * kV);
    s_ = angles(sin + (kTurn == Turn::forward ? lane : partner_) * kV);
  }

  // Called by all lanes of a warp at once.
  __device__ Part operator()(const Part& own) const {
    Part other;
#pragma unroll
    for (int i = 0; i < Part::kWords; ++i)
      other.word[i] = __shfl_sync(0xffffffffu, own.word[i], partner_, kLanes);
    if (!rotates_) return own;
    return subtracts_ ? own * c_ - other * s_ : own * c_ + other * s_;
  }

 private:
  __device__ static Part angles(const float* from) {
    using Four = Vector<float, 4>;
    const Four low = Four::load(from), high = Four::load(from + 4);
    Vector<__nv_bfloat16, kV> v;
#pragma unroll
    for (int e = 0; e < 4; ++e) v.value[e] = low.value[e], v.value[4 + e] = high.value[e];
    return Part::rounded(v);
  }

  Part c_, s_;
  int partner_;
  bool rotates_, subtracts_;
};

}  // namespace h3::cuda
