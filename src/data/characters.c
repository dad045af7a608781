/* Characters differ in bytes, so the offset of every APART-th is kept: a window begins there and skips the rest. */
#include "data/characters.h"

#include "base/grow.h"
#include "data/text/utf8.h"

enum { APART = 512, POINTS = LS_CODE_POINTS };

/* Notes each character's bit in seen, and the offsets. */
static ls_status note_characters(const char *name, const uint8_t *bytes, size_t size, struct ls_characters *characters,
                                 uint8_t *seen) {
    size_t room = 0;
    ls_status status = LS_OK;
    for (size_t at = 0; at < size && !status;) {
        size_t length = ls_utf8_character(bytes + at, size - at);
        if (!length)
            return ls_fail(LS_DATA_LOSS,
                           "'%s' has byte 0x%02x at offset %zu, where no character of UTF-8 begins: convert the text, "
                           "or take tokens bytes",
                           name, bytes[at], at);
        int64_t place = characters->count / APART;
        if (characters->count % APART == 0) status = LS_GROW(characters->starts, room, place + 1, 64, "a text's index");
        if (!status && characters->count % APART == 0) characters->starts[place] = (int64_t)at;
        uint32_t point = ls_utf8_code(bytes + at, length);
        seen[point / 8] |= (uint8_t)(1U << point % 8);
        characters->count++;
        at += length;
    }
    return status;
}

static ls_status number_points(struct ls_characters *characters, const uint8_t *seen) {
    for (int32_t point = 0; point < POINTS; point++) characters->vocabulary += seen[point / 8] >> point % 8 & 1;
    size_t count = (size_t)characters->vocabulary;
    characters->points = ls_alloc_array(count, sizeof(*characters->points));
    characters->texts = ls_alloc_array(count, sizeof(*characters->texts));
    if (!characters->points || !characters->texts)
        return ls_fail_memory("a text's characters", count * sizeof(int32_t));
    int id = 0;
    for (int32_t point = 0; point < POINTS; point++) {
        if (!(seen[point / 8] >> point % 8 & 1)) continue;
        if (point < LS_CHARACTERS_ASCII) characters->ascii[point] = id;
        (void)ls_utf8_put((uint32_t)point, (uint8_t *)characters->texts[id]);
        characters->points[id++] = point;
    }
    return LS_OK;
}

ls_status ls_characters_read(const char *name, const uint8_t *bytes, size_t size, struct ls_characters *characters) {
    LS_CLEANUP(ls_free_pointer) uint8_t *seen = ls_alloc(POINTS / 8);
    struct ls_characters made = {0};
    if (!seen) return ls_fail_memory("a text's characters", POINTS / 8);
    ls_status status = note_characters(name, bytes, size, &made, seen);
    if (!status) status = number_points(&made, seen);
    if (status)
        ls_characters_free(&made);
    else
        *characters = made;
    return status;
}

static int32_t id_of(const struct ls_characters *characters, int32_t point) {
    if (point < LS_CHARACTERS_ASCII) return characters->ascii[point];
    int low = 0, high = characters->vocabulary - 1;
    while (low < high) {
        int middle = (low + high) / 2;
        if (characters->points[middle] < point)
            low = middle + 1;
        else
            high = middle;
    }
    return low;
}

/* A text that somebody changes while it is read gives other ids, and none from behind its end. */
bool ls_characters_ids(const struct ls_characters *characters, const struct ls_bytes *text, int64_t first,
                       int64_t count, int32_t *ids) {
    const uint8_t *bytes = text->data;
    size_t at = (size_t)characters->starts[first / APART];
    int64_t skipped = first % APART;
    for (int64_t i = -skipped; i < count; i++) {
        size_t length = at < text->size ? ls_utf8_character(bytes + at, text->size - at) : 0;
        if (!length) return false;
        if (i >= 0) ids[i] = id_of(characters, (int32_t)ls_utf8_code(bytes + at, length));
        at += length;
    }
    return true;
}

void ls_characters_free(struct ls_characters *characters) {
    ls_free(characters->points);
    ls_free(characters->texts);
    ls_free(characters->starts);
    *characters = (struct ls_characters){0};
}
