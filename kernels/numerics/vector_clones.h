// A function so marked is compiled twice on x86-64, for the baseline and for AVX2 with FMA (x86-64-v3), and
// the machine picks at load time. It changes the speed, never the bits: std::fma is exact either way, and
// nothing is contracted.
#pragma once

#if defined(__x86_64__) && defined(__linux__) && !defined(__SANITIZE_ADDRESS__)
#define H3_VECTOR_CLONES __attribute__((target_clones("arch=x86-64-v3", "default")))
#else
#define H3_VECTOR_CLONES
#endif
