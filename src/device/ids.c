/* The limits of ids, and the error. */
#include "device/labels.h"

#include <math.h>

#include "base/status.h"

static bool is_id(const struct ls_tensor *ids, int64_t i, int64_t limit) {
    if (ids->dtype == LS_INT32) return ls_ids_at(ids, i) >= 0 && ls_ids_at(ids, i) < limit;
    float id = ((const float *)ids->data)[i];
    return id >= 0 && id < (float)limit && id == truncf(id);
}

ls_status ls_ids_check(const struct ls_tensor *ids, int64_t limit) {
    int64_t rows = ids->shape.dims[0], count = ids->shape.dims[1];
    for (int64_t i = 0; i < rows * count; i++)
        if (!is_id(ids, i, limit))
            return ls_fail(LS_INVALID_ARGUMENT,
                           "row %lld has id %.10g at place %lld, but the table has %lld rows: ids are 0 to %lld",
                           (long long)(i / count),
                           ids->dtype == LS_INT32 ? (double)ls_ids_at(ids, i) : (double)((const float *)ids->data)[i],
                           (long long)(i % count), (long long)limit, (long long)limit - 1);
    return LS_OK;
}
