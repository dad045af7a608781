/* The progress line, formed as keras.utils.Progbar forms it: a bar of 20 cells, time a step without the first one,
 * examples a second, the time that all epochs still take, metrics with four decimals. Redrawn at most every 50 ms, with
 * \r only on a terminal, and cut to its width; the last one is folded. lockstep run passes on what ends in \r. */
#include "observe/progress.h"

#include <math.h>
#include <stdio.h>
#include <string.h>
#include <sys/ioctl.h>
#include <unistd.h>

#include "base/clock.h"
#include "base/new.h"
#include "base/plain.h"

#define CELLS  20
#define REDRAW (50 * LS_MILLISECOND)

struct ls_progress {
    int verbose, columns; /* columns: of the terminal behind lockstep run */
    bool terminal;
    bool standing;        /* a bar without its end of line, on a terminal of this process' own */
    int epoch, epochs;    /* the present one, from 0 */
    int begun;            /* epochs here */
    int64_t steps, drawn; /* of this epoch; the last drawn step */
    int64_t first;        /* the first step of this epoch that was done here; 0: none yet */
    int64_t first_rows;   /* examples until then */
    int64_t rows;         /* examples of this epoch */
    int64_t began, started, first_done, last_drawn;
    ls_result result; /* after the last step */
    const char *metrics[LS_MAX_METRICS];
    int metric_count;
    char text[2048]; /* the line behind the bar */
    size_t used;
};

ls_status ls_progress_new(int verbose, int columns, struct ls_progress **progress) {
    LS_NEW(struct ls_progress, made, "a progress line");
    made->verbose = verbose;
    made->columns = columns;
    made->terminal = columns || isatty(STDOUT_FILENO);
    *progress = made;
    return LS_OK;
}

void ls_progress_metric(struct ls_progress *progress, const char *name) {
    if (progress->metric_count < LS_MAX_METRICS) progress->metrics[progress->metric_count++] = name;
}

void ls_progress_free(struct ls_progress *progress) {
    if (progress && progress->standing) (void)printf("\n");
    ls_free(progress);
}

void ls_progress_epoch(struct ls_progress *progress, int epoch, int epochs, int64_t steps) {
    if (!progress) return;
    if (epochs > 1) (void)printf("Epoch %d/%d\n", epoch + 1, epochs);
    (void)fflush(stdout);
    progress->epoch = epoch;
    progress->epochs = epochs;
    progress->steps = steps;
    progress->drawn = progress->first = progress->rows = progress->first_rows = 0;
    progress->started = ls_now();
    if (!progress->begun++) progress->began = progress->started;
    progress->first_done = progress->last_drawn = 0;
}

/* ---- the line's words ------------------------------------------------------------------------------------------- */

__attribute__((format(printf, 2, 3))) static void put(struct ls_progress *progress, const char *format, ...) {
    size_t room = sizeof(progress->text) - progress->used;
    int size = LS_PLAIN_ARGUMENTS(progress->text + progress->used, room, format);
    progress->used += size < 0 ? 0 : (size_t)size < room ? (size_t)size : room - 1;
}

/* "1s", "12ms", "350us": the unit that fits. */
static void put_duration(struct ls_progress *progress, double seconds, const char *suffix) {
    if (seconds >= 1 || seconds == 0)
        put(progress, "%.0fs%s", seconds, suffix);
    else if (seconds >= 1e-3)
        put(progress, "%.0fms%s", seconds * 1e3, suffix);
    else
        put(progress, "%.0fus%s", seconds * 1e6, suffix);
}

/* "45s", "3m20s", "2h05m", "3d04h". */
static void put_long(struct ls_progress *progress, double seconds, const char *suffix) {
    long long whole = llround(fmin(seconds, 1e15)), minutes = whole / 60, hours = minutes / 60;
    if (!minutes)
        put(progress, "%llds%s", whole, suffix);
    else if (!hours)
        put(progress, "%lldm%02llds%s", minutes, whole % 60, suffix);
    else if (hours < 48)
        put(progress, "%lldh%02lldm%s", hours, minutes % 60, suffix);
    else
        put(progress, "%lldd%02lldh%s", hours / 24, hours % 24, suffix);
}

static void put_metric(struct ls_progress *progress, const char *name, double value) {
    if (isnan(value))
        put(progress, " - %s: nan", name);
    else
        put(progress, fabs(value) > 1e-3 ? " - %s: %.4f" : " - %s: %.4e", name, value);
}

/* A share of counts: no number where the loss has none, and nowhere else. */
static void put_accuracy(struct ls_progress *progress, const char *name, double value) {
    if (!isnan(value)) put_metric(progress, name, value);
}

static void put_training(struct ls_progress *progress, const ls_result *result) {
    put_metric(progress, "loss", result->loss);
    put_accuracy(progress, "accuracy", result->accuracy);
    for (int i = 0; i < progress->metric_count; i++) put_metric(progress, progress->metrics[i], result->metrics[i]);
    if (result->skipped_steps > 0)
        put(progress, " - skipped_steps: %lld - loss_scale: %g", (long long)result->skipped_steps, result->loss_scale);
}

static void put_validation(struct ls_progress *progress, const ls_result *result) {
    char name[64];
    put_metric(progress, "val_loss", result->val_loss);
    put_accuracy(progress, "val_accuracy", result->val_accuracy);
    for (int i = 0; i < progress->metric_count; i++) {
        (void)snprintf(name, sizeof(name), "val_%s", progress->metrics[i]);
        put_metric(progress, name, result->val_metrics[i]);
    }
}

static double seconds_per_step(const struct ls_progress *progress, int64_t step) {
    if (step > progress->first) return ls_seconds_since(progress->first_done) / (double)(step - progress->first);
    return ls_seconds_since(progress->started);
}

/* All workers together, without the first step, which builds what the others use. */
static double rows_per_second(const struct ls_progress *progress) {
    bool several = progress->rows > progress->first_rows;
    double seconds = ls_seconds_since(several ? progress->first_done : progress->started);
    return seconds > 0 ? (double)(several ? progress->rows - progress->first_rows : progress->rows) / seconds : 0;
}

/* Of all epochs: those that were done here say what one takes, with its validation. */
static double seconds_left(const struct ls_progress *progress, int64_t step, double pace, bool last) {
    int done = progress->begun - 1 + last;
    double measured = (double)((last ? ls_now() : progress->started) - progress->began) / (double)LS_SECOND;
    double epoch = done ? measured / done : pace * (double)progress->steps;
    return pace * (double)(progress->steps - step) + epoch * (progress->epochs - progress->epoch - 1);
}

static void put_pace(struct ls_progress *progress, int64_t step, double pace, bool last) {
    put_duration(progress, pace, "/step");
    if (progress->rows) put(progress, " - %.0f examples/s", rows_per_second(progress));
    if (progress->epochs <= progress->epoch + 1) return;
    put(progress, " - ");
    put_long(progress, seconds_left(progress, step, pace, last), " left");
}

/* ---- drawing ---------------------------------------------------------------------------------------------------- */

/* Cells that a line may have; 0: any number. The last one is left free: some terminals go on in the next line then. */
static int width_of(const struct ls_progress *progress) {
    struct winsize size;
    if (progress->columns) return progress->columns > 1 ? progress->columns - 1 : 1;
    if (!progress->terminal || ioctl(STDOUT_FILENO, TIOCGWINSZ, &size) || !size.ws_col) return 0;
    return size.ws_col > 1 ? size.ws_col - 1 : 1;
}

static void print_cells(const struct ls_progress *progress, int filled, int cells) {
    if (progress->terminal) (void)printf("\x1b[32m");
    for (int i = 0; i < cells; i++) {
        if (i == filled && progress->terminal) (void)printf("\x1b[37m");
        (void)printf("\u2501");
    }
    if (progress->terminal) (void)printf("\x1b[0m");
}

/* All of the text behind so many cells, in lines of its own where a number does not fit any more. */
static void print_folded_text(const struct ls_progress *progress, int used, int width) {
    const char *text = progress->text;
    int indent = width > 30 ? 4 : 0;
    while (*text) {
        const char *next = strstr(text + 1, " - ");
        int size = (int)(next ? (size_t)(next - text) : strlen(text)), skipped = !strncmp(text, " - ", 3) ? 3 : 0;
        if (used + size > width && used > indent) {
            (void)printf("\x1b[K\n%*s", indent, "");
            used = indent;
            text += skipped;
            size -= skipped;
        }
        if (size > width - used) size = width - used;
        (void)printf("%.*s", size, text);
        used += size;
        text += size;
    }
}

/* The bar, and the text behind it as far as it fits; all of it where nothing will be drawn over it. */
static void print_line(struct ls_progress *progress, int64_t step, bool last) {
    char count[64];
    int width = width_of(progress); /* a narrow terminal has more use for the numbers */
    int cells = !width || width > 118 ? CELLS : width > 88 ? CELLS / 2 : CELLS / 4;
    int filled = progress->steps ? (int)(cells * step / progress->steps) : cells; /* the steps were done before */
    int taken = snprintf(count, sizeof(count), "%lld/%lld ", (long long)step, (long long)progress->steps);
    if (width && taken > width) taken = width;
    if (width && taken + cells > width) cells = width - taken;
    (void)printf("%s%.*s", progress->terminal && !progress->columns ? "\r" : "", taken, count);
    print_cells(progress, filled, cells);
    if (width && last)
        print_folded_text(progress, taken + cells, width);
    else
        (void)printf("%.*s", width ? width - taken - cells : (int)progress->used, progress->text);
    progress->used = 0;
}

static void draw(struct ls_progress *progress, int64_t step, bool last) {
    double pace = seconds_per_step(progress, step);
    put(progress, last ? " " : " ETA: ");
    put_duration(progress,
                 last ? round(ls_seconds_since(progress->started)) : round(pace * (double)(progress->steps - step)),
                 " ");
    put_pace(progress, step, pace, last);
    put_training(progress, &progress->result);
}

void ls_progress_step(struct ls_progress *progress, int64_t step, int64_t rows, const ls_result *result) {
    if (!progress) return;
    if (!progress->first) {
        progress->first = step;
        progress->first_rows = rows;
        progress->first_done = ls_now();
    }
    progress->result = *result;
    progress->drawn = step;
    progress->rows = rows;
    if (progress->verbose != 1 || step == progress->steps) return;
    if (ls_now() - progress->last_drawn < REDRAW) return;
    progress->last_drawn = ls_now();
    draw(progress, step, false);
    print_line(progress, step, false);
    progress->standing = progress->terminal && !progress->columns;
    (void)printf("%s", progress->columns ? "\x1b[K\r" : progress->terminal ? "\x1b[K" : "\n");
    (void)fflush(stdout);
}

void ls_progress_epoch_end(struct ls_progress *progress, const ls_result *result, bool validated) {
    if (!progress) return;
    bool bar = progress->verbose == 1;
    if (bar) {
        draw(progress, progress->drawn, true);
    } else {
        put(progress, "%lld/%lld - ", (long long)progress->drawn, (long long)progress->steps);
        put_duration(progress, round(ls_seconds_since(progress->started)), " - ");
        put_pace(progress, progress->steps, seconds_per_step(progress, progress->drawn), true);
        put_training(progress, result);
    }
    if (validated) put_validation(progress, result);
    if (bar)
        print_line(progress, progress->drawn, true);
    else
        (void)fputs(progress->text, stdout);
    progress->used = 0;
    progress->standing = false;
    (void)printf(bar && progress->terminal ? "\x1b[K\n" : "\n");
    (void)fflush(stdout);
}
