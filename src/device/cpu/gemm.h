/* Matrix products in float32, row-major and contiguous. */
#pragma once
#include <lockstep/lockstep.h>

struct ls_gemm {
    bool transpose_a, transpose_b;
    int64_t rows, columns, depth;
    const float *a; /* (rows, depth), or (depth, rows) when transposed */
    const float *b; /* (depth, columns), or (columns, depth) when transposed */
    float *c;       /* (rows, columns), overwritten */
};
/* c = a b in the calling thread's OpenMP team. INTERNAL or RESOURCE_EXHAUSTED when the library fails. */
ls_status ls_gemm_run(const struct ls_gemm *gemm);
/* "avx512_core; oneDNN 2.6.3": the instruction set in use and the library's version. */
void ls_gemm_describe(char *text, size_t size);
