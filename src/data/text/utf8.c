/* base/plain.h tells characters of a text that ends with a zero; here its last bytes get one. */
#include "data/text/utf8.h"

#include <string.h>

#include "base/plain.h"

size_t ls_utf8_character(const uint8_t *text, size_t size) {
    if (*text < 0x80) return 1;
    char piece[5] = {0};
    memcpy(piece, text, ls_smaller_size(size, 4));
    return ls_plain_character(piece);
}

uint32_t ls_utf8_code(const uint8_t *text, size_t size) {
    if (size == 1) return *text;
    uint32_t code = *text & (0xFFU >> (size + 1));
    for (size_t i = 1; i < size; i++) code = code << 6 | (text[i] & 0x3FU);
    return code;
}

size_t ls_utf8_put(uint32_t code, uint8_t bytes[4]) {
    static const uint8_t heads[] = {0, 0, 0xC0, 0xE0, 0xF0};
    size_t size = code < 0x80 ? 1 : code < 0x800 ? 2 : code < 0x10000 ? 3 : 4;
    for (size_t i = size; i-- > 1; code >>= 6) bytes[i] = (uint8_t)(0x80 | (code & 0x3F));
    bytes[0] = (uint8_t)(heads[size] | code);
    return size;
}
