/* The cells of a column, and their features: numbers are scaled, a word is a 1 among zeros. */
#include "data/column.h"

#include <float.h>
#include <math.h>
#include <stdio.h>
#include <string.h>

#include "base/memory.h"
#include "base/plain.h"
#include "base/status.h"

#define MOST_CATEGORIES 1000
#define FEW_CATEGORIES  50 /* need not occur twice */
#define FEW_WORDS       20 /* may be whole numbers among them */

bool ls_column_missing(const char *text) {
    static const char *const words[] = {"", "NA", "N/A", "NaN", "null", "?"};
    for (size_t i = 0; i < sizeof(words) / sizeof(words[0]); i++)
        if (ls_plain_same(text, words[i])) return true;
    return false;
}

void ls_column_look(struct ls_column *column, const struct ls_csv *csv) {
    double number;
    column->count++;
    if (!ls_csv_number(ls_csv_cell(csv, (size_t)column->place), &number)) {
        if (!column->odd++) column->first_odd = csv->line;
        return;
    }
    if (column->count == 1 + column->odd) column->whole = true;
    if (column->count == 1 + column->odd || number > column->highest) column->highest = number;
    if (number < floor(number) || number > floor(number)) column->whole = false;
    bool small = number >= 0 && number < LS_COLUMN_SMALL;
    if (column->seen && small) column->seen[(int)number] = 1;
    if (!small && number < 0) column->highest = LS_COLUMN_SMALL; /* they do not begin with 0 */
}

bool ls_column_counts(const struct ls_column *column) {
    if (column->odd || !column->whole || !column->seen || column->highest < 1 || column->highest >= LS_COLUMN_SMALL)
        return false;
    for (int i = 0; i <= (int)column->highest; i++)
        if (!column->seen[i]) return false;
    return true;
}

ls_status ls_column_begin(struct ls_column *column, int64_t rows) {
    if (column->words)
        column->codes = ls_alloc_array((size_t)rows, sizeof(*column->codes));
    else
        column->numbers = ls_alloc_array((size_t)rows, sizeof(*column->numbers));
    return column->codes || column->numbers ? LS_OK : ls_fail_memory(column->name, (size_t)rows * sizeof(double));
}

/* "a, b, c" */
static void list(const struct ls_categories *categories, char *text, size_t size) {
    size_t used = 0;
    for (int64_t i = 0; i < categories->count && used + 80 < size; i++)
        used += (size_t)snprintf(text + used, size - used, i ? ", %.60s" : "%.60s", categories->list[i]->name);
    if (used + 80 >= size) (void)snprintf(text + used, size - used, ", ...");
}

static ls_status fail_unknown(const struct ls_column *column, const struct ls_csv *csv, const char *word) {
    char names[400] = "";
    list(&column->categories, names, sizeof(names));
    return ls_fail(LS_INVALID_ARGUMENT, "'%s' line %lld, column '%s': '%.80s' is none of the training's %lld: %s",
                   csv->path, (long long)csv->line, column->name, word, (long long)column->categories.count, names);
}

/* A number that is a class is named by its value: "1.0" is "1". */
static const char *word_of(const struct ls_column *column, const struct ls_csv *csv, char *room, size_t size) {
    const char *cell = ls_csv_cell(csv, (size_t)column->place);
    double number;
    bool plain =
        !ls_csv_number(cell, &number) || fabs(number) > 1e15 || number < floor(number) || number > floor(number);
    if (!plain) (void)snprintf(room, size, "%lld", (long long)number);
    return plain ? cell : room;
}

ls_status ls_column_put(struct ls_column *column, const struct ls_csv *csv, int64_t row, bool known) {
    char room[32];
    const char *cell = ls_csv_cell(csv, (size_t)column->place), *word = word_of(column, csv, room, sizeof(room));
    if (!column->words && !ls_csv_number(cell, &column->numbers[row]))
        return ls_fail(LS_INVALID_ARGUMENT, "'%s' line %lld, column '%s': '%.80s' is no number", csv->path,
                       (long long)csv->line, column->name, cell);
    if (!column->words && fabs(column->numbers[row]) > (double)FLT_MAX)
        return ls_fail(LS_INVALID_ARGUMENT, "'%s' line %lld, column '%s': %.80s is more than float32 holds", csv->path,
                       (long long)csv->line, column->name, cell);
    if (!column->words) return LS_OK;
    if (!known) return ls_categories_add(&column->categories, word, &column->codes[row]);
    column->codes[row] = ls_categories_find(&column->categories, word);
    return column->codes[row] < 0 ? fail_unknown(column, csv, word) : LS_OK;
}

/* True if all would be numbers without their commas. */
static bool has_commas(const struct ls_categories *categories) {
    for (int64_t i = 0; i < categories->count; i++)
        if (categories->list[i]->name[strspn(categories->list[i]->name, "0123456789+-.,")]) return false;
    return true;
}

/* A number that is spelled wrong would make words of all others. */
static ls_status check_words(const struct ls_column *column, const char *path) {
    bool few = column->categories.count <= FEW_WORDS && (column->whole || column->count == column->odd);
    if (!column->odd) return LS_OK;
    if (has_commas(&column->categories))
        return ls_fail(LS_INVALID_ARGUMENT,
                       "'%s' line %lld, column '%s': a number has a comma: write it with a point, as 1234.5", path,
                       (long long)column->first_odd, column->name);
    if (few || column->odd > column->count / 10) return LS_OK;
    return ls_fail(LS_INVALID_ARGUMENT,
                   "'%s' line %lld, column '%s': a word, one of %lld among %lld cells that are numbers otherwise: mend "
                   "them, or leave the column out (--without)",
                   path, (long long)column->first_odd, column->name, (long long)column->odd, (long long)column->count);
}

ls_status ls_column_end(struct ls_column *column, const char *path, int64_t rows, bool target) {
    if (!column->words) return LS_OK;
    struct ls_categories *categories = &column->categories;
    ls_status status = check_words(column, path);
    if (status) return status;
    if (categories->count > MOST_CATEGORIES || (categories->count > FEW_CATEGORIES && 2 * categories->count > rows))
        return ls_fail(LS_INVALID_ARGUMENT,
                       "'%s', column '%s': %lld different words in %lld rows (line %lld has the first) are no %s", path,
                       column->name, (long long)categories->count, (long long)rows, (long long)column->first_odd,
                       target ? "classes" : "categories: leave it out (--without)");
    LS_CLEANUP(ls_free_pointer) int32_t *places = NULL;
    status = ls_categories_sort(categories, &places);
    for (int64_t i = 0; i < rows && !status; i++) column->codes[i] = places[column->codes[i]];
    return status;
}

void ls_column_scale(struct ls_column *column, const int64_t *rows, int64_t first, int64_t count) {
    double sum = 0, squares = 0;
    bool alike = true;
    if (column->words || count < 1) return;
    double begin = column->numbers[rows ? rows[0] : first];
    for (int64_t i = 0; i < count; i++) {
        double difference = column->numbers[rows ? rows[i] : first + i] - begin;
        alike = alike && !(difference < 0) && !(difference > 0);
        sum += difference;
        squares += difference * difference;
    }
    double mean = sum / (double)count, square = squares / (double)count - mean * mean;
    column->mean = begin + mean;
    column->deviation = !alike && square > 0 ? sqrt(square) : 1;
}

void ls_column_read(const struct ls_column *column, int64_t row, float *features) {
    if (!column->words) {
        *features = (float)((column->numbers[row] - column->mean) / column->deviation);
        return;
    }
    for (int64_t i = 0; i < column->categories.count; i++) features[i] = i == column->codes[row] ? 1.0F : 0.0F;
}

int64_t ls_column_width(const struct ls_column *column) {
    return column->words ? column->categories.count : 1;
}

void ls_column_free(struct ls_column *column) {
    ls_free(column->name);
    ls_free(column->seen);
    ls_free(column->numbers);
    ls_free(column->codes);
    ls_categories_free(&column->categories);
    *column = (struct ls_column){0};
}
