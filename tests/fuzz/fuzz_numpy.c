/* .npz and .npy from any bytes: arrays that lie within what was unpacked, or one error. */
#include <stdlib.h>

#include "base/memory.h"
#include "data/npy.h"
#include "data/zip.h"
#include "fuzz/fuzz.h"

static void require(bool condition) {
    if (!condition) abort();
}

static void parse(const uint8_t *data, size_t size) {
    struct ls_npy npy = {.item = -1};
    ls_status status = ls_npy_parse("input", data, size, &npy);
    if (status) {
        require((status == LS_DATA_LOSS || status == LS_UNIMPLEMENTED) && npy.item == -1);
        return;
    }
    require(npy.values > data && npy.values + npy.count * npy.item == data + size);
    for (int64_t i = 0; i < npy.count; i += 1 + npy.count / 16) {
        float value;
        ls_npy_floats(&npy, i, 1, true, &value);
        if (npy.kind != 'f') (void)ls_npy_integer(&npy, i);
    }
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size) {
    static const char *const names[] = {"x_train.npy", "y_train.npy", "x_test.npy", "y_test.npy"};
    parse(data, size);
    struct ls_names members = {0};
    (void)ls_zip_list(&(struct ls_zip){"input", data, size}, &members);
    ls_files_names_free(&members);
    for (int i = 0; i < 4; i++) {
        uint8_t *output = NULL;
        size_t length = 0;
        if (ls_zip_read(&(struct ls_zip){"input", data, size}, names[i], &output, &length)) {
            require(!output);
            continue;
        }
        parse(output, length);
        ls_free(output);
    }
    return 0;
}
