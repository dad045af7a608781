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
    va_list arguments;
    va_start(arguments, format);
    int length = ls_plain_list(text, size, format, arguments);
    va_end(arguments);
    return length;
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
