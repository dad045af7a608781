/* tf.train.Example from any bytes: what lies within the message, or one error; and back. */
#include <stdlib.h>
#include <string.h>

#include "base/memory.h"
#include "data/example.h"
#include "fuzz/fuzz.h"

static void require(bool condition) {
    if (!condition) abort();
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size) {
    struct ls_example example = {.rank = -1}, again;
    uint8_t *packed;
    size_t length;
    ls_status status = ls_example_parse("input", data, size, &example);
    if (status) {
        require((status == LS_DATA_LOSS || status == LS_INVALID_ARGUMENT) && example.rank == -1);
        return 0;
    }
    require(example.image || example.features);
    require(ls_example_pack(&example, &packed, &length) == LS_OK);
    require(ls_example_parse("again", packed, length, &again) == LS_OK);
    require(again.label == example.label && again.image_size == example.image_size);
    require(again.target_count == example.target_count && !again.targets == !example.targets);
    require(!again.weight == !example.weight &&
            (!again.weight || !memcmp(again.weight, example.weight, sizeof(float))));
    if (!example.image) require(again.feature_count == example.feature_count);
    ls_example_free(&again);
    ls_free(packed);
    ls_example_free(&example);
    return 0;
}
