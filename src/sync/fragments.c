/* An exchange: the fragment's variables, or their changes, are copied, and added up with those of the other workers. */
#include "sync/meeting.h"

#include <string.h>

#include "base/kept_error.h"
#include "base/new.h"
#include "base/point.h"
#include "base/thread.h"
#include "train/model_state.h"

enum { SAVE, STOP, REQUESTS };

struct ls_fragments {
    const ls_model *model;
    struct ls_bucket *ranges; /* [count] of the trained variables */
    size_t count, largest;    /* floats */
    float *global;            /* as all workers have them; NULL without an outer learning rate */
    float *now;               /* [1 + moments that meet][largest], and as much for what is mixed */
    double requests[REQUESTS];
    /* the exchange under way */
    bool open, threaded;
    size_t fragment;
    int64_t begun; /* after this step */
    pthread_t thread;
    struct ls_kept_error result;
};

bool ls_fragments_are_wanted(const ls_strategy *strategy) {
    const ls_local_sgd_options *local = &strategy->local;
    return local->fragments > 1 || local->fragment_delay > 0 || local->fragment_alpha > 0;
}

const float *ls_fragments_before(const struct ls_fragments *fragments) {
    return fragments->global;
}

/* ---- ranges ---- */

static size_t end_of_part(const ls_model *model, size_t part) {
    const struct ls_model_built *built = &model->built;
    return part + 1 < built->part_count ? built->parts[part + 1].offset : ls_network_trainable_count(built->network);
}

/* Each fragment takes variables as long as it has no more than most floats and enough are left for the others. Returns
 * whether the last one has no more either. */
static bool cut(const ls_model *model, size_t most, size_t count, struct ls_bucket *ranges) {
    size_t part = 0, parts = model->built.part_count;
    for (size_t f = 0; f < count; f++) {
        size_t begin = model->built.parts[part].offset;
        do part++;
        while (f + 1 < count && parts - part > count - f - 1 && end_of_part(model, part) - begin <= most);
        if (f + 1 == count) part = parts;
        ranges[f] = (struct ls_bucket){begin, end_of_part(model, part - 1)};
        if (ranges[f].end - begin > most) return false;
    }
    return true;
}

size_t ls_fragments_cut(const ls_model *model, size_t count, struct ls_bucket *ranges) {
    size_t largest = 0, low = 0, high = ls_network_trainable_count(model->built.network);
    while (low + 1 < high) {
        size_t middle = low + (high - low) / 2;
        if (cut(model, middle, count, ranges))
            high = middle;
        else
            low = middle;
    }
    (void)cut(model, high, count, ranges);
    for (size_t f = 0; f < count; f++)
        if (ranges[f].end - ranges[f].begin > largest) largest = ranges[f].end - ranges[f].begin;
    return largest;
}

/* ---- life ---- */

static ls_status build_ranges(struct ls_fragments *fragments, const float *state) {
    const ls_model *model = fragments->model;
    size_t trained = ls_network_trainable_count(model->built.network);
    fragments->ranges = ls_alloc_array(fragments->count, sizeof(*fragments->ranges));
    if (!fragments->ranges) return ls_fail_memory("fragments", fragments->count * sizeof(*fragments->ranges));
    fragments->largest = ls_fragments_cut(model, fragments->count, fragments->ranges);
    size_t floats = (size_t)(2 + ls_meeting_moments(model)) * fragments->largest;
    fragments->now = ls_alloc_aligned(floats * sizeof(float));
    if (!fragments->now) return ls_fail_memory("a fragment", floats * sizeof(float));
    if (!(model->strategy->local.outer_learning_rate > 0)) return LS_OK;
    fragments->global = ls_alloc_aligned(trained * sizeof(float));
    if (!fragments->global) return ls_fail_memory("fragments", trained * sizeof(float));
    memcpy(fragments->global, state, trained * sizeof(float));
    return LS_OK;
}

ls_status ls_fragments_check(const ls_model *model) {
    int count = model->strategy->local.fragments;
    if (count <= 0 || (size_t)count <= model->built.part_count) return LS_OK;
    return ls_fail(LS_INVALID_ARGUMENT,
                   "LocalSGDStrategy: fragments %d are more than the %zu variables that the model trains", count,
                   model->built.part_count);
}

ls_status ls_fragments_new(const ls_model *model, const float *state, struct ls_fragments **fragments) {
    int count = model->strategy->local.fragments ? model->strategy->local.fragments : 1;
    ls_status status = ls_fragments_check(model);
    if (status) return status;
    LS_NEW(struct ls_fragments, made, "fragments");
    made->model = model;
    made->count = (size_t)count;
    status = build_ranges(made, state);
    return LS_HAND_OVER(status, fragments, made, ls_fragments_free(made));
}

static void wait_for_exchange(struct ls_fragments *fragments) {
    if (fragments->threaded) (void)pthread_join(fragments->thread, NULL);
    fragments->threaded = fragments->open = false;
}

void ls_fragments_free(struct ls_fragments *fragments) {
    if (!fragments) return;
    wait_for_exchange(fragments);
    ls_free(fragments->global);
    ls_free(fragments->now);
    ls_free(fragments->ranges);
    ls_free(fragments);
}

/* ---- an exchange ---- */

static void *exchange_fragment(void *argument) {
    struct ls_fragments *fragments = argument;
    const ls_model *model = fragments->model;
    const struct ls_bucket *range = &fragments->ranges[fragments->fragment];
    const float *before = fragments->global ? fragments->global + range->begin : NULL;
    size_t count = range->end - range->begin;
    struct ls_track *track = model->strategy->communicator_track;
    int64_t begun = ls_track_begin(track);
    ls_reached("fragment");
    ls_status status = ls_meeting_add_up(
        model, LS_ALL_REDUCE("meeting", fragments->requests, fragments->requests, REQUESTS, LS_FLOAT64));
    if (!status) status = ls_meeting_mean(model, count, before, fragments->now);
    if (!status) status = ls_meeting_mean_moments(model, count, fragments->now + count, count);
    ls_kept_error_set(&fragments->result, status);
    ls_track_end(track, begun, "fragment",
                 (struct ls_span_facts){fragments->begun, fragments->fragment,
                                        (size_t)(1 + ls_meeting_moments(model)) * count * sizeof(float)});
    return NULL;
}

static ls_status begin_exchange(struct ls_fragments *fragments, int64_t done) {
    const ls_model *model = fragments->model;
    const struct ls_model_replica *replica = &model->built.replicas[0];
    struct ls_device *device = replica->device;
    int64_t every = model->strategy->local.sync_every / (int64_t)fragments->count;
    fragments->fragment = (size_t)(done / every - 1) % fragments->count;
    const struct ls_bucket *range = &fragments->ranges[fragments->fragment];
    size_t count = range->end - range->begin;
    ls_status status = LS_OK;
    for (int i = 0; !status && i <= ls_meeting_moments(model); i++)
        status = device->ops->copy_out(device, fragments->now + (size_t)i * count, replica->blobs[i] + range->begin,
                                       count * sizeof(float));
    if (status) return status;
    fragments->requests[SAVE] = model->progress.request == LS_SAVE;
    fragments->requests[STOP] = model->progress.request == LS_STOP;
    fragments->begun = done;
    fragments->open = true;
    if (model->strategy->local.fragment_delay > 0) {
        status = ls_thread_start(&fragments->thread, "ls-fragment", exchange_fragment, fragments);
        fragments->threaded = !status;
    } else {
        (void)exchange_fragment(fragments);
    }
    return status;
}

/* mean is of fragment_delay steps ago. */
static ls_status mix(const struct ls_fragments *fragments, const float *array, size_t count, float *mean) {
    struct ls_device *device = fragments->model->built.replicas[0].device;
    float alpha = fragments->model->strategy->local.fragment_alpha;
    float *own = fragments->now + (size_t)(1 + ls_meeting_moments(fragments->model)) * fragments->largest;
    if (!(alpha > 0)) return LS_OK;
    ls_status status = device->ops->copy_out(device, own, array, count * sizeof(float));
    for (size_t i = 0; !status && i < count; i++) mean[i] = alpha * own[i] + (1 - alpha) * mean[i];
    return status;
}

static ls_status use_array(struct ls_fragments *fragments, int i, const struct ls_bucket *range) {
    const ls_model *model = fragments->model;
    size_t count = range->end - range->begin;
    float *mean = fragments->now + (size_t)i * count;
    ls_status status = mix(fragments, model->built.replicas[0].blobs[i] + range->begin, count, mean);
    for (int r = 0; !status && r < model->strategy->local_count; r++) {
        const struct ls_model_replica *replica = &model->built.replicas[r];
        if (replica->shares) continue;
        status = replica->device->ops->copy_in(replica->device, replica->blobs[i] + range->begin, mean,
                                               count * sizeof(float));
    }
    return status;
}

static ls_status use_exchange(struct ls_fragments *fragments) {
    const ls_model *model = fragments->model;
    const struct ls_bucket *range = &fragments->ranges[fragments->fragment];
    size_t count = range->end - range->begin;
    if (fragments->global) {
        float *before = fragments->global + range->begin, *outer = ls_model_state_outer(model);
        ls_meeting_step_outer(model, count, before, fragments->now, outer ? outer + range->begin : NULL);
        memcpy(before, fragments->now, count * sizeof(float));
    }
    ls_status status = LS_OK;
    for (int i = 0; !status && i <= ls_meeting_moments(model); i++) status = use_array(fragments, i, range);
    return status;
}

/* All workers hear a request with the same exchange. */
static ls_status end_exchange(struct ls_fragments *fragments, bool *together) {
    wait_for_exchange(fragments);
    if (fragments->result.status) return ls_kept_error_raise(&fragments->result);
    *together = *together || fragments->requests[SAVE] > 0 || fragments->requests[STOP] > 0;
    return *together ? LS_OK : use_exchange(fragments);
}

static ls_status follow_step(struct ls_fragments *fragments, int64_t done, bool last, bool *together) {
    const ls_local_sgd_options *local = &fragments->model->strategy->local;
    int64_t every = local->sync_every / (int64_t)fragments->count;
    ls_status status = LS_OK;
    *together = last;
    if (!last && done % every == 0) status = begin_exchange(fragments, done);
    bool due = last || done == fragments->begun + local->fragment_delay;
    return !status && fragments->open && due ? end_exchange(fragments, together) : status;
}

ls_status ls_fragments_step(struct ls_fragments *fragments, int64_t done, bool last, bool *together) {
    ls_status status = follow_step(fragments, done, last, together);
    return status ? ls_fail_context(status, "an exchange of a fragment with all workers") : LS_OK;
}
