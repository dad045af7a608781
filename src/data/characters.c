/* Characters differ in bytes, so the offset of every APART-th is kept: a window begins there and skips the rest. */
#include "data/characters.h"

#include <string.h>

#include "base/grow.h"

enum { APART = 512, POINTS = 0x110000, FIRST_SURROGATE = 0xD800, LAST_SURROGATE = 0xDFFF };

/* The bytes that a character's first byte asks for; 0: it begins none. */
static int length_of(uint8_t first) {
    if (first < 0x80) return 1;
    if (first < 0xC2) return 0;
    return first < 0xE0 ? 2 : first < 0xF0 ? 3 : first < 0xF5 ? 4 : 0;
}

/* Of bytes that are known to be UTF-8. */
static int32_t decode(const uint8_t *bytes, int length) {
    static const uint8_t masks[] = {0, 0x7F, 0x1F, 0x0F, 0x07};
    int32_t point = bytes[0] & masks[length];
    for (int i = 1; i < length; i++) point = point << 6 | (bytes[i] & 0x3F);
    return point;
}

/* The bytes of the character at bytes; 0: there is none. Each has one form, the shortest (RFC 3629). */
static int measure(const uint8_t *bytes, size_t left) {
    static const int32_t least[] = {0, 0, 0x80, 0x800, 0x10000};
    int length = length_of(bytes[0]);
    if (!length || (size_t)length > left) return 0;
    for (int i = 1; i < length; i++)
        if ((bytes[i] & 0xC0) != 0x80) return 0;
    int32_t point = decode(bytes, length);
    bool surrogate = point >= FIRST_SURROGATE && point <= LAST_SURROGATE;
    return point < least[length] || point >= POINTS || surrogate ? 0 : length;
}

/* Notes each character's bit in seen, and the offsets. */
static ls_status note_characters(const char *name, const uint8_t *bytes, size_t size, struct ls_characters *characters,
                                 uint8_t *seen) {
    size_t room = 0;
    ls_status status = LS_OK;
    for (size_t at = 0; at < size && !status;) {
        int length = measure(bytes + at, size - at);
        if (!length)
            return ls_fail(LS_DATA_LOSS,
                           "'%s' has byte 0x%02x at offset %zu, where no character of UTF-8 begins: convert the text, "
                           "or take tokens bytes",
                           name, bytes[at], at);
        int64_t place = characters->count / APART;
        if (characters->count % APART == 0) status = LS_GROW(characters->starts, room, place + 1, 64, "a text's index");
        if (!status && characters->count % APART == 0) characters->starts[place] = (int64_t)at;
        int32_t point = decode(bytes + at, length);
        seen[point / 8] |= (uint8_t)(1U << point % 8);
        characters->count++;
        at += (size_t)length;
    }
    return status;
}

static void encode(int32_t point, char text[LS_CHARACTER_TEXT]) {
    int length = point < 0x80 ? 1 : point < 0x800 ? 2 : point < 0x10000 ? 3 : 4;
    static const int leading[] = {0, 0, 0xC0, 0xE0, 0xF0};
    memset(text, 0, LS_CHARACTER_TEXT);
    for (int i = length - 1; i > 0; i--, point >>= 6) text[i] = (char)(0x80 | (point & 0x3F));
    text[0] = (char)(leading[length] | point);
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
        encode(point, characters->texts[id]);
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
        int length = at < text->size ? measure(bytes + at, text->size - at) : 0;
        if (!length) return false;
        if (i >= 0) ids[i] = id_of(characters, decode(bytes + at, length));
        at += (size_t)length;
    }
    return true;
}

void ls_characters_free(struct ls_characters *characters) {
    ls_free(characters->points);
    ls_free(characters->texts);
    ls_free(characters->starts);
    *characters = (struct ls_characters){0};
}
