/* A text that a stream writes into memory. */
#pragma once
#include <stdio.h>

#include "base/status.h"

struct ls_text {
    FILE *out;
    char *bytes;
    size_t size;
};
/* Returns the stream, NULL without memory: ls_text_close then tells so. bytes are those that such an error names. text
 * stays where it is until it is closed. */
FILE *ls_text_open(struct ls_text *text, size_t bytes);
/* Closes the stream, and gives *output the text, of malloc. An error leaves *output alone: status, or
 * RESOURCE_EXHAUSTED that names what. */
ls_status ls_text_close(struct ls_text *text, ls_status status, const char *what, char **output);

/* Appends to a list of numbers, such as "2, 1"; ", ..." where no more fit. */
void ls_text_list(char *list, size_t size, int number);

/* Both around print, an expression that writes to the stream out: LS_TEXT(out, put_rows(out), "a table", &text). */
#define LS_TEXT(out, print, what, output)                                                                              \
    __extension__({                                                                                                    \
        struct ls_text made_;                                                                                          \
        FILE *out = ls_text_open(&made_, 0);                                                                           \
        if (out) (void)(print);                                                                                        \
        ls_text_close(&made_, LS_OK, what, output);                                                                    \
    })
