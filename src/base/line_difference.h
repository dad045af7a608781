/* Texts of lines "field=value\n", which workers compare: the cluster part of TF_CONFIG, fingerprints. */
#pragma once
#include <lockstep/lockstep.h>

struct ls_difference {
    char field[128], first[256], second[256]; /* "(absent)" where a text lacks the field */
};
/* The first field, in the order of the first text, that is not the same in both. */
bool ls_line_difference_find(const char *first, const char *second, struct ls_difference *difference);
