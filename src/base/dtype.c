/* Element types and shapes. The 16-bit conversions follow IEEE 754 (round to nearest, ties to even) in integer
 * arithmetic, so that they are the same on every processor and whatever the denormal mode. */
#include "base/dtype.h"

#include <stdio.h>
#include <string.h>

#include "base/status.h"

static const struct {
    const char *name;
    size_t size;
} dtypes[] = {
    [LS_FLOAT32] = {"float32", 4},   [LS_FLOAT64] = {"float64", 8}, [LS_FLOAT16] = {"float16", 2},
    [LS_BFLOAT16] = {"bfloat16", 2}, [LS_INT32] = {"int32", 4},     [LS_INT64] = {"int64", 8},
};
#define DTYPE_COUNT (sizeof(dtypes) / sizeof(dtypes[0]))

static const char *const op_names[] = {[LS_SUM] = "sum", [LS_MEAN] = "mean", [LS_MIN] = "min", [LS_MAX] = "max"};
#define OP_COUNT (sizeof(op_names) / sizeof(op_names[0]))

size_t ls_dtype_size(ls_dtype dtype) {
    return (size_t)dtype < DTYPE_COUNT ? dtypes[dtype].size : 0;
}

const char *ls_dtype_name(ls_dtype dtype) {
    return (size_t)dtype < DTYPE_COUNT ? dtypes[dtype].name : "unknown";
}

const char *ls_reduce_op_name(ls_reduce_op op) {
    return (size_t)op < OP_COUNT ? op_names[op] : "unknown";
}

const char *ls_communication_name(ls_communication communication) {
    static const char *const names[] = {[LS_AUTO] = "AUTO", [LS_RING] = "RING", [LS_NCCL] = "NCCL"};
    return (size_t)communication < sizeof(names) / sizeof(names[0]) ? names[communication] : "unknown";
}

static const char *const compression_names[] = {
    [LS_COMPRESS_NONE] = "none", [LS_COMPRESS_FP16] = "fp16", [LS_COMPRESS_BF16] = "bf16"};
#define COMPRESSION_COUNT (sizeof(compression_names) / sizeof(compression_names[0]))

const char *ls_compression_name(ls_compression compression) {
    return (size_t)compression < COMPRESSION_COUNT ? compression_names[compression] : "unknown";
}

ls_status ls_compression_check(ls_compression compression) {
    if ((size_t)compression < COMPRESSION_COUNT) return LS_OK;
    return ls_fail(LS_INVALID_ARGUMENT, "compression %d is no ls_compression", (int)compression);
}

static const struct {
    const char *name;
    ls_dtype dtype;
} precisions[] = {
    [LS_PRECISION_FLOAT32] = {"float32", LS_FLOAT32},
    [LS_PRECISION_TF32] = {"tf32", LS_FLOAT32},
    [LS_MIXED_BFLOAT16] = {"mixed_bfloat16", LS_BFLOAT16},
    [LS_MIXED_FLOAT16] = {"mixed_float16", LS_FLOAT16},
};
#define PRECISION_COUNT (sizeof(precisions) / sizeof(precisions[0]))

const char *ls_precision_name(ls_precision precision) {
    return (size_t)precision < PRECISION_COUNT ? precisions[precision].name : "unknown";
}

ls_dtype ls_precision_dtype(ls_precision precision) {
    return (size_t)precision < PRECISION_COUNT ? precisions[precision].dtype : LS_FLOAT32;
}

ls_status ls_precision_check(ls_precision precision) {
    if ((size_t)precision < PRECISION_COUNT) return LS_OK;
    return ls_fail(LS_INVALID_ARGUMENT, "precision %d is no ls_precision", (int)precision);
}

ls_status ls_dtype_check(ls_dtype dtype) {
    if ((size_t)dtype < DTYPE_COUNT) return LS_OK;
    return ls_fail(LS_INVALID_ARGUMENT, "dtype %d is no ls_dtype", (int)dtype);
}

ls_status ls_reduce_op_check(ls_reduce_op op) {
    if ((size_t)op < OP_COUNT) return LS_OK;
    return ls_fail(LS_INVALID_ARGUMENT, "reduce op %d is no ls_reduce_op", (int)op);
}

static uint32_t float_bits(float value) {
    uint32_t bits;
    memcpy(&bits, &value, sizeof(bits));
    return bits;
}

static float bits_float(uint32_t bits) {
    float value;
    memcpy(&value, &bits, sizeof(value));
    return value;
}

float ls_half_to_float(uint16_t half) {
    uint32_t sign = (uint32_t)(half & 0x8000U) << 16, exponent = (half >> 10) & 0x1FU, fraction = half & 0x3FFU;
    if (exponent == 0x1F) return bits_float(sign | 0x7F800000U | fraction << 13);
    if (exponent) return bits_float(sign | (exponent + 112) << 23 | fraction << 13);
    if (!fraction) return bits_float(sign);
    int shift = __builtin_clz(fraction) - 21; /* a denormal half is a normal float */
    fraction = (fraction << shift) & 0x3FFU;
    return bits_float(sign | (uint32_t)(113 - shift) << 23 | fraction << 13);
}

uint16_t ls_float_to_half(float value) {
    uint32_t bits = float_bits(value), magnitude = bits & 0x7FFFFFFFU;
    uint16_t sign = (uint16_t)(bits >> 16 & 0x8000U);
    if (magnitude > 0x7F800000U) return (uint16_t)(sign | 0x7E00U | (magnitude >> 13 & 0x3FFU));
    if (magnitude >= 0x477FF000U) return (uint16_t)(sign | 0x7C00U); /* rounds to 65536 or more */
    if (magnitude < 0x33000001U) return sign;                        /* half the smallest denormal, or less */
    uint32_t exponent = magnitude >> 23, fraction = magnitude & 0x7FFFFFU, drop = 13, base = 0;
    if (exponent >= 113) {
        base = (exponent - 112) << 10;
    } else {
        fraction |= 0x800000U;
        drop = 126 - exponent;
    }
    uint32_t kept = fraction >> drop, rest = fraction & ((1U << drop) - 1), half = 1U << (drop - 1);
    kept += rest > half || (rest == half && (kept & 1U));
    return (uint16_t)(sign | (base + kept));
}

float ls_bfloat16_to_float(uint16_t value) {
    return bits_float((uint32_t)value << 16);
}

uint16_t ls_float_to_bfloat16(float value) {
    uint32_t bits = float_bits(value);
    if ((bits & 0x7FFFFFFFU) > 0x7F800000U) return (uint16_t)(bits >> 16 | 0x40U);
    return (uint16_t)((bits + 0x7FFFU + (bits >> 16 & 1U)) >> 16);
}

int64_t ls_shape_count(const ls_shape *shape) {
    if (shape->rank < 0 || shape->rank > LS_MAX_RANK) return -1;
    int64_t count = 1;
    for (int i = 0; i < shape->rank; i++)
        if (shape->dims[i] < 0 || __builtin_mul_overflow(count, shape->dims[i], &count)) return -1;
    return count;
}

bool ls_shape_equal(const ls_shape *a, const ls_shape *b) {
    if (a->rank != b->rank) return false;
    for (int i = 0; i < a->rank; i++)
        if (a->dims[i] != b->dims[i]) return false;
    return true;
}

void ls_shape_text(const ls_shape *shape, char *text, size_t size) {
    size_t used = (size_t)snprintf(text, size, "(");
    for (int i = 0; i < shape->rank && used < size; i++)
        used += (size_t)snprintf(text + used, size - used, i ? ", %lld" : "%lld", (long long)shape->dims[i]);
    if (used < size) (void)snprintf(text + used, size - used, ")");
}
