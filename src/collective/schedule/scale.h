/* Scaling before and after a reduction, Horovod's prescale_factor and postscale_factor. */
#pragma once
#include <lockstep/lockstep.h>

/* 0 stands for 1, as in option structs. */
static inline double ls_scale_factor(double given) {
    return given == 0 ? 1 : given; /* NOLINT: exact */
}
/* INVALID_ARGUMENT for a factor that is not finite, and for integers unless it is 1. field names it. */
ls_status ls_scale_check(const char *field, double factor, ls_dtype dtype);
/* out[i] = in[i] * factor; out may be in. Of float64 in float64, of all other types in float32, rounded once. */
void ls_scale(ls_dtype dtype, void *out, const void *in, size_t count, double factor);
