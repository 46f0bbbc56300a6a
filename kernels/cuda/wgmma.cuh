// The warpgroup matrix multiply of Hopper (sm_90a) for BF16 operands in shared memory and FP32 sums in
// registers: one instruction is one step of the chain (kernels/numerics/chain.h) for 64 x N elements.
#pragma once

#include <cstdint>

#include "kernels/cuda/hopper.cuh"

namespace h3::cuda::hopper {

// A tile as the instruction finds it: address, 1024 bytes from eight rows to the next eight, 128-byte
// swizzle. Adding kStepBytes / 16 moves on by one step of depth.
__device__ inline std::uint64_t tile_descriptor(std::uint32_t address) {
  return std::uint64_t((address & 0x3ffff) >> 4) | std::uint64_t(1) << 16 | std::uint64_t(1024 >> 4) << 32 |
         std::uint64_t(1) << 62;
}

__device__ inline void multiply_begin() { asm volatile("wgmma.fence.sync.aligned;" ::: "memory"); }
__device__ inline void multiply_commit() { asm volatile("wgmma.commit_group.sync.aligned;" ::: "memory"); }

// Until at most kPending committed groups are unfinished.
template <int kPending>
__device__ inline void multiply_wait() {
  asm volatile("wgmma.wait_group.sync.aligned %0;" ::"n"(kPending) : "memory");
}

// One step of the chain for 64 rows of A and N rows of B: sums = A B^T + sums, or + 0 where `keep` is 0. An
// operand whose depth runs over the rows of its tile is `deep` (see deep_descriptor).
// Thread t of the warpgroup holds the elements (row, column)
//   sums[4 j + 2 h + e] = (16 (t / 32) + 8 h + t % 32 / 4, 8 j + 2 (t % 4) + e),  h, e in {0, 1}.
template <int N>
struct Step;
template <int N, bool kDeepA = false, bool kDeepB = false>
__device__ inline void multiply_step(float* sums, std::uint64_t a, std::uint64_t b, int keep) {
  Step<N>::template run<kDeepA, kDeepB>(sums, a, b, keep);
}

// Register lists, eight columns of B (four registers) at a time.
#define H3_NAMES_8 "%0, %1, %2, %3"
#define H3_NAMES_16 H3_NAMES_8 ", %4, %5, %6, %7"
#define H3_NAMES_24 H3_NAMES_16 ", %8, %9, %10, %11"
#define H3_NAMES_32 H3_NAMES_24 ", %12, %13, %14, %15"
#define H3_NAMES_40 H3_NAMES_32 ", %16, %17, %18, %19"
#define H3_NAMES_48 H3_NAMES_40 ", %20, %21, %22, %23"
#define H3_NAMES_56 H3_NAMES_48 ", %24, %25, %26, %27"
#define H3_NAMES_64 H3_NAMES_56 ", %28, %29, %30, %31"
#define H3_NAMES_72 H3_NAMES_64 ", %32, %33, %34, %35"
#define H3_NAMES_80 H3_NAMES_72 ", %36, %37, %38, %39"
#define H3_NAMES_88 H3_NAMES_80 ", %40, %41, %42, %43"
#define H3_NAMES_96 H3_NAMES_88 ", %44, %45, %46, %47"
#define H3_NAMES_104 H3_NAMES_96 ", %48, %49, %50, %51"
#define H3_NAMES_112 H3_NAMES_104 ", %52, %53, %54, %55"
#define H3_NAMES_120 H3_NAMES_112 ", %56, %57, %58, %59"
#define H3_NAMES_128 H3_NAMES_120 ", %60, %61, %62, %63"
#define H3_NAMES_136 H3_NAMES_128 ", %64, %65, %66, %67"
#define H3_NAMES_144 H3_NAMES_136 ", %68, %69, %70, %71"
#define H3_NAMES_152 H3_NAMES_144 ", %72, %73, %74, %75"
#define H3_NAMES_160 H3_NAMES_152 ", %76, %77, %78, %79"
#define H3_NAMES_168 H3_NAMES_160 ", %80, %81, %82, %83"
#define H3_NAMES_176 H3_NAMES_168 ", %84, %85, %86, %87"
#define H3_NAMES_184 H3_NAMES_176 ", %88, %89, %90, %91"
#define H3_NAMES_192 H3_NAMES_184 ", %92, %93, %94, %95"
#define H3_NAMES_200 H3_NAMES_192 ", %96, %97, %98, %99"
#define H3_NAMES_208 H3_NAMES_200 ", %100, %101, %102, %103"
#define H3_NAMES_216 H3_NAMES_208 ", %104, %105, %106, %107"
#define H3_NAMES_224 H3_NAMES_216 ", %108, %109, %110, %111"
#define H3_NAMES_232 H3_NAMES_224 ", %112, %113, %114, %115"
#define H3_NAMES_240 H3_NAMES_232 ", %116, %117, %118, %119"
#define H3_NAMES_248 H3_NAMES_240 ", %120, %121, %122, %123"
#define H3_NAMES_256 H3_NAMES_248 ", %124, %125, %126, %127"
#define H3_SUMS_8 "+f"(sums[0]), "+f"(sums[1]), "+f"(sums[2]), "+f"(sums[3])
#define H3_SUMS_16 H3_SUMS_8, "+f"(sums[4]), "+f"(sums[5]), "+f"(sums[6]), "+f"(sums[7])
#define H3_SUMS_24 H3_SUMS_16, "+f"(sums[8]), "+f"(sums[9]), "+f"(sums[10]), "+f"(sums[11])
#define H3_SUMS_32 H3_SUMS_24, "+f"(sums[12]), "+f"(sums[13]), "+f"(sums[14]), "+f"(sums[15])
#define H3_SUMS_40 H3_SUMS_32, "+f"(sums[16]), "+f"(sums[17]), "+f"(sums[18]), "+f"(sums[19])
#define H3_SUMS_48 H3_SUMS_40, "+f"(sums[20]), "+f"(sums[21]), "+f"(sums[22]), "+f"(sums[23])
#define H3_SUMS_56 H3_SUMS_48, "+f"(sums[24]), "+f"(sums[25]), "+f"(sums[26]), "+f"(sums[27])
#define H3_SUMS_64 H3_SUMS_56, "+f"(sums[28]), "+f"(sums[29]), "+f"(sums[30]), "+f"(sums[31])
#define H3_SUMS_72 H3_SUMS_64, "+f"(sums[32]), "+f"(sums[33]), "+f"(sums[34]), "+f"(sums[35])
#define H3_SUMS_80 H3_SUMS_72, "+f"(sums[36]), "+f"(sums[37]), "+f"(sums[38]), "+f"(sums[39])
#define H3_SUMS_88 H3_SUMS_80, "+f"(sums[40]), "+f"(sums[41]), "+f"(sums[42]), "+f"(sums[43])
#define H3_SUMS_96 H3_SUMS_88, "+f"(sums[44]), "+f"(sums[45]), "+f"(sums[46]), "+f"(sums[47])
#define H3_SUMS_104 H3_SUMS_96, "+f"(sums[48]), "+f"(sums[49]), "+f"(sums[50]), "+f"(sums[51])
#define H3_SUMS_112 H3_SUMS_104, "+f"(sums[52]), "+f"(sums[53]), "+f"(sums[54]), "+f"(sums[55])
#define H3_SUMS_120 H3_SUMS_112, "+f"(sums[56]), "+f"(sums[57]), "+f"(sums[58]), "+f"(sums[59])
#define H3_SUMS_128 H3_SUMS_120, "+f"(sums[60]), "+f"(sums[61]), "+f"(sums[62]), "+f"(sums[63])
#define H3_SUMS_136 H3_SUMS_128, "+f"(sums[64]), "+f"(sums[65]), "+f"(sums[66]), "+f"(sums[67])
#define H3_SUMS_144 H3_SUMS_136, "+f"(sums[68]), "+f"(sums[69]), "+f"(sums[70]), "+f"(sums[71])
#define H3_SUMS_152 H3_SUMS_144, "+f"(sums[72]), "+f"(sums[73]), "+f"(sums[74]), "+f"(sums[75])
#define H3_SUMS_160 H3_SUMS_152, "+f"(sums[76]), "+f"(sums[77]), "+f"(sums[78]), "+f"(sums[79])
#define H3_SUMS_168 H3_SUMS_160, "+f"(sums[80]), "+f"(sums[81]), "+f"(sums[82]), "+f"(sums[83])
#define H3_SUMS_176 H3_SUMS_168, "+f"(sums[84]), "+f"(sums[85]), "+f"(sums[86]), "+f"(sums[87])
#define H3_SUMS_184 H3_SUMS_176, "+f"(sums[88]), "+f"(sums[89]), "+f"(sums[90]), "+f"(sums[91])
#define H3_SUMS_192 H3_SUMS_184, "+f"(sums[92]), "+f"(sums[93]), "+f"(sums[94]), "+f"(sums[95])
#define H3_SUMS_200 H3_SUMS_192, "+f"(sums[96]), "+f"(sums[97]), "+f"(sums[98]), "+f"(sums[99])
#define H3_SUMS_208 H3_SUMS_200, "+f"(sums[100]), "+f"(sums[101]), "+f"(sums[102]), "+f"(sums[103])
#define H3_SUMS_216 H3_SUMS_208, "+f"(sums[104]), "+f"(sums[105]), "+f"(sums[106]), "+f"(sums[107])
#define H3_SUMS_224 H3_SUMS_216, "+f"(sums[108]), "+f"(sums[109]), "+f"(sums[110]), "+f"(sums[111])
#define H3_SUMS_232 H3_SUMS_224, "+f"(sums[112]), "+f"(sums[113]), "+f"(sums[114]), "+f"(sums[115])
#define H3_SUMS_240 H3_SUMS_232, "+f"(sums[116]), "+f"(sums[117]), "+f"(sums[118]), "+f"(sums[119])
#define H3_SUMS_248 H3_SUMS_240, "+f"(sums[120]), "+f"(sums[121]), "+f"(sums[122]), "+f"(sums[123])
#define H3_SUMS_256 H3_SUMS_248, "+f"(sums[124]), "+f"(sums[125]), "+f"(sums[126]), "+f"(sums[127])

// a, b, keep, ...: the numbers of the operands that follow the sums.
#define H3_MULTIPLY_STEP(n, a_, b_, keep_, deep_a_, deep_b_)                                 \
  template <>                                                                                \
  struct Step<n> {                                                                           \
    template <bool kDeepA, bool kDeepB>                                                      \
    __device__ static void run(float* sums, std::uint64_t a, std::uint64_t b, int keep) {    \
      asm volatile("{\n.reg .pred keep;\nsetp.ne.b32 keep, %" #keep_                         \
                   ", 0;\n"                                                                  \
                   "wgmma.mma_async.sync.aligned.m64n" #n "k16.f32.bf16.bf16 {" H3_NAMES_##n \
                   "}, "                                                                     \
                   "%" #a_ ", %" #b_ ", keep, 1, 1, %" #deep_a_ ", %" #deep_b_ ";\n}"        \
                   : H3_SUMS_##n                                                             \
                   : "l"(a), "l"(b), "r"(keep), "n"(int(kDeepA)), "n"(int(kDeepB)));         \
    }                                                                                        \
  };
H3_MULTIPLY_STEP(8, 4, 5, 6, 7, 8)
H3_MULTIPLY_STEP(16, 8, 9, 10, 11, 12)
H3_MULTIPLY_STEP(32, 16, 17, 18, 19, 20)
H3_MULTIPLY_STEP(64, 32, 33, 34, 35, 36)
H3_MULTIPLY_STEP(88, 44, 45, 46, 47, 48)
H3_MULTIPLY_STEP(128, 64, 65, 66, 67, 68)
H3_MULTIPLY_STEP(136, 68, 69, 70, 71, 72)
H3_MULTIPLY_STEP(152, 76, 77, 78, 79, 80)
H3_MULTIPLY_STEP(160, 80, 81, 82, 83, 84)
H3_MULTIPLY_STEP(176, 88, 89, 90, 91, 92)
H3_MULTIPLY_STEP(192, 96, 97, 98, 99, 100)
H3_MULTIPLY_STEP(232, 116, 117, 118, 119, 120)
H3_MULTIPLY_STEP(256, 128, 129, 130, 131, 132)

#undef H3_MULTIPLY_STEP

// Tiles of 64 columns side by side, `apart` bytes from one to the next, for an operand whose depth runs over
// the rows. Adding kDeepStepBytes / 16 moves on by one step of depth.
inline constexpr int kDeepStepBytes = 16 * kTileRowBytes;
__device__ inline std::uint64_t deep_descriptor(std::uint32_t address, int apart) {
  return std::uint64_t((address & 0x3ffff) >> 4) | std::uint64_t(apart >> 4) << 16 |
         std::uint64_t(1024 >> 4) << 32 | std::uint64_t(1) << 62;
}

// One step of the chain with A in registers: sums += A B for 64 rows of A and 128 columns of B. Words 0 to 3
// of thread t are the pairs of A at rows g, g + 8, g, g + 8 (g = 16 (t / 32) + t % 32 / 4) and depths d, d, d
// + 8, d + 8 (d = 2 (t % 4)): rounded sums of multiply_step<16> in their order.
__device__ inline void multiply_step_of_registers(float* sums, const std::uint32_t* a, std::uint64_t b) {
  asm volatile(
      "{\n.reg .pred keep;\nsetp.ne.b32 keep, 1, 0;\n"
      "wgmma.mma_async.sync.aligned.m64n128k16.f32.bf16.bf16 {" H3_NAMES_128
      "}, {%64, %65, %66, %67}, %68, keep, 1, 1, 1;\n}"
      : H3_SUMS_128
      : "r"(a[0]), "r"(a[1]), "r"(a[2]), "r"(a[3]), "l"(b));
}

// What reads the sums stays behind the wait before it.
__device__ inline void settle(float (&sums)[32]) { asm volatile("" : H3_SUMS_64::"memory"); }
__device__ inline void settle(float (&sums)[64]) { asm volatile("" : H3_SUMS_128::"memory"); }

}  // namespace h3::cuda::hopper
