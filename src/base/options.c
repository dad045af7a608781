/* Reading option structs of this and older versions, and what the values of options are called. */
#include "base/options.h"

#include <string.h>

#include "base/status.h"

ls_status ls_options_copy(const char *name, void *copy, size_t known, const void *options) {
    size_t size = 0;
    memset(copy, 0, known);
    if (!options) return LS_OK;
    memcpy(&size, options, sizeof(size));
    if (size < sizeof(size) || size > known)
        return ls_fail(LS_INVALID_ARGUMENT,
                       "%s.size is %zu, this library knows %zu bytes: fill the struct with its macro and use the "
                       "header of this version (%s)",
                       name, size, known, LS_VERSION);
    memcpy(copy, options, size);
    return LS_OK;
}

/* ---- names of the values of the public enums ---- */

#define NAME_OF(names, value) ((size_t)(value) < sizeof(names) / sizeof((names)[0]) ? (names)[value] : "unknown")
#define CHECK(names, value, what, type)                                                                                \
    ((size_t)(value) < sizeof(names) / sizeof((names)[0])                                                              \
         ? LS_OK                                                                                                       \
         : ls_fail(LS_INVALID_ARGUMENT, what " %d is no " type, (int)(value)))

static const char *const op_names[] = {[LS_SUM] = "sum", [LS_MEAN] = "mean",       [LS_MIN] = "min",
                                       [LS_MAX] = "max", [LS_PRODUCT] = "product", [LS_ADASUM] = "adasum"};

const char *ls_option_names_reduce_op(ls_reduce_op op) {
    return NAME_OF(op_names, op);
}

ls_status ls_option_names_check_reduce_op(ls_reduce_op op) {
    return CHECK(op_names, op, "reduce op", "ls_reduce_op");
}

const char *ls_option_names_communication(ls_communication communication) {
    static const char *const names[] = {[LS_AUTO] = "AUTO", [LS_RING] = "RING", [LS_NCCL] = "NCCL"};
    return NAME_OF(names, communication);
}

static const char *const consistency_names[] = {[LS_SYNC] = "sync", [LS_DELAYED] = "delayed", [LS_ASYNC] = "async"};

const char *ls_option_names_consistency(ls_consistency consistency) {
    return NAME_OF(consistency_names, consistency);
}

ls_status ls_option_names_check_consistency(ls_consistency consistency) {
    return CHECK(consistency_names, consistency, "consistency", "ls_consistency");
}

static const char *const compression_names[] = {
    [LS_COMPRESS_NONE] = "none", [LS_COMPRESS_FP16] = "fp16", [LS_COMPRESS_BF16] = "bf16"};

const char *ls_option_names_compression(ls_compression compression) {
    return NAME_OF(compression_names, compression);
}

ls_status ls_option_names_check_compression(ls_compression compression) {
    return CHECK(compression_names, compression, "compression", "ls_compression");
}

static const char *const precision_names[] = {[LS_PRECISION_FLOAT32] = "float32",
                                              [LS_PRECISION_TF32] = "tf32",
                                              [LS_MIXED_BFLOAT16] = "mixed_bfloat16",
                                              [LS_MIXED_FLOAT16] = "mixed_float16"};

const char *ls_option_names_precision(ls_precision precision) {
    return NAME_OF(precision_names, precision);
}

ls_dtype ls_option_names_precision_dtype(ls_precision precision) {
    return precision == LS_MIXED_BFLOAT16 ? LS_BFLOAT16 : precision == LS_MIXED_FLOAT16 ? LS_FLOAT16 : LS_FLOAT32;
}

ls_status ls_option_names_check_precision(ls_precision precision) {
    return CHECK(precision_names, precision, "precision", "ls_precision");
}
