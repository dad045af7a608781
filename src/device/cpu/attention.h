/* Attention on the CPU: the parts that its two passes share. Heads of a row are independent tasks. The calls of one
 * task follow from the length and the width of a head alone, and each has one thread. So the bits of a row depend
 * neither on threads nor on the other rows. */
#pragma once
#include "device/cpu/cpu.h"

#define LS_ATTENTION_BLOCK 64 /* of queries forward, of keys backward: rows and columns of products */
#define LS_ATTENTION_LANES 16 /* sums side by side, whatever the width of the processor's vectors */

/* One run. */
struct ls_cpu_attention {
    const struct ls_op *op;
    int64_t rows, length, heads, kv_heads, group, width; /* group: heads that share keys and values; width: of a head */
    int64_t first, count;     /* the positions of x: all of length, or those that a decode has */
    int64_t pitch, out_pitch; /* floats from a position to the next, in x and in y */
    float scale;
    const float *turns; /* rope.h; NULL: none */
    float *kept;        /* of a decode: (rows, 2, kv_heads, length, width); NULL: none */
    _Atomic int failed; /* a status */
};
/* A task of a run, with scratch memory of its own. */
typedef ls_status ls_cpu_attention_task(const struct ls_cpu_attention *a, int64_t task, float *scratch);

/* Runs the task for each head of each row, or for each head of keys. */
ls_status ls_cpu_attention_run(const struct ls_op *op, bool of_keys, ls_cpu_attention_task *task);
/* Floats of a task's scratch memory: forward.c and backward.c. */
size_t ls_cpu_attention_forward_floats(const struct ls_cpu_attention *a);
size_t ls_cpu_attention_backward_floats(int64_t length, int64_t width);
static inline int64_t ls_cpu_attention_padded(int64_t count) {
    return (count + LS_ATTENTION_LANES - 1) / LS_ATTENTION_LANES * LS_ATTENTION_LANES;
}

/* The keys [begin, end) that a query sees, and the queries that see a key. */
struct ls_cpu_attention_range {
    int64_t begin, end;
};
struct ls_cpu_attention_range ls_cpu_attention_keys(const struct ls_cpu_attention *a, int64_t query);
struct ls_cpu_attention_range ls_cpu_attention_queries(const struct ls_cpu_attention *a, int64_t key);

/* to (end - begin, width) = positions [begin, end) of a head at from in x, turned by rope and multiplied. x begins with
 * the position first. */
void ls_cpu_attention_load(const struct ls_cpu_attention *a, const float *from, struct ls_cpu_attention_range range,
                           float factor, float *to);
/* The other way, of gradients: a head at to in dx = from (length, width), turned back and multiplied. */
void ls_cpu_attention_store(const struct ls_cpu_attention *a, const float *from, float factor, float *to);

/* The sum of LS_ATTENTION_LANES numbers, in a fixed order. It changes them. */
static inline float ls_cpu_attention_join(float *lanes) {
    for (int n = LS_ATTENTION_LANES / 2; n; n /= 2)
        for (int i = 0; i < n; i++) lanes[i] += lanes[i + n];
    return lanes[0];
}
