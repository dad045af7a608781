/* Schedules: in double, rounded once at the end. */
#include "model/optimizer.h"

#include <math.h>
#include <stdio.h>

#include "base/status.h"
#include "base/plain.h"

static ls_status bad(const char *field, double value, const char *must) {
    return ls_fail(LS_INVALID_ARGUMENT, "schedule: %s %g must be %s", field, value, must);
}

static ls_status check_boundaries(const ls_rate_schedule *schedule) {
    int64_t before = 0;
    for (int i = 0; i < LS_MAX_BOUNDARIES && schedule->boundaries[i]; before = schedule->boundaries[i++]) {
        if (schedule->boundaries[i] <= before)
            return bad("boundaries", (double)schedule->boundaries[i], "above the one before");
        if (!(schedule->values[i] > 0) || isinf(schedule->values[i]))
            return bad("values", (double)schedule->values[i], "above 0");
    }
    return before ? LS_OK : bad("boundaries", 0, "above 0");
}

/* INVALID_ARGUMENT if a field is set that the kind does not use. */
static ls_status check_unused(const ls_rate_schedule *schedule) {
    static const char *const kinds[] = {"a constant rate", "exponential decay", "cosine decay",
                                        "piecewise constant decay"};
    bool exponential = schedule->kind == LS_EXPONENTIAL_DECAY, cosine = schedule->kind == LS_COSINE_DECAY;
    bool pieces = schedule->kind == LS_PIECEWISE_CONSTANT_DECAY;
    const struct {
        const char *name;
        bool has, set;
    } fields[] = {
        {"decay_steps", exponential || cosine, schedule->decay_steps != 0},
        {"decay_rate", exponential, schedule->decay_rate != 0},
        {"staircase", exponential, schedule->staircase},
        {"alpha", cosine, schedule->alpha != 0},
        {"boundaries", pieces, schedule->boundaries[0] != 0},
        {"values", pieces, schedule->values[0] != 0},
    };
    for (size_t i = 0; i < sizeof(fields) / sizeof(fields[0]); i++)
        if (fields[i].set && !fields[i].has)
            return ls_fail(LS_INVALID_ARGUMENT, "schedule: %s has no %s; leave it out", kinds[schedule->kind],
                           fields[i].name);
    return LS_OK;
}

static ls_status check_kind(const ls_rate_schedule *schedule) {
    bool decays = schedule->kind == LS_EXPONENTIAL_DECAY || schedule->kind == LS_COSINE_DECAY;
    if (schedule->kind < LS_CONSTANT_RATE || schedule->kind > LS_PIECEWISE_CONSTANT_DECAY)
        return ls_fail(LS_INVALID_ARGUMENT, "schedule: kind %d is no ls_rate_schedule_kind", (int)schedule->kind);
    if (decays && schedule->decay_steps < 1) return bad("decay_steps", (double)schedule->decay_steps, "1 or more");
    if (schedule->kind == LS_EXPONENTIAL_DECAY && (!(schedule->decay_rate > 0) || isinf(schedule->decay_rate)))
        return bad("decay_rate", (double)schedule->decay_rate, "above 0");
    if (!(schedule->alpha >= 0 && schedule->alpha <= 1)) return bad("alpha", (double)schedule->alpha, "from 0 to 1");
    return check_unused(schedule);
}

ls_status ls_rate_schedule_check(const ls_rate_schedule *schedule) {
    if (schedule->warmup_steps < 0) return bad("warmup_steps", (double)schedule->warmup_steps, "0 or more");
    if (!(schedule->warmup_from >= 0) || isinf(schedule->warmup_from))
        return bad("warmup_from", (double)schedule->warmup_from, "0 or more");
    if (schedule->warmup_from > 0 && !schedule->warmup_steps)
        return ls_fail(LS_INVALID_ARGUMENT, "schedule: warmup_from %g without warmup_steps",
                       (double)schedule->warmup_from);
    ls_status status = check_kind(schedule);
    if (status || schedule->kind != LS_PIECEWISE_CONSTANT_DECAY) return status;
    return check_boundaries(schedule);
}

bool ls_rate_schedule_is_constant(const ls_rate_schedule *schedule) {
    return schedule->kind == LS_CONSTANT_RATE && !schedule->warmup_steps;
}

/* values[i] holds from the step after boundaries[i] on, and rate before the first, as in Keras' PiecewiseConstantDecay,
 * whose values have one more element for it. */
static double piecewise(const ls_rate_schedule *schedule, double rate, int64_t step) {
    for (int i = 0; i < LS_MAX_BOUNDARIES && schedule->boundaries[i] && step > schedule->boundaries[i]; i++)
        rate = (double)schedule->values[i];
    return rate;
}

/* step counts from the end of the warm-up. The formulas are those of keras.optimizers.schedules: ExponentialDecay, and
 * CosineDecay, which is half a period of Loshchilov and Hutter 2017 (SGDR) and stays at alpha after decay_steps. */
static double after_warmup(const ls_rate_schedule *schedule, double rate, int64_t step) {
    double part = (double)step / (double)schedule->decay_steps, alpha = (double)schedule->alpha;
    switch (schedule->kind) {
    case LS_EXPONENTIAL_DECAY:
        return rate * pow((double)schedule->decay_rate, schedule->staircase ? floor(part) : part);
    case LS_COSINE_DECAY:
        return rate * ((1 - alpha) * 0.5 * (1 + cos(M_PI * fmin(part, 1))) + alpha);
    case LS_PIECEWISE_CONSTANT_DECAY:
        return piecewise(schedule, rate, step);
    default:
        return rate;
    }
}

/* The linear warm-up is that of Goyal et al. 2017 for large batches. The rate depends on the step alone: after a
 * restart or a recovery all workers find the same one, without state. */
float ls_rate_schedule_rate(const ls_rate_schedule *schedule, float rate, int64_t step) {
    if (ls_rate_schedule_is_constant(schedule)) return rate;
    double target = (double)rate, from = (double)schedule->warmup_from;
    if (step < schedule->warmup_steps)
        return (float)(from + (target - from) * (double)step / (double)schedule->warmup_steps);
    return (float)after_warmup(schedule, target, step - schedule->warmup_steps);
}

void ls_rate_schedule_describe(const ls_rate_schedule *schedule, char *text, size_t size) {
    static const char *const names[] = {"constant", "exponential_decay", "cosine_decay", "piecewise_constant_decay"};
    int used = ls_plain_text(text, size, "%s(decay_steps=%lld, decay_rate=%.9g, staircase=%d, alpha=%.9g",
                             names[schedule->kind], (long long)schedule->decay_steps, (double)schedule->decay_rate,
                             schedule->staircase ? 1 : 0, (double)schedule->alpha);
    for (int i = 0; i < LS_MAX_BOUNDARIES && schedule->boundaries[i] && (size_t)used < size; i++)
        used += ls_plain_text(text + used, size - (size_t)used, ", %.9g after %lld", (double)schedule->values[i],
                              (long long)schedule->boundaries[i]);
    if ((size_t)used < size)
        (void)ls_plain_text(text + used, size - (size_t)used, ", warmup_steps=%lld, warmup_from=%.9g)",
                            (long long)schedule->warmup_steps, (double)schedule->warmup_from);
}
