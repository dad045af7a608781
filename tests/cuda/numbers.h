/* Numbers of the fakes of cublasLt and cuDNN: they compute in double precision, whatever tensors are stored in. */
#pragma once
#include <lockstep/lockstep.h>

/* count numbers of dtype as doubles, to be freed; tf32: float32 rounded to 10 bits of mantissa first. */
double *ls_numbers_load(const void *from, ls_dtype dtype, size_t count, bool tf32);
void ls_numbers_store(void *to, ls_dtype dtype, const double *from, size_t count);
size_t ls_numbers_size(ls_dtype dtype); /* bytes of one */
