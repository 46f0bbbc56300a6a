// The matrix multiply of one warp, for BF16 operands and FP32 sums in registers. One instruction is one step
// of the chain (kernels/numerics/chain.h), as one of the warpgroup's is (wgmma.cuh), and is done sooner: what
// counts where a product is a few long chains.
#pragma once

#include <cstdint>

namespace h3::cuda::hopper {

// sums += A B^T for 16 rows of A, 8 rows of B and 16 of depth. With g = lane / 4 and t = lane % 4:
//   a[2 j + i]  A at row g + 8 i, depths 2 t + 8 j and one more
//   b[j]        B at row g,       depths 2 t + 8 j and one more
//   sums[2 i + e]  row g + 8 i of A, row 2 t + e of B
__device__ inline void multiply_step(float (&sums)[4], const std::uint32_t (&a)[4],
                                     const std::uint32_t (&b)[2]) {
  asm volatile(
      "mma.sync.aligned.m16n8k16.row.col.f32.bf16.bf16.f32 {%0, %1, %2, %3}, {%4, %5, %6, %7}, {%8, %9}, "
      "{%0, %1, %2, %3};"
      : "+f"(sums[0]), "+f"(sums[1]), "+f"(sums[2]), "+f"(sums[3])
      : "r"(a[0]), "r"(a[1]), "r"(a[2]), "r"(a[3]), "r"(b[0]), "r"(b[1]));
}

// Four 8x8 blocks of BF16 words: lane 8 m + i names the place (16 bytes) of row i of block m. Lane 4 g + t
// gets of every block words 2 t and 2 t + 1 of row g, or, transposed, of column g.
__device__ inline void load_blocks(std::uint32_t (&to)[4], std::uint32_t place) {
  asm volatile("ldmatrix.sync.aligned.m8n8.x4.shared.b16 {%0, %1, %2, %3}, [%4];"
               : "=r"(to[0]), "=r"(to[1]), "=r"(to[2]), "=r"(to[3])
               : "r"(place)
               : "memory");
}

__device__ inline void load_blocks_transposed(std::uint32_t (&to)[4], std::uint32_t place) {
  asm volatile("ldmatrix.sync.aligned.m8n8.x4.trans.shared.b16 {%0, %1, %2, %3}, [%4];"
               : "=r"(to[0]), "=r"(to[1]), "=r"(to[2]), "=r"(to[3])
               : "r"(place)
               : "memory");
}

}  // namespace h3::cuda::hopper
