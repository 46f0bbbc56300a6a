/* libh3_bench_cuda: the benchmark for programs in other languages, in the CUDA context that they already
 * have. Null or a negative number is an error; h3_bench_error() is its line. One thread at a time. */
#pragma once

#include <stdint.h>

#ifdef __cplusplus
extern "C" {
#endif

typedef struct h3_bench h3_bench;

h3_bench* h3_bench_open(int64_t rows, int with_backward);
void h3_bench_close(h3_bench* bench);

/* {"device": "...", "rows": 264, "bytes_per_second": 4.3e12, "items": [{"name": "norm1", "bytes": 5687808},
 * {"name": "q_proj", "flops": ...}, {"name": "block"}, ...]}; lives as long as `bench`. */
const char* h3_bench_describe(const h3_bench* bench);

/* One item on the GPU's clock, in microseconds. */
double h3_bench_run(const h3_bench* bench, const char* name);

const char* h3_bench_error(void);

#ifdef __cplusplus
}
#endif
