/* Names of the values of the public enums. */
#include "base/options.h"

#include "base/status.h"

static const char *const op_names[] = {[LS_SUM] = "sum", [LS_MEAN] = "mean",       [LS_MIN] = "min",
                                       [LS_MAX] = "max", [LS_PRODUCT] = "product", [LS_ADASUM] = "adasum"};
#define OP_COUNT (sizeof(op_names) / sizeof(op_names[0]))

const char *ls_option_names_reduce_op(ls_reduce_op op) {
    return (size_t)op < OP_COUNT ? op_names[op] : "unknown";
}

ls_status ls_option_names_check_reduce_op(ls_reduce_op op) {
    if ((size_t)op < OP_COUNT) return LS_OK;
    return ls_fail(LS_INVALID_ARGUMENT, "reduce op %d is no ls_reduce_op", (int)op);
}

const char *ls_option_names_communication(ls_communication communication) {
    static const char *const names[] = {[LS_AUTO] = "AUTO", [LS_RING] = "RING", [LS_NCCL] = "NCCL"};
    return (size_t)communication < sizeof(names) / sizeof(names[0]) ? names[communication] : "unknown";
}

static const char *const consistency_names[] = {[LS_SYNC] = "sync", [LS_DELAYED] = "delayed", [LS_ASYNC] = "async"};
#define CONSISTENCY_COUNT (sizeof(consistency_names) / sizeof(consistency_names[0]))

const char *ls_option_names_consistency(ls_consistency consistency) {
    return (size_t)consistency < CONSISTENCY_COUNT ? consistency_names[consistency] : "unknown";
}

ls_status ls_option_names_check_consistency(ls_consistency consistency) {
    if ((size_t)consistency < CONSISTENCY_COUNT) return LS_OK;
    return ls_fail(LS_INVALID_ARGUMENT, "consistency %d is no ls_consistency", (int)consistency);
}

static const char *const compression_names[] = {
    [LS_COMPRESS_NONE] = "none", [LS_COMPRESS_FP16] = "fp16", [LS_COMPRESS_BF16] = "bf16"};
#define COMPRESSION_COUNT (sizeof(compression_names) / sizeof(compression_names[0]))

const char *ls_option_names_compression(ls_compression compression) {
    return (size_t)compression < COMPRESSION_COUNT ? compression_names[compression] : "unknown";
}

ls_status ls_option_names_check_compression(ls_compression compression) {
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

const char *ls_option_names_precision(ls_precision precision) {
    return (size_t)precision < PRECISION_COUNT ? precisions[precision].name : "unknown";
}

ls_dtype ls_option_names_precision_dtype(ls_precision precision) {
    return (size_t)precision < PRECISION_COUNT ? precisions[precision].dtype : LS_FLOAT32;
}

ls_status ls_option_names_check_precision(ls_precision precision) {
    if ((size_t)precision < PRECISION_COUNT) return LS_OK;
    return ls_fail(LS_INVALID_ARGUMENT, "precision %d is no ls_precision", (int)precision);
}
