/* Element types: sizes, names, and the 16-bit floats in software. */
#pragma once
#include <lockstep/lockstep.h>

/* IEEE 754 binary16 and bfloat16; float to 16 bits rounds to nearest even, NaN stays NaN. */
float ls_half_to_float(uint16_t half);
uint16_t ls_float_to_half(float value);
float ls_bfloat16_to_float(uint16_t value);
uint16_t ls_float_to_bfloat16(float value);

/* INVALID_ARGUMENT for a value that is no ls_dtype, ls_reduce_op, ls_compression, ls_precision. */
ls_status ls_dtype_check(ls_dtype dtype);
ls_status ls_reduce_op_check(ls_reduce_op op);
const char *ls_reduce_op_name(ls_reduce_op op);
const char *ls_communication_name(ls_communication communication); /* "AUTO"; "unknown" for any other value */
ls_status ls_compression_check(ls_compression compression);
const char *ls_compression_name(ls_compression compression); /* "bf16" */
ls_status ls_precision_check(ls_precision precision);
const char *ls_precision_name(ls_precision precision); /* Keras' where it has one: "mixed_bfloat16" */
ls_dtype ls_precision_dtype(ls_precision precision);   /* of what layers give each other */

/* Elements of a shape; -1 when an extent is negative, the rank is bad or the product overflows int64. */
int64_t ls_shape_count(const ls_shape *shape);
bool ls_shape_equal(const ls_shape *a, const ls_shape *b);
/* "(28, 28, 1)" in text. */
void ls_shape_text(const ls_shape *shape, char *text, size_t size);
