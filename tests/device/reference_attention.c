/* Attention as its formulas say, and its gradient. */
#include "device/reference_attention.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "harness.h"

/* One head of one row: (length, width) each. */
struct head {
    double *q, *k, *v, *y, *dq, *dk, *dv, *dy;
};

static double *array_of(int64_t count) {
    double *array = calloc((size_t)count, sizeof(double));
    ck_assert_ptr_nonnull(array);
    return array;
}

static int64_t pitch_of(const struct reference_attention *run) {
    return (run->asked.heads + 2 * run->asked.kv_heads) * run->width;
}

/* sign -1 turns back. */
static void turn(const struct reference_attention *run, double *head, double sign) {
    int64_t half = run->width / 2;
    for (int64_t t = 0; run->asked.rope && t < run->length; t++)
        for (int64_t i = 0; i < half; i++) {
            double *a = head + t * run->width + i, *b = a + half, one = *a, other = *b;
            double angle = sign * (double)t *
                           pow(run->asked.rope_theta > 0 ? (double)run->asked.rope_theta : 10000,
                               -2 * (double)i / (double)run->width);
            *a = one * cos(angle) - other * sin(angle);
            *b = other * cos(angle) + one * sin(angle);
        }
}

static void take(const struct reference_attention *run, const double *from, int64_t pitch, double *head) {
    for (int64_t t = 0; t < run->length; t++)
        for (int64_t c = 0; c < run->width; c++) head[t * run->width + c] = from[t * pitch + c];
}

static void give(const struct reference_attention *run, const double *head, int64_t pitch, double *to) {
    for (int64_t t = 0; t < run->length; t++)
        for (int64_t c = 0; c < run->width; c++) to[t * pitch + c] += head[t * run->width + c];
}

static bool sees(const struct ls_attention *asked, int64_t query, int64_t key) {
    return !asked->causal || (key <= query && (!asked->window || query - key < asked->window));
}

/* The probabilities of query t. */
static void probabilities(const struct reference_attention *run, const struct head *h, int64_t t, double *p) {
    double sum = 0;
    for (int64_t j = 0; j < run->length; j++) {
        double score = 0;
        for (int64_t c = 0; c < run->width; c++) score += h->q[t * run->width + c] * h->k[j * run->width + c];
        p[j] = sees(&run->asked, t, j) ? exp(score / sqrt((double)run->width)) : 0;
        sum += p[j];
    }
    for (int64_t j = 0; j < run->length; j++) p[j] /= sum;
}

static void run_query(const struct reference_attention *run, const struct head *h, int64_t t, double *p, double *dp) {
    int64_t w = run->width;
    double dot = 0;
    probabilities(run, h, t, p);
    for (int64_t j = 0; j < run->length; j++)
        for (int64_t c = 0; c < w; c++) h->y[t * w + c] += p[j] * h->v[j * w + c];
    for (int64_t j = 0; run->dy && j < run->length; j++) {
        dp[j] = 0;
        for (int64_t c = 0; c < w; c++) dp[j] += h->dy[t * w + c] * h->v[j * w + c];
        dot += dp[j] * p[j];
    }
    for (int64_t j = 0; run->dy && j < run->length; j++)
        for (int64_t c = 0; c < w; c++) {
            double slope = p[j] * (dp[j] - dot) / sqrt((double)w);
            h->dv[j * w + c] += p[j] * h->dy[t * w + c];
            h->dk[j * w + c] += slope * h->q[t * w + c];
            h->dq[t * w + c] += slope * h->k[j * w + c];
        }
}

static void run_head(const struct reference_attention *run, int64_t row, int64_t head) {
    const struct ls_attention *a = &run->asked;
    int64_t size = run->length * run->width, pitch = pitch_of(run), out = a->heads * run->width;
    int64_t q = head * run->width, k = (a->heads + head / (a->heads / a->kv_heads)) * run->width;
    int64_t v = k + a->kv_heads * run->width, x = row * run->length * pitch, y = row * run->length * out + q;
    double *arrays = array_of(8 * size), *p = array_of(2 * run->length);
    struct head h = {arrays,
                     arrays + size,
                     arrays + 2 * size,
                     arrays + 3 * size,
                     arrays + 4 * size,
                     arrays + 5 * size,
                     arrays + 6 * size,
                     arrays + 7 * size};
    take(run, run->x + x + q, pitch, h.q), take(run, run->x + x + k, pitch, h.k), take(run, run->x + x + v, pitch, h.v);
    if (run->dy) take(run, run->dy + y, out, h.dy);
    turn(run, h.q, 1), turn(run, h.k, 1);
    for (int64_t t = 0; t < run->length; t++) run_query(run, &h, t, p, p + run->length);
    give(run, h.y, out, run->y + y);
    turn(run, h.dq, -1), turn(run, h.dk, -1);
    if (run->dy) give(run, h.dq, pitch, run->dx + x + q), give(run, h.dk, pitch, run->dx + x + k);
    if (run->dy) give(run, h.dv, pitch, run->dx + x + v);
    free(arrays), free(p);
}

void reference_attention_run(const struct reference_attention *run) {
    int64_t positions = run->rows * run->length;
    memset(run->y, 0, (size_t)(positions * run->asked.heads * run->width) * sizeof(double));
    if (run->dy) memset(run->dx, 0, (size_t)(positions * pitch_of(run)) * sizeof(double));
    for (int64_t row = 0; row < run->rows; row++)
        for (int64_t head = 0; head < run->asked.heads; head++) run_head(run, row, head);
}
