/* Numbers and letters as the locale C has them. The program that uses the library may have set another one, and printf,
 * strtod and strcasecmp follow it: what a worker writes, agrees on and reads may not. tests/house/plain.py keeps the
 * functions of the C library that follow a locale out of other files. A thread's locale is left as it was.
 *
 * Threads: all functions may be called by any. */
#pragma once
#include <locale.h>
#include <stdarg.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdio.h>

#include "base/memory.h"

/* As fprintf, snprintf, vsnprintf and strtod. */
__attribute__((format(printf, 2, 3))) int ls_plain_print(FILE *out, const char *format, ...);
__attribute__((format(printf, 3, 4))) int ls_plain_text(char *text, size_t size, const char *format, ...);
__attribute__((format(printf, 3, 0))) int ls_plain_list(char *text, size_t size, const char *format, va_list arguments);
double ls_plain_number(const char *text, char **end);
/* ls_plain_text of the arguments of a function that ends with "format, ...". */
#define LS_PLAIN_ARGUMENTS(text, size, format)                                                                         \
    __extension__({                                                                                                    \
        va_list arguments_;                                                                                            \
        va_start(arguments_, format);                                                                                  \
        int length_ = ls_plain_list(text, size, format, arguments_);                                                   \
        va_end(arguments_);                                                                                            \
        length_;                                                                                                       \
    })
/* As !strcasecmp; the second for size bytes at text. */
bool ls_plain_same(const char *a, const char *b);
bool ls_plain_same_piece(const char *text, size_t size, const char *word);

/* Of ASCII alone. */
bool ls_plain_is_letter(char c);
bool ls_plain_is_space(char c);
char ls_plain_lower(char c);

/* The bytes of the UTF-8 character at text, which ends with a zero; 0: there is none. */
size_t ls_plain_character(const char *text);

locale_t ls_plain_begin(void);
void ls_plain_end(locale_t *before);
/* The thread has the locale C until the block ends, for a library that formats by itself. */
#define LS_PLAIN LS_CLEANUP(ls_plain_end) __attribute__((unused)) locale_t plain_before = ls_plain_begin()
