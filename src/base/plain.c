/* The locale C is uselocale's, for the thread. newlocale gives it out without an allocation, and it needs no
 * freelocale. */
#include "base/plain.h"

#include <stdlib.h>
#include <string.h>

locale_t ls_plain_begin(void) {
    return uselocale(newlocale(LC_ALL_MASK, "C", NULL));
}

void ls_plain_end(locale_t *before) {
    (void)uselocale(*before);
}

int ls_plain_print(FILE *out, const char *format, ...) {
    LS_PLAIN;
    va_list arguments;
    va_start(arguments, format);
    int length = vfprintf(out, format, arguments);
    va_end(arguments);
    return length;
}

int ls_plain_list(char *text, size_t size, const char *format, va_list arguments) {
    LS_PLAIN;
    return vsnprintf(text, size, format, arguments);
}

int ls_plain_text(char *text, size_t size, const char *format, ...) {
    return LS_PLAIN_ARGUMENTS(text, size, format);
}

double ls_plain_number(const char *text, char **end) {
    LS_PLAIN;
    return strtod(text, end);
}

bool ls_plain_is_letter(char c) {
    c |= 0x20;
    return c >= 'a' && c <= 'z';
}

bool ls_plain_is_space(char c) {
    return c == ' ' || (c >= '\t' && c <= '\r');
}

char ls_plain_lower(char c) {
    return c >= 'A' && c <= 'Z' ? (char)(c | 0x20) : c;
}

bool ls_plain_same_piece(const char *text, size_t size, const char *word) {
    if (strlen(word) != size) return false;
    while (size && ls_plain_lower(text[size - 1]) == ls_plain_lower(word[size - 1])) size--;
    return !size;
}

bool ls_plain_same(const char *a, const char *b) {
    return ls_plain_same_piece(a, strlen(a), b);
}

size_t ls_plain_character(const char *bytes) {
    const unsigned char *text = (const unsigned char *)bytes;
    size_t length = *text < 0x80 ? 1 : *text >= 0xC2 && *text < 0xE0 ? 2 : *text < 0xF0 ? 3 : *text < 0xF5 ? 4 : 0;
    if (*text >= 0x80 && *text < 0xC2) return 0;
    for (size_t i = 1; i < length; i++)
        if ((text[i] & 0xC0) != 0x80) return 0;
    bool overlong = (*text == 0xE0 && text[1] < 0xA0) || (*text == 0xF0 && text[1] < 0x90);
    bool none = (*text == 0xED && text[1] > 0x9F) || (*text == 0xF4 && text[1] > 0x8F);
    return overlong || none ? 0 : length;
}
