/* The progress line, formed as keras.utils.Progbar forms it: a bar of 20 cells, time a step without the first one,
 * metrics with four decimals. Redrawn at most every 50 ms, with \r only on a terminal. */
#include "observe/progress.h"

#include <math.h>
#include <stdio.h>
#include <unistd.h>

#include "base/clock.h"
#include "base/memory.h"
#include "base/status.h"

#define CELLS  20
#define REDRAW (50 * LS_MILLISECOND)

struct ls_progress {
    int verbose;
    bool terminal;
    int64_t steps, drawn; /* of this epoch; the last drawn step */
    int64_t first;        /* the first step of this epoch that was done here; 0: none yet */
    int64_t started, first_done, last_drawn;
    ls_result result; /* after the last step */
    const char *metrics[LS_MAX_METRICS];
    int metric_count;
};

ls_status ls_progress_new(int verbose, struct ls_progress **progress) {
    struct ls_progress *made = ls_alloc(sizeof(*made));
    if (!made) return ls_fail_memory("a progress line", sizeof(*made));
    made->verbose = verbose;
    made->terminal = isatty(STDOUT_FILENO);
    *progress = made;
    return LS_OK;
}

void ls_progress_metric(struct ls_progress *progress, const char *name) {
    if (progress->metric_count < LS_MAX_METRICS) progress->metrics[progress->metric_count++] = name;
}

void ls_progress_free(struct ls_progress *progress) {
    ls_free(progress);
}

void ls_progress_epoch(struct ls_progress *progress, int epoch, int epochs, int64_t steps) {
    if (!progress) return;
    if (epochs > 1) (void)printf("Epoch %d/%d\n", epoch + 1, epochs);
    (void)fflush(stdout);
    progress->steps = steps;
    progress->drawn = progress->first = 0;
    progress->started = ls_now();
    progress->first_done = progress->last_drawn = 0;
}

/* "1s", "12ms", "350us": the unit that fits. */
static void print_duration(double seconds, const char *suffix) {
    if (seconds >= 1 || seconds == 0)
        (void)printf("%.0fs%s", seconds, suffix);
    else if (seconds >= 1e-3)
        (void)printf("%.0fms%s", seconds * 1e3, suffix);
    else
        (void)printf("%.0fus%s", seconds * 1e6, suffix);
}

static void print_metric(const char *name, double value) {
    if (isnan(value)) return;
    (void)printf(fabs(value) > 1e-3 ? " - %s: %.4f" : " - %s: %.4e", name, value);
}

static void print_training(const struct ls_progress *progress, const ls_result *result) {
    print_metric("loss", result->loss);
    print_metric("accuracy", result->accuracy);
    for (int i = 0; i < progress->metric_count; i++) print_metric(progress->metrics[i], result->metrics[i]);
    if (result->skipped_steps > 0)
        (void)printf(" - skipped_steps: %lld - loss_scale: %g", (long long)result->skipped_steps, result->loss_scale);
}

static void print_validation(const struct ls_progress *progress, const ls_result *result) {
    char name[64];
    print_metric("val_loss", result->val_loss);
    print_metric("val_accuracy", result->val_accuracy);
    for (int i = 0; i < progress->metric_count; i++) {
        (void)snprintf(name, sizeof(name), "val_%s", progress->metrics[i]);
        print_metric(name, result->val_metrics[i]);
    }
}

static double seconds_per_step(const struct ls_progress *progress, int64_t step) {
    if (step > progress->first) return ls_seconds_since(progress->first_done) / (double)(step - progress->first);
    return ls_seconds_since(progress->started);
}

static void print_bar(const struct ls_progress *progress, int64_t step) {
    int filled = (int)(CELLS * step / progress->steps);
    (void)printf("%s%lld/%lld ", progress->terminal ? "\r" : "", (long long)step, (long long)progress->steps);
    if (progress->terminal) (void)printf("\x1b[32m");
    for (int i = 0; i < filled; i++) (void)printf("\u2501");
    if (progress->terminal) (void)printf("\x1b[37m");
    for (int i = filled; i < CELLS; i++) (void)printf("\u2501");
    if (progress->terminal) (void)printf("\x1b[0m");
}

static void draw(struct ls_progress *progress, int64_t step, bool last) {
    double pace = seconds_per_step(progress, step);
    print_bar(progress, step);
    (void)printf(" ");
    if (!last) (void)printf("ETA: ");
    print_duration(last ? round(ls_seconds_since(progress->started)) : round(pace * (double)(progress->steps - step)),
                   " ");
    print_duration(pace, "/step");
    print_training(progress, &progress->result);
}

void ls_progress_step(struct ls_progress *progress, int64_t step, const ls_result *result) {
    if (!progress) return;
    if (!progress->first) {
        progress->first = step;
        progress->first_done = ls_now();
    }
    progress->result = *result;
    progress->drawn = step;
    if (progress->verbose != 1 || step == progress->steps) return;
    if (ls_now() - progress->last_drawn < REDRAW) return;
    progress->last_drawn = ls_now();
    draw(progress, step, false);
    (void)printf(progress->terminal ? "\x1b[K" : "\n");
    (void)fflush(stdout);
}

void ls_progress_epoch_end(struct ls_progress *progress, const ls_result *result) {
    if (!progress) return;
    if (progress->verbose == 1) {
        draw(progress, progress->drawn, true);
    } else {
        (void)printf("%lld/%lld - ", (long long)progress->drawn, (long long)progress->steps);
        print_duration(round(ls_seconds_since(progress->started)), " - ");
        print_duration(seconds_per_step(progress, progress->drawn), "/step");
        print_training(progress, result);
    }
    print_validation(progress, result);
    (void)printf(progress->verbose == 1 && progress->terminal ? "\x1b[K\n" : "\n");
    (void)fflush(stdout);
}
