/* IDX from any bytes: parsing ends with a view that lies within them, or with one error. */
#include <stdlib.h>

#include "data/sources.h"
#include "fuzz/fuzz.h"

static void require(bool condition) {
    if (!condition) abort();
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size) {
    struct ls_idx idx = {.rank = -1};
    ls_status status = ls_idx_parse("input", data, size, &idx);
    if (status) {
        require((status == LS_DATA_LOSS || status == LS_UNIMPLEMENTED) && idx.rank == -1 && ls_error()[0]);
        return 0;
    }
    int64_t count = 1;
    require(idx.rank >= 1 && idx.rank <= LS_IDX_MAX_RANK);
    for (int i = 0; i < idx.rank; i++) count *= idx.dims[i];
    require(count == idx.count && count >= 1);
    require(idx.values > data && idx.values + idx.count == data + size);
    return 0;
}
