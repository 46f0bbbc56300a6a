// A function so marked is compiled twice on x86-64, for the baseline and for machines with FMA and AVX, and
// the machine picks at load time. It changes the speed, never the bits: std::fma is exact either way, and
// nothing is contracted.
#pragma once

#if defined(__SANITIZE_ADDRESS__) || defined(__SANITIZE_THREAD__)  // not ready when the machine picks
#define H3_VECTOR_CLONES
#elif !defined(__x86_64__) || !defined(__linux__)
#define H3_VECTOR_CLONES
#elif defined(__clang__)  // Clang 14 accepts x86-64-v3 and then never picks it
#define H3_VECTOR_CLONES __attribute__((target_clones("fma", "default")))
#else
#define H3_VECTOR_CLONES __attribute__((target_clones("arch=x86-64-v3", "default")))
#endif
