/* The findings of lockstep top. */
#pragma once
#include <stdio.h>

#include "tools/probe.h"

/* One rank between the two answers. */
struct ls_top_row {
    const struct ls_probe *before, *now; /* answered, both */
    bool known;
    double seconds, inside; /* between them; share of it in collectives */
    int64_t steps, calls, bytes;
    double stuck; /* seconds that the present collective has taken */
};
struct ls_top_table {
    const struct ls_cluster_view *config;
    struct ls_top_row *rows; /* [num_workers], then those of the parameter servers */
    int straggler;           /* -1: none */
    int unknown;             /* ranks that did not answer twice */
    double least, most;      /* inside, of all known */
};
int64_t ls_top_generation(const struct ls_top_table *table);
/* Seconds since the start of the process. */
double ls_top_up(const struct ls_probe *probe);

struct ls_top_screen {
    int columns, lines; /* 0: any number */
    bool ascii;
};
void ls_top_print(FILE *out, const struct ls_top_table *table, const struct ls_top_screen *screen);
