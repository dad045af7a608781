/* A cell is the mean of its epochs. Its height is between the least and the greatest of all cells. */
#include "cli/curve.h"

#include <math.h>
#include <stdio.h>
#include <stdlib.h>

#include "cli/commands.h"

enum { MOST_CELLS = 40, LEAST_CELLS = 4, CURVES = 2 };

static const char *const blocks[] = {"\u2581", "\u2582", "\u2583", "\u2584", "\u2585", "\u2586", "\u2587", "\u2588"};
static const char *const letters[] = {"_", ".", "-", "'"}; /* where there is no UTF-8 */

ls_status ls_curve_take(void *context, int epoch, const ls_result *result) {
    struct ls_curve *curve = context;
    (void)epoch;
    if (curve->count == curve->capacity) {
        int capacity = curve->capacity * 2 + 16;
        void *losses = realloc(curve->losses, (size_t)capacity * sizeof(*curve->losses));
        if (!losses) return LS_OK; /* the curve ends here */
        curve->losses = losses;
        curve->capacity = capacity;
    }
    curve->losses[curve->count][0] = result->loss;
    curve->losses[curve->count++][1] = result->val_loss;
    return LS_OK;
}

static double mean_of(const struct ls_curve *curve, int which, int begin, int end) {
    double sum = 0;
    for (int i = begin; i < end; i++) sum += curve->losses[i][which];
    return sum / (end - begin);
}

static void print_cell(double height) {
    bool ascii = !ls_terminal_is_utf8();
    const char *const *marks = ascii ? letters : blocks;
    int highest = ascii ? 3 : 7;
    (void)fputs(isfinite(height) ? marks[(int)lround(height * highest)] : "?", stdout);
}

static void print_cells(const struct ls_curve *curve, int which, int cells) {
    double means[MOST_CELLS], least = INFINITY, most = -INFINITY;
    for (int i = 0; i < cells; i++) {
        means[i] = mean_of(curve, which, curve->count * i / cells, curve->count * (i + 1) / cells);
        if (!isfinite(means[i])) continue;
        least = fmin(least, means[i]);
        most = fmax(most, means[i]);
    }
    for (int i = 0; i < cells; i++) print_cell(most > least ? (means[i] - least) / (most - least) : means[i] * 0);
}

static int columns_of_terminal(void) {
    const char *behind = getenv("LOCKSTEP_COLUMNS"); /* of lockstep run's terminal */
    int columns, lines;
    ls_terminal_size(&columns, &lines);
    return columns || !behind ? columns : (int)strtol(behind, NULL, 10);
}

/* As many curves as the terminal has room for, side by side. */
void ls_curve_print(const struct ls_curve *curve) {
    static const char *const names[CURVES] = {"loss", " - val_loss"};
    char ends[CURVES][64];
    int room = columns_of_terminal() - 1, words = 0, curves = 0, cells = MOST_CELLS;
    if (curve->count < 2) return;
    for (int which = 0; which < CURVES && !isnan(curve->losses[0][which]); which++) {
        words += snprintf(ends[which], sizeof(ends[which]), "%.4g to %.4g", curve->losses[0][which],
                          curve->losses[curve->count - 1][which]);
        words += snprintf(NULL, 0, "%s  ", names[which]);
        if (room - words < (which + 1) * LEAST_CELLS) break;
        cells = (room - words) / ++curves;
    }
    if (cells > MOST_CELLS) cells = MOST_CELLS;
    if (cells > curve->count) cells = curve->count;
    for (int which = 0; which < curves; which++) {
        (void)printf("%s ", names[which]);
        print_cells(curve, which, cells);
        (void)printf(" %s", ends[which]);
    }
    if (curves) (void)printf("\n");
}

void ls_curve_free(struct ls_curve *curve) {
    free(curve->losses);
}
