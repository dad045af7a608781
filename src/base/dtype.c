/* The table of element types. */
#include "base/shape.h"

#include "base/status.h"

static const struct {
    const char *name;
    size_t size;
} dtypes[] = {
    [LS_FLOAT32] = {"float32", 4},   [LS_FLOAT64] = {"float64", 8}, [LS_FLOAT16] = {"float16", 2},
    [LS_BFLOAT16] = {"bfloat16", 2}, [LS_INT32] = {"int32", 4},     [LS_INT64] = {"int64", 8},
    [LS_UINT8] = {"uint8", 1},       [LS_INT8] = {"int8", 1},       [LS_BOOL] = {"bool", 1},
};
#define DTYPE_COUNT (sizeof(dtypes) / sizeof(dtypes[0]))

size_t ls_dtype_size(ls_dtype dtype) {
    return (size_t)dtype < DTYPE_COUNT ? dtypes[dtype].size : 0;
}

const char *ls_dtype_name(ls_dtype dtype) {
    return (size_t)dtype < DTYPE_COUNT ? dtypes[dtype].name : "unknown";
}

ls_status ls_dtype_check(ls_dtype dtype) {
    if ((size_t)dtype < DTYPE_COUNT) return LS_OK;
    return ls_fail(LS_INVALID_ARGUMENT, "dtype %d is no ls_dtype", (int)dtype);
}
