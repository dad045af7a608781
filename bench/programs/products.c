/* The products of a GPT's dense layers alone, by oneDNN's sgemm: what a training step would take if it had nothing
 * else. Three of each layer: outputs, weights' gradients, inputs' gradients. Attention's are left out. One JSON line.
 *
 * usage: products VOCABULARY LAYERS WIDTH ROWS ROUNDS, such as products 50257 12 768 256 5 (rows: batch by context) */
#include <oneapi/dnnl/dnnl.h>
#include <stdbool.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <time.h>

/* Of one layer: x (rows, in), w (in, out), y (rows, out). */
struct layer {
    int64_t rows, in, out;
    float *x, *w, *y;
};

/* Seconds by the clock, and of this process. */
struct times {
    double clock, processor;
};

static double now(clockid_t clock) {
    struct timespec time;
    (void)clock_gettime(clock, &time);
    return (double)time.tv_sec + (double)time.tv_nsec * 1e-9;
}

static float *make_numbers(int64_t count) {
    float *made = malloc((size_t)count * sizeof(*made));
    for (int64_t i = 0; made && i < count; i++) made[i] = (float)((uint32_t)i * 2654435761U >> 8) * 0x1p-24F - 0.5F;
    return made;
}

static int run(const struct layer *l) {
    return dnnl_sgemm('N', 'N', l->rows, l->out, l->in, 1, l->x, l->in, l->w, l->out, 0, l->y, l->out) ||
           dnnl_sgemm('T', 'N', l->in, l->out, l->rows, 1, l->x, l->in, l->y, l->out, 0, l->w, l->out) ||
           dnnl_sgemm('N', 'T', l->rows, l->in, l->out, 1, l->y, l->out, l->w, l->out, 0, l->x, l->in);
}

/* Adds the mean of so many rounds behind one that is not timed, as often as the layer is there. False for an error.
 * Numbers grow in a round, so each begins with new ones. */
static bool time_layer(const int64_t size[3], int rounds, int64_t times, struct times *sum) {
    for (int i = 0; i <= rounds; i++) {
        int64_t rows = size[0], in = size[1], out = size[2];
        struct layer l = {rows, in, out, make_numbers(rows * in), make_numbers(in * out), make_numbers(rows * out)};
        struct times begun = {now(CLOCK_MONOTONIC), now(CLOCK_PROCESS_CPUTIME_ID)};
        bool failed = !l.x || !l.w || !l.y || run(&l);
        double share = i ? (double)times / rounds : 0;
        sum->clock += (now(CLOCK_MONOTONIC) - begun.clock) * share;
        sum->processor += (now(CLOCK_PROCESS_CPUTIME_ID) - begun.processor) * share;
        free(l.x);
        free(l.w);
        free(l.y);
        if (failed) return false;
    }
    return true;
}

int main(int count, char **arguments) {
    if (count != 6) return 2;
    int64_t vocabulary = atoll(arguments[1]), layers = atoll(arguments[2]), width = atoll(arguments[3]);
    int64_t rows = atoll(arguments[4]);
    int rounds = atoi(arguments[5]);
    const int64_t sizes[][3] = {
        {rows, width, 3 * width}, {rows, width, width}, {rows, width, 4 * width}, {rows, 4 * width, width}};
    const int64_t head[3] = {rows, width, vocabulary};
    struct times seconds = {0};
    if (rounds < 1 || !time_layer(head, rounds, 1, &seconds)) return 1;
    for (int i = 0; i < 4; i++)
        if (!time_layer(sizes[i], rounds, layers, &seconds)) return 1;
    (void)printf("{\"tokens_per_second\": %.6g, \"tokens_per_processor_second\": %.6g}\n", (double)rows / seconds.clock,
                 (double)rows / seconds.processor);
    return 0;
}
