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

/* ---- the values of the public enums: their names, and whether one is among them ---- */

#define NAMES(of, type, ...)                                                                                           \
    static const char *const of##_names[] = {__VA_ARGS__};                                                             \
    const char *ls_option_names_##of(type value) {                                                                     \
        bool known = (size_t)value < sizeof(of##_names) / sizeof(of##_names[0]);                                       \
        return known ? of##_names[value] : "unknown";                                                                  \
    }
#define CHECK(of, type, what)                                                                                          \
    ls_status ls_option_names_check_##of(type value) {                                                                 \
        if ((size_t)value < sizeof(of##_names) / sizeof(of##_names[0])) return LS_OK;                                  \
        return ls_fail(LS_INVALID_ARGUMENT, what " %d is no " #type, (int)value);                                      \
    }

NAMES(reduce_op, ls_reduce_op, [LS_SUM] = "sum", [LS_MEAN] = "mean", [LS_MIN] = "min", [LS_MAX] = "max",
      [LS_PRODUCT] = "product", [LS_ADASUM] = "adasum")
CHECK(reduce_op, ls_reduce_op, "reduce op")
NAMES(communication, ls_communication, [LS_AUTO] = "AUTO", [LS_RING] = "RING", [LS_NCCL] = "NCCL")
NAMES(consistency, ls_consistency, [LS_SYNC] = "sync", [LS_DELAYED] = "delayed", [LS_ASYNC] = "async")
CHECK(consistency, ls_consistency, "consistency")
NAMES(compression,
      ls_compression, [LS_COMPRESS_NONE] = "none", [LS_COMPRESS_FP16] = "fp16", [LS_COMPRESS_BF16] = "bf16")
CHECK(compression, ls_compression, "compression")
NAMES(sharding, ls_sharding, [LS_SHARDING_NONE] = "none", [LS_SHARDING_OPTIMIZER] = "optimizer",
      [LS_SHARDING_GRADIENTS] = "gradients")
CHECK(sharding, ls_sharding, "shard")
NAMES(precision, ls_precision, [LS_PRECISION_FLOAT32] = "float32", [LS_PRECISION_TF32] = "tf32",
      [LS_MIXED_BFLOAT16] = "mixed_bfloat16", [LS_MIXED_FLOAT16] = "mixed_float16")
CHECK(precision, ls_precision, "precision")
NAMES(recompute, ls_recompute, [LS_RECOMPUTE_AUTO] = "auto", [LS_RECOMPUTE_NONE] = "none",
      [LS_RECOMPUTE_ACTIVATIONS] = "activations", [LS_RECOMPUTE_BLOCKS] = "blocks")
CHECK(recompute, ls_recompute, "recompute")

ls_dtype ls_option_names_precision_dtype(ls_precision precision) {
    return precision == LS_MIXED_BFLOAT16 ? LS_BFLOAT16 : precision == LS_MIXED_FLOAT16 ? LS_FLOAT16 : LS_FLOAT32;
}
