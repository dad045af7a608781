/* All-reduces that are ready together and alike but for count are one list (all_reduce_list.c), which changes no bits
 * under AUTO. A rank that has joined gives what changes no result, and so the others' tree is that of their values
 * alone. */
#include "runtime/round.h"

#include "base/new.h"
#include "collective/collectives.h"
#include "collective/schedule/reduce.h"

enum { MOST = 256 };

/* All-reduces that go together. */
struct batch {
    struct ls_frame frame; /* of the first */
    size_t count;
    size_t counts[MOST];
    const void *inputs[MOST];
    void *outputs[MOST];
    struct ls_call_part *parts[MOST]; /* NULL where this rank has joined */
};

/* ---- all-reduces ---- */

static bool are_alike(const struct ls_frame *a, const struct ls_frame *b) {
    return b->kind == LS_KIND_ALL_REDUCE && a->op == b->op && a->dtype == b->dtype &&
           a->communication == b->communication && a->compression == b->compression && !(a->prescale < b->prescale) &&
           !(b->prescale < a->prescale) && !(a->postscale < b->postscale) && !(b->postscale < a->postscale);
}

/* Memory for all arrays of the batch that this rank does not give. */
static ls_status give_neutral(struct ls_async *async, struct batch *batch) {
    size_t element = ls_dtype_size((ls_dtype)batch->frame.dtype), most = 0;
    for (size_t i = 0; i < batch->count; i++)
        if (!batch->parts[i]) most += batch->counts[i];
    if (most * element > async->neutral_size) {
        ls_free(ls_steal(async->neutral));
        async->neutral_size = 0;
        async->neutral = ls_alloc_aligned(most * element);
        if (!async->neutral) return ls_fail_memory("what a rank gives that has joined", most * element);
        async->neutral_size = most * element;
    }
    unsigned char *at = async->neutral;
    if (most) ls_reduce_fill_neutral((ls_reduce_op)batch->frame.op, (ls_dtype)batch->frame.dtype, at, most);
    for (size_t i = 0; i < batch->count; i++) {
        if (batch->parts[i]) continue;
        batch->inputs[i] = batch->outputs[i] = at;
        at += batch->counts[i] * element;
    }
    return LS_OK;
}

static void fill_batch(struct ls_async *async, struct batch *batch) {
    struct ls_negotiated *call;
    while (batch->count < MOST && (call = ls_negotiation_ready(&async->negotiation))) {
        if (batch->count && (!are_alike(&batch->frame, &call->frame) || batch->frame.communication != LS_AUTO)) return;
        struct ls_call_part *part = ls_async_find(async, &call->frame);
        size_t at = batch->count++;
        if (!at) batch->frame = call->frame;
        batch->counts[at] = call->frame.count;
        batch->parts[at] = part;
        batch->inputs[at] = part ? part->input : NULL;
        batch->outputs[at] = part ? part->output : NULL;
        ls_negotiation_remove(&async->negotiation, call);
    }
}

static ls_status reduce_batch(struct ls_async *async) {
    LS_CLEANUP(ls_free_pointer) LS_NEW(struct batch, batch, "calls that go together");
    fill_batch(async, batch);
    ls_status status = give_neutral(async, batch);
    if (status) return status;
    const struct ls_negotiation *negotiation = &async->negotiation;
    const struct ls_frame *frame = &batch->frame;
    const struct ls_all_reduce_list list = {
        .call = {.name = frame->name,
                 .communication = (ls_communication)frame->communication,
                 .op = (ls_reduce_op)frame->op,
                 .dtype = (ls_dtype)frame->dtype,
                 .compression = (ls_compression)frame->compression,
                 .prescale = frame->prescale,
                 .postscale = frame->postscale,
                 .divisor = negotiation->joined_count ? negotiation->size - negotiation->joined_count : 0,
                 .is_neutral = negotiation->joined[async->ranks->rank]},
        .count = batch->count,
        .counts = batch->counts,
        .inputs = batch->inputs,
        .outputs = batch->outputs};
    int64_t begun = ls_track_begin(async->track);
    status = ls_group_all_reduce_list(async->ranks->group, &list);
    for (size_t i = 0; i < batch->count && !status; i++)
        if (batch->parts[i]) ls_async_end_part(async, batch->parts[i], begun);
    return status;
}

/* ---- the others ---- */

static ls_status run_one(struct ls_async *async, struct ls_negotiated *call) {
    const struct ls_frame frame = call->frame;
    const struct ls_negotiation *negotiation = &async->negotiation;
    struct ls_call_part *part = ls_async_find(async, &frame);
    ls_negotiation_remove(&async->negotiation, call);
    if (negotiation->joined_count && frame.kind != LS_KIND_BARRIER)
        return ls_fail(
            LS_FAILED_PRECONDITION,
            "%s '%s': %d of %d ranks have joined (ls_join), rank %d among them: until all have, there are only "
            "all-reduces and barriers",
            ls_frame_collective_name(frame.kind), frame.name, negotiation->joined_count, negotiation->size,
            negotiation->last_joined);
    if (!part) return ls_group_barrier(async->ranks->group, frame.name);
    int64_t begun = ls_track_begin(async->track);
    ls_status status = ls_operation_run(part->operation, async->ranks->group, frame.name);
    if (!status) ls_async_end_part(async, part, begun);
    return status;
}

/* All have joined: the calls of ls_join return. */
static void end_join(struct ls_async *async, bool *news) {
    struct ls_negotiation *negotiation = &async->negotiation;
    if (negotiation->joined_count < negotiation->size) return;
    ls_monitor_lock(&async->monitor);
    struct ls_operation *operation = TAILQ_FIRST(&async->begun); /* that of ls_join: it is alone */
    operation->progress.last = negotiation->last_joined;
    async->joined = false;
    ls_monitor_unlock(&async->monitor);
    ls_negotiation_part(negotiation);
    ls_async_end(async, operation, LS_OK);
    *news = true;
}

ls_status ls_agreed_calls(struct ls_async *async, bool *news) {
    struct ls_negotiated *call;
    ls_status status = LS_OK;
    while (!status && (call = ls_negotiation_ready(&async->negotiation))) {
        *news = true;
        status = call->frame.kind == LS_KIND_ALL_REDUCE ? reduce_batch(async) : run_one(async, call);
    }
    if (!status) end_join(async, news);
    return status;
}
