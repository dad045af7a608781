/* Element i has its own random numbers, so a part of a variable can be drawn anywhere, and by several threads at once:
 * a table of 38 million normal numbers takes one of them two seconds. */
#include "base/fill.h"

#include <math.h>
#include <stdatomic.h>

#include "base/random.h"
#include "base/thread.h"

enum { MOST_THREADS = 16, PART = 1 << 16 /* elements that a thread takes at a time */ };

/* A uniform value in [-limit, limit) has the variance limit^2 / 3. The shift by 11 leaves 53 bits, as many as a double
 * holds, so unit is in [0, 1) and never 1. */
static double draw_uniform(const struct ls_fill *fill, uint64_t element) {
    double unit = (double)(ls_random_bits(fill->seed, fill->stream, element) >> 11) * 0x1p-53;
    return (2 * unit - 1) * fill->reach;
}

/* Draws again what falls outside two deviations; each attempt has its own numbers, 2^40 elements apart. */
static double draw_normal(const struct ls_fill *fill, uint64_t element) {
    for (uint64_t attempt = 0;; attempt++) {
        double value = ls_random_normal(fill->seed, fill->stream, element + (attempt << 40));
        if (fabs(value) <= 2) return value * fill->reach;
    }
}

static double draw(const struct ls_fill *fill, uint64_t element) {
    switch (fill->kind) {
    case LS_FILL_UNIFORM:
        return draw_uniform(fill, element);
    case LS_FILL_NORMAL:
        return draw_normal(fill, element);
    case LS_FILL_WHOLE_NORMAL:
        return ls_random_normal(fill->seed, fill->stream, element) * fill->reach;
    default:
        return fill->reach;
    }
}

struct job {
    const struct ls_fill *fill;
    uint64_t first;
    float *values;
    size_t count;
    atomic_size_t taken;
};

static void *draw_parts(void *argument) {
    struct job *job = argument;
    for (size_t begin; (begin = atomic_fetch_add(&job->taken, PART)) < job->count;)
        for (size_t i = begin; i < begin + PART && i < job->count; i++)
            job->values[i] = (float)draw(job->fill, job->first + i);
    return NULL;
}

static int helpers_for(size_t count) {
    size_t parts = count / PART, processors = parts > 1 ? (size_t)ls_thread_processors() : 1;
    size_t threads = parts < processors ? parts : processors;
    return threads > MOST_THREADS ? MOST_THREADS - 1 : threads > 1 ? (int)threads - 1 : 0;
}

/* A thread that cannot be started leaves its parts to the others. */
void ls_fill(const struct ls_fill *fill, uint64_t first, float *values, size_t count) {
    struct job job = {.fill = fill, .first = first, .values = values, .count = count};
    pthread_t helpers[MOST_THREADS];
    int started = 0, wanted = fill->kind == LS_FILL_CONSTANT ? 0 : helpers_for(count);
    while (started < wanted && !ls_thread_start(&helpers[started], "ls-fill", draw_parts, &job)) started++;
    (void)draw_parts(&job);
    for (int i = 0; i < started; i++) (void)pthread_join(helpers[i], NULL);
}
