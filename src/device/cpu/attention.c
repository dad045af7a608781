/* Building an attention, dividing its heads among threads, and moving a head between x and scratch memory. Each thread
 * has a slot of scratch memory in the workspace. Mirrors the core of keras.layers.GroupQueryAttention, and
 * torch.nn.functional.scaled_dot_product_attention(is_causal=True, enable_gqa=True). */
#include "device/cpu/attention.h"

#include <math.h>
#include <stdatomic.h>

#include "base/clones.h"
#include "base/memory.h"
#include "base/new.h"
#include "base/status.h"
#include "device/device.h"
#include "device/op_layers.h"
#include "device/rope.h"

/* Kept from build to discard. */
struct attention_handle {
    int64_t slots;
    float turns[]; /* of rope */
};

static struct ls_cpu_attention describe(const struct ls_op *op) {
    const struct ls_attention *asked = &op->attention;
    const ls_shape *x = &op->tensors[LS_ARG_X].shape;
    const struct attention_handle *handle = op->handle;
    struct ls_cpu_attention a = {.op = op,
                                 .rows = x->dims[0],
                                 .length = x->dims[1],
                                 .heads = asked->heads,
                                 .kv_heads = asked->kv_heads,
                                 .group = asked->heads / asked->kv_heads,
                                 .width = ls_op_sequence_width(asked, x),
                                 .pitch = x->dims[2]};
    a.out_pitch = a.heads * a.width;
    a.count = a.length;
    if (op->kind == LS_OP_ATTENTION_DECODE) {
        a.kept = op->tensors[LS_ARG_KEPT].data;
        a.length = op->tensors[LS_ARG_KEPT].shape.dims[3];
        a.first = *(const int32_t *)op->tensors[LS_ARG_AT].data;
    }
    a.scale = (float)(1 / sqrt((double)a.width));
    a.turns = asked->rope && handle ? handle->turns : NULL;
    return a;
}

static int64_t count_tasks(const struct ls_cpu_attention *a, bool of_keys) {
    return a->rows * (of_keys ? a->kv_heads : a->heads);
}

static size_t scratch_floats(const struct ls_cpu_attention *a) {
    return a->op->kind == LS_OP_ATTENTION_BACKWARD ? ls_cpu_attention_backward_floats(a->length, a->width)
                                                   : ls_cpu_attention_forward_floats(a);
}

ls_status ls_cpu_attention_build(struct ls_device *device, struct ls_op *op) {
    bool backward = op->kind == LS_OP_ATTENTION_BACKWARD;
    struct ls_cpu_attention a = describe(op);
    size_t turns = op->attention.rope ? (size_t)(a.length * a.width) : 0;
    size_t size = sizeof(struct attention_handle) + turns * sizeof(float);
    struct attention_handle *handle = ls_alloc(size);
    if (!handle) return ls_fail_memory("an attention's table of angles", size);
    int64_t tasks = count_tasks(&a, backward);
    handle->slots = device->threads < tasks ? device->threads : tasks;
    if (turns) ls_rope_fill(handle->turns, a.length, a.width, op->attention.rope_theta);
    op->handle = handle;
    op->workspace_size = (size_t)handle->slots * scratch_floats(&a) * sizeof(float);
    return LS_OK;
}

void ls_cpu_attention_discard(struct ls_op *op) {
    ls_free(op->handle);
    op->handle = NULL;
}

/* ---- tasks ---- */

struct attention_job {
    struct ls_cpu_attention *a;
    ls_cpu_attention_task *task;
    int64_t tasks, slots;
    size_t floats;
};

static void run_slots(void *context, int64_t begin, int64_t end) {
    const struct attention_job *job = context;
    int64_t last = job->tasks * end / job->slots;
    float *scratch = (float *)job->a->op->workspace + (size_t)begin * job->floats;
    for (int64_t task = job->tasks * begin / job->slots; task < last; task++) {
        ls_status status = job->task(job->a, task, scratch);
        if (status) atomic_store(&job->a->failed, (int)status);
    }
}

/* Another thread's error is told in this one's words. */
ls_status ls_cpu_attention_run(const struct ls_op *op, bool of_keys, ls_cpu_attention_task *task) {
    const struct attention_handle *handle = op->handle;
    struct ls_cpu_attention a = describe(op);
    struct attention_job job = {&a, task, count_tasks(&a, of_keys), handle->slots, scratch_floats(&a)};
    ls_team_run_alone(job.slots, run_slots, &job);
    ls_status status = (ls_status)atomic_load(&a.failed);
    if (!status) return LS_OK;
    return ls_fail(status, "%s: a matrix product of a head (%lld positions of %lld) failed", ls_op_name(op->kind),
                   (long long)a.length, (long long)a.width);
}

/* ---- masks ---- */

struct ls_cpu_attention_range ls_cpu_attention_keys(const struct ls_cpu_attention *a, int64_t query) {
    int64_t window = a->op->attention.window;
    bool causal = a->op->attention.causal;
    return (struct ls_cpu_attention_range){window && window <= query ? query + 1 - window : 0,
                                           causal ? query + 1 : a->length};
}

struct ls_cpu_attention_range ls_cpu_attention_queries(const struct ls_cpu_attention *a, int64_t key) {
    int64_t window = a->op->attention.window;
    return (struct ls_cpu_attention_range){a->op->attention.causal ? key : 0,
                                           window && window < a->length - key ? key + window : a->length};
}

/* ---- a head ---- */

/* sign: 1 turns, -1 turns back. */
LS_CLONES static void attention_turn(float *restrict to, const float *restrict from, const float *restrict turns,
                                     float sign, int64_t half) {
    for (int64_t i = 0; i < half; i++) {
        float a = from[i], b = from[i + half], cosine = turns[i], sine = sign * turns[i + half];
        to[i] = a * cosine - b * sine;
        to[i + half] = b * cosine + a * sine;
    }
}

LS_CLONES static void attention_scale(float *to, const float *from, float factor, int64_t count) {
    for (int64_t i = 0; i < count; i++) to[i] = from[i] * factor;
}

void ls_cpu_attention_load(const struct ls_cpu_attention *a, const float *from, struct ls_cpu_attention_range range,
                           float factor, float *to) {
    for (int64_t t = range.begin; t < range.end; t++, to += a->width) {
        const float *position = from + (t - a->first) * a->pitch;
        if (a->turns) attention_turn(to, position, a->turns + t * a->width, 1, a->width / 2);
        if (!a->turns || factor != 1) attention_scale(to, a->turns ? to : position, factor, a->width);
    }
}

void ls_cpu_attention_store(const struct ls_cpu_attention *a, const float *from, float factor, float *to) {
    for (int64_t t = 0; t < a->length; t++, from += a->width) {
        float *position = to + t * a->pitch;
        if (a->turns) attention_turn(position, from, a->turns + t * a->width, -1, a->width / 2);
        if (!a->turns || factor != 1) attention_scale(position, a->turns ? position : from, factor, a->width);
    }
}
