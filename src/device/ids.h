/* Which numbers are ids of a table's rows: alike for the ops, and for who looks before they run. */
#pragma once
#include "device/op.h"

/* ids (rows, count), LS_INT32, or LS_FLOAT32: whole numbers then, and exact below 2^24. INVALID_ARGUMENT naming the
 * first that is not from 0 to below limit. */
ls_status ls_ids_check(const struct ls_tensor *ids, int64_t limit);
/* An element. */
static inline int64_t ls_ids_at(const struct ls_tensor *ids, int64_t i) {
    return ids->dtype == LS_INT32 ? ((const int32_t *)ids->data)[i] : (int64_t)((const float *)ids->data)[i];
}
