/* The table has as many letters above U+00FF as there are bytes without a visible character. */
#include "data/text/letters.h"

#include "data/text/utf8.h"

static bool is_visible(int byte) {
    return (byte >= '!' && byte <= '~') || (byte >= 0xA1 && byte <= 0xAC) || byte >= 0xAE;
}

void ls_letters_fill(struct ls_letters *letters) {
    int next = 256;
    for (int i = 0; i < LS_LETTERS; i++) letters->bytes[i] = -1;
    for (int byte = 0; byte < 256; byte++) letters->bytes[is_visible(byte) ? byte : next++] = (int16_t)byte;
}

bool ls_letters_read(const struct ls_letters *letters, const char *text, size_t size, uint8_t *output, size_t *count) {
    const uint8_t *bytes = (const uint8_t *)text;
    *count = 0;
    for (size_t at = 0; at < size;) {
        size_t length = ls_utf8_character(bytes + at, size - at);
        uint32_t code = length ? ls_utf8_code(bytes + at, length) : LS_LETTERS;
        if (code >= LS_LETTERS || letters->bytes[code] < 0) return false;
        output[(*count)++] = (uint8_t)letters->bytes[code];
        at += length;
    }
    return size != 0;
}
