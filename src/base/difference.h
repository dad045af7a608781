/* Texts for people about two values of one field. Long lists are cut to the first difference, and digests to their
 * beginning. */
#pragma once
#include <lockstep/lockstep.h>
#include <stddef.h>

#define LS_DIFFERENCE_TEXT 256
struct ls_value {
    const char *text; /* borrowed, size bytes */
    size_t size;
};
/* Writes the two values into said. field may become clearer. */
void ls_difference_say(char *field, size_t size, struct ls_value first, struct ls_value second,
                       char said[2][LS_DIFFERENCE_TEXT]);

/* Texts of lines "field=value\n", which workers compare: the cluster part of TF_CONFIG, fingerprints. */

struct ls_difference {
    char field[128], first[256], second[256]; /* "(absent)" where a text lacks the field */
};
/* The first field, in the order of the first text, that is not the same in both. */
bool ls_line_difference_find(const char *first, const char *second, struct ls_difference *difference);
