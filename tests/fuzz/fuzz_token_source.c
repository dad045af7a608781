/* Files of tokens from any bytes: a layout that lies within them, characters whose ids are below their number, or one
 * error. */
#include <stdlib.h>

#include "base/memory.h"
#include "data/characters.h"
#include "data/token_file.h"
#include "fuzz/fuzz.h"

static void require(bool condition) {
    if (!condition) abort();
}

static void try_layout(ls_tokens format, const uint8_t *data, size_t size) {
    struct ls_token_layout layout = {.width = -1};
    ls_status status = ls_token_file_parse("input", format, data, size, &layout);
    if (status) {
        require(status == LS_DATA_LOSS && layout.width == -1 && ls_error()[0]);
        return;
    }
    if (format == LS_TOKENS_CHARS) return;
    require(layout.count >= 1 && layout.first + (size_t)layout.count * (size_t)layout.width == size);
    int64_t last = ls_token_file_at(&layout, data, layout.count - 1);
    require(last >= 0 && last < INT64_C(1) << 8 * layout.width);
}

static void try_characters(const uint8_t *data, size_t size) {
    struct ls_characters characters = {.vocabulary = -1};
    const struct ls_bytes text = {(void *)(uintptr_t)data, size};
    int32_t id;
    ls_status status = ls_characters_read("input", data, size, &characters);
    if (status) {
        require(status == LS_DATA_LOSS && characters.vocabulary == -1 && ls_error()[0]);
        return;
    }
    for (int64_t i = 0; i < characters.count; i += 1 + characters.count / 100) {
        require(ls_characters_ids(&characters, &text, i, 1, &id));
        require(id >= 0 && id < characters.vocabulary);
    }
    require(!characters.count || !ls_characters_ids(&characters, &text, characters.count - 1, 2, &id));
    ls_characters_free(&characters);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size) {
    for (int format = LS_TOKENS_BYTES; format <= LS_TOKENS_LLMC; format++) try_layout((ls_tokens)format, data, size);
    try_characters(data, size);
    return 0;
}
