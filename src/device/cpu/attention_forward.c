/* Attention forward: a task is a head of a row. Of each block of queries the scores with all keys that they see are one
 * product, and their output is another. Between them is the softmax, in float lanes with an exponential of our own. A
 * decode first puts its keys and values beside those that are kept; its queries then see these. */
#include <math.h>
#include <string.h>

#include "base/clones.h"
#include "device/cpu/attention.h"
#include "device/cpu/lanes.h"

#define LANES     LS_ATTENTION_LANES
#define LOG_TERMS 12 /* of the series below */
#define LOG_2     0.6931471805599453
#define ROOT_HALF 0.7071067811865476

/* Queries of the largest block, and keys in scratch memory. */
static int64_t block_of(const struct ls_cpu_attention *a) {
    return a->count < LS_ATTENTION_BLOCK ? a->count : LS_ATTENTION_BLOCK;
}
static int64_t loaded_keys(const struct ls_cpu_attention *a) {
    return a->kept ? 0 : a->length;
}

size_t ls_cpu_attention_forward_floats(const struct ls_cpu_attention *a) {
    int64_t padded = ls_cpu_attention_padded(a->width), block = block_of(a);
    return (size_t)((loaded_keys(a) + block) * padded + block * ls_cpu_attention_padded(a->length));
}

/* ln(x) = 2 atanh((x - 1) / (x + 1)), for the mantissa from sqrt(1/2) to sqrt(2). In double: no libc decides a bit. */
static double attention_log(double x) {
    int exponent;
    double mantissa = frexp(x, &exponent), sum = 0;
    if (mantissa < ROOT_HALF) mantissa *= 2, exponent--;
    double root = (mantissa - 1) / (mantissa + 1), square = root * root;
    for (int n = LOG_TERMS; n > 0; n--) sum = (sum + 1.0 / (2 * n - 1)) * (n > 1 ? square : 1);
    return 2 * root * sum + exponent * LOG_2;
}

/* Of whole groups of lanes. */
LS_CLONES static float attention_largest(const float *s, int64_t count) {
    float lanes[LANES];
    for (int l = 0; l < LANES; l++) lanes[l] = s[l];
    for (int64_t i = LANES; i < count; i += LANES)
        for (int l = 0; l < LANES; l++) lanes[l] = s[i + l] > lanes[l] ? s[i + l] : lanes[l];
    for (int n = LANES / 2; n; n /= 2)
        for (int l = 0; l < n; l++) lanes[l] = lanes[l + n] > lanes[l] ? lanes[l + n] : lanes[l];
    return lanes[0];
}

/* s = exp(s - largest); returns the sum. */
LS_CLONES static float attention_exponentials(float *s, float largest, int64_t count) {
    float lanes[LANES] = {0};
    for (int64_t i = 0; i < count; i += LANES)
        for (int l = 0; l < LANES; l++) {
            s[i + l] = ls_lanes_exp(s[i + l] - largest);
            lanes[l] += s[i + l];
        }
    return ls_cpu_attention_join(lanes);
}

LS_CLONES static void attention_multiply(float *y, float factor, int64_t count) {
    for (int64_t i = 0; i < count; i++) y[i] *= factor;
}

/* Scores of one query become exponentials: 0 for keys that it does not see. Returns their sum. */
static float exponentials_of(float *scores, struct ls_cpu_attention_range seen, int64_t columns, float *largest) {
    int64_t begin = seen.begin / LANES * LANES, end = ls_cpu_attention_padded(seen.end);
    memset(scores, 0, (size_t)begin * sizeof(*scores));
    memset(scores + end, 0, (size_t)(columns - end) * sizeof(*scores));
    for (int64_t i = begin; i < seen.begin; i++) scores[i] = -INFINITY;
    for (int64_t i = seen.end; i < end; i++) scores[i] = -INFINITY;
    *largest = attention_largest(scores + begin, end - begin);
    return attention_exponentials(scores + begin, *largest, end - begin);
}

/* One head of one row. */
struct head {
    const float *q, *v, *keys; /* keys (length, width) */
    int64_t v_pitch;
    float *y, *saved; /* saved may be NULL */
    float *queries, *scores;
};

static ls_status run_block(const struct ls_cpu_attention *a, const struct head *head, int64_t first, int64_t count) {
    float sums[LS_ATTENTION_BLOCK], largest = 0, *y = head->y + (first - a->first) * a->out_pitch;
    int64_t begin = ls_cpu_attention_keys(a, first).begin, end = ls_cpu_attention_keys(a, first + count - 1).end;
    int64_t columns = end - begin, pitch = ls_cpu_attention_padded(columns);
    ls_cpu_attention_load(a, head->q, (struct ls_cpu_attention_range){first, first + count}, a->scale, head->queries);
    struct ls_gemm scores = {.transpose_b = true, .rows = count, .columns = columns, .depth = a->width};
    scores.a = head->queries;
    scores.b = head->keys + begin * a->width;
    scores.c = head->scores, scores.c_pitch = pitch;
    ls_status status = ls_gemm_run(&scores);
    for (int64_t i = 0; !status && i < count; i++) {
        struct ls_cpu_attention_range seen = ls_cpu_attention_keys(a, first + i);
        seen.begin -= begin, seen.end -= begin;
        sums[i] = exponentials_of(head->scores + i * pitch, seen, pitch, &largest);
        if (head->saved) head->saved[first + i] = (float)((double)largest + attention_log((double)sums[i]));
    }
    struct ls_gemm outputs = {.rows = count, .columns = a->width, .depth = columns};
    outputs.a = head->scores, outputs.a_pitch = pitch;
    outputs.b = head->v + begin * head->v_pitch, outputs.b_pitch = head->v_pitch;
    outputs.c = y, outputs.c_pitch = a->out_pitch;
    if (!status) status = ls_gemm_run(&outputs);
    for (int64_t i = 0; !status && i < count; i++) attention_multiply(y + i * a->out_pitch, 1 / sums[i], a->width);
    return status;
}

static ls_status attend_blocks(const struct ls_cpu_attention *a, const struct head *head) {
    ls_status status = LS_OK;
    for (int64_t done = 0; !status && done < a->count; done += LS_ATTENTION_BLOCK) {
        int64_t left = a->count - done;
        status = run_block(a, head, a->first + done, left < LS_ATTENTION_BLOCK ? left : LS_ATTENTION_BLOCK);
    }
    return status;
}

static const float *row_of(const struct ls_cpu_attention *a, int64_t row) {
    return (const float *)a->op->tensors[LS_ARG_X].data + row * a->count * a->pitch;
}

/* All but its keys and values. */
static struct head head_of(const struct ls_cpu_attention *a, int64_t task, float *scratch) {
    int64_t row = task / a->heads, number = task % a->heads, padded = ls_cpu_attention_padded(a->width);
    float *y = a->op->tensors[LS_ARG_Y].data, *queries = scratch + loaded_keys(a) * padded;
    return (struct head){.q = row_of(a, row) + number * a->width,
                         .y = y + row * a->count * a->out_pitch + number * a->width,
                         .queries = queries,
                         .scores = queries + block_of(a) * padded};
}

static ls_status run_head(const struct ls_cpu_attention *a, int64_t task, float *scratch) {
    struct head head = head_of(a, task, scratch);
    float *saved = a->op->tensors[LS_ARG_SAVED].data;
    const float *keys = row_of(a, task / a->heads) + (a->heads + task % a->heads / a->group) * a->width;
    head.v = keys + a->kv_heads * a->width, head.v_pitch = a->pitch;
    head.keys = scratch;
    if (saved) head.saved = saved + task * a->length;
    ls_cpu_attention_load(a, keys, (struct ls_cpu_attention_range){0, a->length}, 1, scratch);
    return attend_blocks(a, &head);
}

ls_status ls_cpu_attention_forward(const struct ls_op *op) {
    return ls_cpu_attention_run(op, false, run_head);
}

/* ---- decode ---- */

/* The keys of a head that are kept, or its values. */
static float *kept_of(const struct ls_cpu_attention *a, int64_t row, int64_t number, bool values) {
    return a->kept + ((2 * row + values) * a->kv_heads + number) * a->length * a->width;
}

static ls_status keep_head(const struct ls_cpu_attention *a, int64_t task, float *scratch) {
    int64_t row = task / a->kv_heads, number = task % a->kv_heads, done = a->first * a->width;
    const float *keys = row_of(a, row) + (a->heads + number) * a->width, *values = keys + a->kv_heads * a->width;
    float *kept = kept_of(a, row, number, true) + done;
    (void)scratch;
    ls_cpu_attention_load(a, keys, (struct ls_cpu_attention_range){a->first, a->first + a->count}, 1,
                          kept_of(a, row, number, false) + done);
    for (int64_t i = 0; i < a->count; i++)
        memcpy(kept + i * a->width, values + i * a->pitch, (size_t)a->width * sizeof(*kept));
    return LS_OK;
}

static ls_status decode_head(const struct ls_cpu_attention *a, int64_t task, float *scratch) {
    struct head head = head_of(a, task, scratch);
    int64_t row = task / a->heads, number = task % a->heads / a->group;
    head.keys = kept_of(a, row, number, false);
    head.v = kept_of(a, row, number, true), head.v_pitch = a->width;
    return attend_blocks(a, &head);
}

ls_status ls_cpu_attention_decode(const struct ls_op *op) {
    ls_status status = ls_cpu_attention_run(op, true, keep_head);
    return status ? status : ls_cpu_attention_run(op, false, decode_head);
}
