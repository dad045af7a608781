/* A model's layers from any bytes, the object itself or a file that has it: layers that are written and read back to
 * the same text, or one error. */
#include <stdlib.h>
#include <string.h>

#include "base/memory.h"
#include "base/text.h"
#include "fuzz/fuzz.h"
#include "model/layer_json.h"
#include "weights/read.h"

static void require(bool condition) {
    if (!condition) abort();
}

static ls_status write_network(const struct ls_network *network, char **text) {
    return LS_TEXT(out, (fputs("{\"layers\": ", out), ls_layer_json_write(network, out), fputc('}', out)), "layers",
                   text);
}

/* Freed with ls_free; NULL where the object or its network is refused. */
static char *written(const char *object) {
    ls_layer *layers = NULL;
    struct ls_network *network = NULL;
    size_t count = 0;
    char *again = NULL;
    ls_status status = ls_layer_json_read(object, &layers, &count);
    require(!status || status == LS_INVALID_ARGUMENT || status == LS_DATA_LOSS);
    require(!status || (ls_error()[0] && !layers));
    if (!status) require(count >= 1);
    if (!status) status = ls_network_new(layers, count, &LS_SHAPE(12), &network);
    if (!status) require(write_network(network, &again) == LS_OK);
    ls_network_free(network);
    ls_free(layers);
    return again;
}

static void check_object(const char *object) {
    char *first = written(object), *second = first ? written(first) : NULL;
    if (first) require(second && !strcmp(first, second));
    ls_free(first);
    ls_free(second);
}

static void check_file(uint8_t *bytes, size_t size) {
    struct ls_weights weights = {0};
    if (ls_weights_read_bytes("input", bytes, size, &weights)) return;
    if (weights.about) check_object(weights.about);
    ls_weights_free(&weights);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size) {
    char *bytes = ls_alloc(size + 1);
    require(bytes != NULL);
    if (size) memcpy(bytes, data, size);
    if (size && data[0] == '{') {
        check_object(bytes);
        ls_free(bytes);
    } else
        check_file((uint8_t *)bytes, size);
    return 0;
}
