/* A column of a table: numbers, or words that become categories. */
#pragma once
#include "base/csv.h"
#include "data/categories.h"

#define LS_COLUMN_SMALL 1000 /* whole numbers from 0 to below may be classes without being asked for */

struct ls_column {
    char *name;    /* owns */
    int64_t place; /* in a row */
    bool words;    /* it has categories, else numbers */
    double mean, deviation;
    struct ls_categories categories;
    /* of what ls_column_look has seen: */
    int64_t count, odd; /* cells, and of those the ones that are no numbers */
    int64_t first_odd;  /* the line of the first of them */
    bool whole;         /* all numbers are */
    double highest;
    uint8_t *seen; /* owns: [LS_COLUMN_SMALL] which small numbers occur; NULL: nobody asks */
    /* of the rows that are kept: */
    double *numbers; /* own: [rows] one of the two */
    int32_t *codes;
};

bool ls_column_missing(const char *text); /* an empty cell, or one that says so: NA, N/A, NaN, null, ? */
void ls_column_look(struct ls_column *column, const struct ls_csv *csv);
/* True if whole numbers from 0 on are there, each of them, two at least. */
bool ls_column_counts(const struct ls_column *column);
/* Makes room for so many rows. */
ls_status ls_column_begin(struct ls_column *column, int64_t rows);
/* Takes the cell of csv's row. known: a word that is not among the categories is an error. */
ls_status ls_column_put(struct ls_column *column, const struct ls_csv *csv, int64_t row, bool known);
/* Categories by their names' order. INVALID_ARGUMENT where they are so many that they say nothing. */
ls_status ls_column_end(struct ls_column *column, const char *path, int64_t rows, bool target);
/* Mean and deviation of some rows; [count] all if NULL. */
void ls_column_scale(struct ls_column *column, const int64_t *rows, int64_t first, int64_t count);
/* Writes ls_column_width floats. */
void ls_column_read(const struct ls_column *column, int64_t row, float *features);
int64_t ls_column_width(const struct ls_column *column);
void ls_column_free(struct ls_column *column);
