/* Curves of CSV logs, for lockstep plot. */
#pragma once
#include <lockstep/lockstep.h>
#include <stdio.h>

struct ls_plot_curve {
    char *metric; /* owns: "val_loss" */
    int file, panel;
    double *x, *y; /* own: [count]; y is NaN where the log has no number */
    int64_t count;
};
/* A panel has the curves of a metric and of its "val_". */
struct ls_plot {
    const char *const *paths; /* [path_count] borrowed */
    int path_count;
    struct ls_plot_curve *curves; /* own: [count], those of a file one after the other */
    int count, room;
    char **panels; /* own: [panel_count] names of metrics */
    int panel_count;
    bool epochs; /* x is that column, else the number of the row */
};
struct ls_plot_range {
    double low, high;
};
/* Of all numbers of a panel: along x, or of the values. It is never empty. */
struct ls_plot_range ls_plot_range_of(const struct ls_plot *plot, int panel, bool along_x);
/* The distance of so many ticks at most: 1, 2 or 5 times a power of 10. */
double ls_plot_step(struct ls_plot_range range, int most);
/* True if the curve goes on to point i, and does not begin there. */
bool ls_plot_goes_on(const struct ls_plot_curve *curve, int64_t i);
bool ls_plot_validates(const struct ls_plot_curve *curve); /* "val_..." */
/* "loss", or with several files "second.csv loss". */
void ls_plot_label(const struct ls_plot *plot, const struct ls_plot_curve *curve, char *text, size_t size);
/* A number of up to six digits, whatever the locale. */
void ls_plot_number(double value, char *text, size_t size);

void ls_plot_svg(const struct ls_plot *plot, FILE *out);

/* ascii: with letters for dots, where the terminal has no Unicode. */
void ls_plot_text(const struct ls_plot *plot, bool ascii, bool colour, FILE *out);
