/* The table of lockstep top for people. */
#pragma once
#include <stdio.h>

#include "tools/top.h"

struct ls_top_screen {
    int columns, lines; /* 0: any number */
    bool ascii;
};
void ls_top_print(FILE *out, const struct ls_top_table *table, const struct ls_top_screen *screen);
