/* Texts for people about two values of one field. Long lists are cut to the first difference, and digests to their
 * beginning. */
#pragma once
#include <stddef.h>

#define LS_DIFFERENCE_TEXT 256
struct ls_value {
    const char *text; /* borrowed, size bytes */
    size_t size;
};
/* Writes the two values into said. field may become clearer. */
void ls_difference_say(char *field, size_t size, struct ls_value first, struct ls_value second,
                       char said[2][LS_DIFFERENCE_TEXT]);
