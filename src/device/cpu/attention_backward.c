/* Attention backward (Dao et al. 2022, FlashAttention): probabilities are made again of the scores and of the
 * logarithms that forward has saved. A task is a head of keys of a row, with all heads that share it, in rising order.
 * Of each block of keys, in rising order, dv, dk and dq are sums of products. */
#include <math.h>
#include <string.h>

#include "base/clones.h"
#include "device/cpu/attention.h"
#include "device/cpu/lanes.h"

#define LANES LS_ATTENTION_LANES
#define BLOCK LS_ATTENTION_BLOCK

size_t ls_cpu_attention_backward_floats(int64_t length, int64_t width) {
    return (size_t)(length * (4 * ls_cpu_attention_padded(width) + 2 * BLOCK) + ls_cpu_attention_padded(length));
}

LS_CLONES static float attention_dot(const float *a, const float *b, int64_t count) {
    float lanes[LANES] = {0};
    int64_t i = 0;
    for (; i + LANES <= count; i += LANES)
        for (int l = 0; l < LANES; l++) lanes[l] += a[i + l] * b[i + l];
    for (int l = 0; i < count; i++, l++) lanes[l] += a[i] * b[i];
    return ls_cpu_attention_join(lanes);
}

/* Scores become probabilities p, and their gradients dp those of the scores: p (dp - dot). */
LS_CLONES static void attention_slopes(float *restrict p, float *restrict dp, float saved, float dot, int64_t count) {
    for (int64_t i = 0; i < count; i += LANES)
        for (int l = 0; l < LANES; l++) {
            p[i + l] = ls_lanes_exp(p[i + l] - saved);
            dp[i + l] = p[i + l] * (dp[i + l] - dot);
        }
}

static void zero(float *values, int64_t begin, int64_t end) {
    if (begin < end) memset(values + begin, 0, (size_t)(end - begin) * sizeof(*values));
}

/* One head of keys and values of one row, and one head of queries. */
struct heads {
    const float *q, *v, *y, *dy, *saved;
    float *dq, *dk, *dv;                                                              /* in dx */
    float *queries, *keys, *query_gradients, *key_gradients, *scores, *slopes, *dots; /* scratch */
    bool adds; /* another head of queries was before */
};

/* Rows of scores and slopes are BLOCK wide. The keys of the block are those from first on. */
static void slopes_of(const struct ls_cpu_attention *a, const struct heads *h, struct ls_cpu_attention_range queries,
                      struct ls_cpu_attention_range keys) {
    for (int64_t q = queries.begin; q < queries.end; q++) {
        float *p = h->scores + (q - queries.begin) * BLOCK, *dp = h->slopes + (q - queries.begin) * BLOCK;
        struct ls_cpu_attention_range seen = ls_cpu_attention_keys(a, q);
        int64_t begin = seen.begin > keys.begin ? seen.begin - keys.begin : 0;
        int64_t end = (seen.end < keys.end ? seen.end : keys.end) - keys.begin;
        int64_t first = begin / LANES * LANES, last = ls_cpu_attention_padded(end);
        attention_slopes(p + first, dp + first, h->saved[q], h->dots[q], last - first);
        zero(p, 0, begin), zero(p, end, keys.end - keys.begin);
        zero(dp, 0, begin), zero(dp, end, keys.end - keys.begin);
    }
}

/* The scores of the queries with a block of keys, and the gradients of the probabilities. */
static ls_status products_before(const struct ls_cpu_attention *a, const struct heads *h,
                                 struct ls_cpu_attention_range queries, struct ls_cpu_attention_range keys) {
    int64_t rows = queries.end - queries.begin, columns = keys.end - keys.begin;
    struct ls_gemm scores = {.transpose_b = true, .rows = rows, .columns = columns, .depth = a->width};
    struct ls_gemm slopes = scores;
    scores.a = h->queries + queries.begin * a->width;
    scores.b = h->keys + keys.begin * a->width;
    scores.c = h->scores, scores.c_pitch = slopes.c_pitch = BLOCK;
    slopes.a = h->dy + queries.begin * a->out_pitch, slopes.a_pitch = a->out_pitch;
    slopes.b = h->v + keys.begin * a->pitch, slopes.b_pitch = a->pitch;
    slopes.c = h->slopes;
    ls_status status = ls_gemm_run(&scores);
    return status ? status : ls_gemm_run(&slopes);
}

static ls_status products_after(const struct ls_cpu_attention *a, const struct heads *h,
                                struct ls_cpu_attention_range queries, struct ls_cpu_attention_range keys) {
    int64_t rows = queries.end - queries.begin, columns = keys.end - keys.begin;
    struct ls_gemm values = {.transpose_a = true, .rows = columns, .columns = a->width, .depth = rows, .adds = h->adds};
    struct ls_gemm to_keys = values;
    values.a = h->scores, values.a_pitch = to_keys.a_pitch = BLOCK;
    values.b = h->dy + queries.begin * a->out_pitch, values.b_pitch = a->out_pitch;
    values.c = h->dv + keys.begin * a->pitch, values.c_pitch = a->pitch;
    to_keys.a = h->slopes;
    to_keys.b = h->queries + queries.begin * a->width;
    to_keys.c = h->key_gradients + keys.begin * a->width;
    struct ls_gemm to_queries = {.rows = rows, .columns = a->width, .depth = columns, .adds = true};
    to_queries.a = h->slopes, to_queries.a_pitch = BLOCK;
    to_queries.b = h->keys + keys.begin * a->width;
    to_queries.c = h->query_gradients + queries.begin * a->width;
    ls_status status = ls_gemm_run(&values);
    if (!status) status = ls_gemm_run(&to_keys);
    return status ? status : ls_gemm_run(&to_queries);
}

static ls_status run_query_head(const struct ls_cpu_attention *a, const struct heads *h) {
    const struct ls_cpu_attention_range all = {0, a->length};
    ls_status status = LS_OK;
    ls_cpu_attention_load(a, h->q, all, a->scale, h->queries);
    zero(h->query_gradients, 0, a->length * a->width);
    for (int64_t t = 0; t < a->length; t++)
        h->dots[t] = attention_dot(h->dy + t * a->out_pitch, h->y + t * a->out_pitch, a->width);
    for (int64_t first = 0; !status && first < a->length; first += BLOCK) {
        struct ls_cpu_attention_range keys = {first, first + BLOCK < a->length ? first + BLOCK : a->length};
        struct ls_cpu_attention_range queries = {ls_cpu_attention_queries(a, first).begin,
                                                 ls_cpu_attention_queries(a, keys.end - 1).end};
        status = products_before(a, h, queries, keys);
        if (!status) slopes_of(a, h, queries, keys);
        if (!status) status = products_after(a, h, queries, keys);
    }
    if (!status) ls_cpu_attention_store(a, h->query_gradients, a->scale, h->dq);
    return status;
}

static struct heads place_scratch(const struct ls_cpu_attention *a, float *scratch) {
    int64_t size = a->length * ls_cpu_attention_padded(a->width);
    struct heads h = {.queries = scratch,
                      .keys = scratch + size,
                      .query_gradients = scratch + 2 * size,
                      .key_gradients = scratch + 3 * size};
    h.scores = scratch + 4 * size;
    h.slopes = h.scores + a->length * BLOCK;
    h.dots = h.slopes + a->length * BLOCK;
    return h;
}

static ls_status run_key_head(const struct ls_cpu_attention *a, int64_t task, float *scratch) {
    const struct ls_tensor *t = a->op->tensors;
    int64_t row = task / a->kv_heads, number = task % a->kv_heads, place = row * a->length;
    int64_t k = (a->heads + number) * a->width, v = k + a->kv_heads * a->width;
    const float *x = (const float *)t[LS_ARG_X].data + place * a->pitch;
    float *dx = (float *)t[LS_ARG_DX].data + place * a->pitch;
    struct heads h = place_scratch(a, scratch);
    ls_status status = LS_OK;
    ls_cpu_attention_load(a, x + k, (struct ls_cpu_attention_range){0, a->length}, 1, h.keys);
    h.v = x + v, h.dv = dx + v;
    for (int64_t head = number * a->group; !status && head < (number + 1) * a->group; head++) {
        int64_t column = head * a->width, out = place * a->out_pitch + column;
        h.q = x + column, h.dq = dx + column;
        h.y = (const float *)t[LS_ARG_Y].data + out, h.dy = (const float *)t[LS_ARG_DY].data + out;
        h.saved = (const float *)t[LS_ARG_SAVED].data + (row * a->heads + head) * a->length;
        status = run_query_head(a, &h);
        h.adds = true;
    }
    if (!status) ls_cpu_attention_store(a, h.key_gradients, 1, dx + k);
    return status;
}

ls_status ls_cpu_attention_backward(const struct ls_op *op) {
    return ls_cpu_attention_run(op, true, run_key_head);
}
