/* Files of weights from any bytes, HDF5 above all: variables that lie within the file, each once, or one error. */
#include <stdlib.h>
#include <string.h>

#include "base/shape.h"
#include "base/memory.h"
#include "fuzz/fuzz.h"
#include "weights/huggingface.h"
#include "weights/read.h"

static void require(bool condition) {
    if (!condition) abort();
}

/* Every byte is there to be read, unless the type is not known. */
static void check_weight(const struct ls_weights *weights, size_t index) {
    const struct ls_weight *weight = &weights->items[index];
    require(!index || strcmp(weights->items[index - 1].name, weight->name) < 0);
    require(ls_weights_find(weights, weight->name) == weight);
    require(!weight->unread[0] || !weight->values);
    int64_t count = weight->unread[0] ? 0 : ls_shape_count(&weight->shape);
    unsigned sum = 0;
    require(count >= 0);
    for (int64_t i = 0; i < count; i++) {
        float value;
        memcpy(&value, weight->values + (size_t)i * sizeof(value), sizeof(value));
        sum += value > 0;
    }
    require(sum <= (uint64_t)count);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size) {
    struct ls_weights weights = {0};
    uint8_t *bytes = ls_alloc(size);
    require(bytes != NULL);
    if (size) memcpy(bytes, data, size);
    ls_status status = ls_weights_read_bytes("input", bytes, size, &weights);
    if (status) {
        require(status == LS_DATA_LOSS || status == LS_UNIMPLEMENTED || status == LS_INVALID_ARGUMENT);
        require(ls_error()[0] && !weights.count && !weights.items);
        return 0;
    }
    require(weights.count > 0);
    for (size_t i = 0; i < weights.count; i++) check_weight(&weights, i);
    status = ls_huggingface_read("input", &weights);
    require(!status || (status == LS_INVALID_ARGUMENT && ls_error()[0]));
    for (size_t i = 0; !status && i < weights.count; i++) check_weight(&weights, i);
    ls_weights_free(&weights);
    return 0;
}
