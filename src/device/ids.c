/* The limits of ids, and the error. */
#include "device/ids.h"

#include <math.h>

#include "base/status.h"

ls_status ls_ids_check(const float *ids, int64_t rows, int64_t count, int64_t limit) {
    for (int64_t i = 0; i < rows * count; i++)
        if (!(ids[i] >= 0 && ids[i] < (float)limit && ids[i] == truncf(ids[i])))
            return ls_fail(LS_INVALID_ARGUMENT,
                           "row %lld has id %.9g at place %lld, but the table has %lld rows: ids are 0 to %lld",
                           (long long)(i / count), (double)ids[i], (long long)(i % count), (long long)limit,
                           (long long)limit - 1);
    return LS_OK;
}
