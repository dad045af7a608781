/* config.json and an index from any bytes: a model's layers that say the same numbers again, and files of the folder;
 * or one error. */
#include <stdlib.h>
#include <string.h>

#include "base/memory.h"
#include "fuzz/fuzz.h"
#include "weights/huggingface_layers.h"
#include "weights/huggingface_json.h"

enum { MOST_BLOCKS = 64 }; /* more take long */

static void require(bool condition) {
    if (!condition) abort();
}

static void refused(ls_status status) {
    require(status == LS_INVALID_ARGUMENT && ls_error()[0]);
}

/* Its text, written from the numbers, is read as the same model. */
static void check_written(const struct ls_huggingface_config *config, const char *about) {
    struct ls_huggingface_config again;
    char *text = NULL, *same = NULL;
    ls_status status = ls_huggingface_config_write("input", config, &text);
    if (status) {
        refused(status);
        return;
    }
    require(ls_huggingface_config_read("input", text, &again) == LS_OK);
    require(ls_huggingface_layers_to_about("input", &again, &same) == LS_OK);
    require(!strcmp(about, same));
    ls_free(text);
    ls_free(same);
}

static void check_config(const char *text) {
    struct ls_huggingface_config config, again;
    char *about = NULL;
    ls_status status = ls_huggingface_config_read("input", text, &config);
    if (!status && config.layers.layers > MOST_BLOCKS) return;
    if (!status) status = ls_huggingface_layers_to_about("input", &config, &about);
    if (status) {
        refused(status);
        return;
    }
    require(ls_huggingface_layers_from_about("input", about, &again) == LS_OK);
    require(again.positions == config.positions && again.gpt == config.gpt);
    check_written(&again, about);
    ls_free(about);
}

static void check_index(const char *text) {
    struct ls_names files = {0};
    ls_status status = ls_huggingface_json_files("input", text, &files);
    if (status) refused(status);
    require(status || files.count > 0);
    for (int64_t i = 0; i < files.count; i++) require(!strchr(files.names[i], '/'));
    ls_files_names_free(&files);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size) {
    char *text = ls_alloc(size + 1);
    require(text != NULL);
    if (size) memcpy(text, data, size);
    check_config(text);
    check_index(text);
    ls_free(text);
    return 0;
}
