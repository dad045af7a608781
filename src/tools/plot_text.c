/* A cell of the terminal has 2 x 4 dots of Braille, or one letter. The letter of a curve stands at its end, too. */
#include "tools/plot.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

enum { COLUMNS = 68, ROWS = 14, LABEL = 10, LETTERS = 26, COLOURS = 6 };

struct grid {
    bool ascii, colour;
    int across, down; /* dots in a cell */
    struct ls_plot_range x, y;
    struct grid_cell {
        unsigned char dots;
        char letter;
        int curve; /* the last one there */
    } cells[ROWS][COLUMNS];
};

static char letter_of(int curve) {
    return (char)('a' + curve % LETTERS);
}

static void put_dot(struct grid *grid, int x, int y, int curve) {
    static const unsigned char bits[4][2] = {{0x01, 0x08}, {0x02, 0x10}, {0x04, 0x20}, {0x40, 0x80}};
    struct grid_cell *cell = &grid->cells[y / grid->down][x / grid->across];
    cell->dots |= bits[y % grid->down][x % grid->across];
    if (grid->ascii) cell->letter = letter_of(curve);
    cell->curve = curve;
}

/* The dot of a value, from the left or from the top. */
static int dot_of(struct ls_plot_range range, double value, int dots, bool falls) {
    double part = (value - range.low) / (range.high - range.low);
    int dot = (int)lround((falls ? 1 - part : part) * (dots - 1));
    return dot < 0 ? 0 : dot >= dots ? dots - 1 : dot;
}

static void draw_line(struct grid *grid, const int from[2], const int to[2], int curve) {
    int wide = abs(to[0] - from[0]), high = abs(to[1] - from[1]), steps = wide > high ? wide : high;
    for (int i = 0; i <= steps; i++) {
        double part = steps ? (double)i / steps : 0;
        put_dot(grid, (int)lround(from[0] + part * (to[0] - from[0])), (int)lround(from[1] + part * (to[1] - from[1])),
                curve);
    }
}

static void draw_curve(struct grid *grid, const struct ls_plot_curve *curve, int number) {
    int before[2] = {0, 0};
    bool any = false;
    for (int64_t i = 0; i < curve->count; i++) {
        if (!isfinite(curve->y[i]) || !isfinite(curve->x[i])) continue;
        int at[2] = {dot_of(grid->x, curve->x[i], COLUMNS * grid->across, false),
                     dot_of(grid->y, curve->y[i], ROWS * grid->down, true)};
        draw_line(grid, ls_plot_goes_on(curve, i) ? before : at, at, number);
        memcpy(before, at, sizeof(before));
        any = true;
    }
    if (any) grid->cells[before[1] / grid->down][before[0] / grid->across].letter = letter_of(number);
}

static void print_cell(const struct grid *grid, const struct grid_cell *cell, FILE *out) {
    bool empty = !cell->dots;
    if (grid->colour && !empty) (void)fprintf(out, "\x1b[3%dm", 1 + cell->curve % COLOURS);
    if (empty || cell->letter)
        (void)fputc(empty ? ' ' : cell->letter, out);
    else /* U+2800 and the dots, in UTF-8 */
        (void)fprintf(out, "%c%c%c", 0xE2, 0xA0 | cell->dots >> 6, 0x80 | (cell->dots & 0x3F));
    if (grid->colour && !empty) (void)fputs("\x1b[0m", out);
}

/* Blanks at the end of a row are left out. */
static void print_cells(const struct grid *grid, int row, FILE *out) {
    char label[32] = "";
    int end = COLUMNS;
    double value = grid->y.high - (grid->y.high - grid->y.low) * row / (ROWS - 1);
    if (row % 4 == 0 || row == ROWS - 1) ls_plot_number(value, label, sizeof(label));
    while (end && !grid->cells[row][end - 1].dots) end--;
    (void)fprintf(out, "%*s |", LABEL - 1, label);
    for (int i = 0; i < end; i++) print_cell(grid, &grid->cells[row][i], out);
    (void)fputc('\n', out);
}

static void print_axis(const struct grid *grid, const char *what, FILE *out) {
    char low[32], high[32];
    ls_plot_number(grid->x.low, low, sizeof(low));
    ls_plot_number(grid->x.high, high, sizeof(high));
    (void)fprintf(out, "%*s ", LABEL, "");
    int middle = COLUMNS - (int)strlen(low) - (int)strlen(high);
    (void)fprintf(out, "%s%*s%*s%s\n", low, (middle + (int)strlen(what)) / 2, what,
                  middle - (middle + (int)strlen(what)) / 2, "", high);
}

static void print_legend(const struct ls_plot *plot, int panel, bool colour, FILE *out) {
    for (int i = 0, number = 0; i < plot->count; i++) {
        char label[64];
        if (plot->curves[i].panel != panel) continue;
        ls_plot_label(plot, &plot->curves[i], label, sizeof(label));
        if (colour) (void)fprintf(out, "\x1b[3%dm", 1 + number % COLOURS);
        (void)fprintf(out, "%*s %c %s", LABEL, "", letter_of(number), label);
        if (colour) (void)fputs("\x1b[0m", out);
        (void)fputc('\n', out);
        number++;
    }
}

void ls_plot_text(const struct ls_plot *plot, bool ascii, bool colour, FILE *out) {
    for (int panel = 0; panel < plot->panel_count; panel++) {
        struct grid grid = {ascii,
                            colour,
                            ascii ? 1 : 2,
                            ascii ? 1 : 4,
                            ls_plot_range_of(plot, panel, true),
                            ls_plot_range_of(plot, panel, false)};
        for (int i = 0, number = 0; i < plot->count; i++)
            if (plot->curves[i].panel == panel) draw_curve(&grid, &plot->curves[i], number++);
        (void)fprintf(out, "%s%s\n", panel ? "\n" : "", plot->panels[panel]);
        for (int row = 0; row < ROWS; row++) print_cells(&grid, row, out);
        print_axis(&grid, plot->epochs ? "epoch" : "row", out);
        print_legend(plot, panel, colour, out);
    }
}
