/* A table's transform from any bytes: it is columns that are written and read back to the same text, or one error. */
#include <stdlib.h>
#include <string.h>

#include "base/memory.h"
#include "data/dataset.h"
#include "fuzz/fuzz.h"

static void require(bool condition) {
    if (!condition) abort();
}

/* Freed with ls_free; NULL where text is refused. */
static char *written(const char *text) {
    struct ls_transform transform = {0};
    char *again = NULL;
    ls_status status = ls_transform_read(text, &transform);
    require(!status || (status == LS_INVALID_ARGUMENT && ls_error()[0]));
    if (!status) {
        require(transform.count >= 1);
        for (int64_t i = 0; i < transform.count; i++) require(ls_column_width(&transform.columns[i]) >= 1);
        require(ls_transform_write(&transform, &again) == LS_OK);
    }
    ls_transform_free(&transform);
    return again;
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size) {
    char *text = ls_alloc(size + 1);
    if (size) memcpy(text, data, size);
    char *first = written(text), *second = first ? written(first) : NULL;
    if (first) require(second && !strcmp(first, second));
    ls_free(text);
    ls_free(first);
    ls_free(second);
    return 0;
}
