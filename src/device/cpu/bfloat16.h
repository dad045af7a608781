/* Products of float32 matrices whose factors are rounded to bfloat16. Mirrors what keras.mixed_precision's
 * mixed_bfloat16 does to the products of a layer. */
#pragma once
#include "device/cpu/cpu.h"

struct ls_bfloat16_product;

/* Prepares the product of contiguous matrices of gemm's sizes; where they lie counts in a run alone. UNIMPLEMENTED
 * where oneDNN has none for this processor. ls_bfloat16_product_free frees it. */
ls_status ls_bfloat16_product_new(const struct ls_library *library, const struct ls_gemm *gemm,
                                  struct ls_bfloat16_product **product);
void ls_bfloat16_product_free(struct ls_bfloat16_product *product);              /* NULL is none */
size_t ls_bfloat16_product_workspace(const struct ls_bfloat16_product *product); /* bytes of a run */
/* c = a b, with factors rounded to nearest even and float32 sums; it is not added to c. workspace: aligned. */
ls_status ls_bfloat16_product_run(struct ls_bfloat16_product *product, const struct ls_gemm *gemm, void *workspace);
