/* A text's cache: what the attentions keep of its tokens (model/plan_decode.c), on the device of this worker's first
 * replica. A plan of one position gives the logits behind the last token. The first call runs one of the tokens before
 * it, which keeps what the attentions make of the prompt, and has no logits. Mirrors the cache of keras_hub's CausalLM,
 * and transformers' DynamicCache with logits_to_keep = 1. */
#include "train/generate_cache.h"

#include <string.h>

#include "base/new.h"
#include "model/plan_decode.h"
#include "model/plan_run.h"
#include "train/predict_on_batch.h"
#include "train/step.h"

enum { IDS = 16 }; /* where ids begin behind the place of the first one: tensors begin on cache lines */

struct ls_generate_cache {
    ls_model *model;          /* borrowed */
    struct ls_device *device; /* borrowed */
    float *kept;              /* owns: device */
    int32_t *input;           /* owns: device [IDS + context]: the place of the first id, and ids */
    int32_t *staged;          /* owns: the same in host memory */
    struct ls_plan *step;     /* owns: of one position; NULL before the first */
    int64_t held;             /* tokens whose keys and values are kept */
};

bool ls_generate_cache_fits(const ls_model *model) {
    const struct ls_network *network = model->built.network;
    return ls_predict_on_batch_ready(model) && ls_network_takes_integers(network) && !ls_plan_decode_obstacle(network);
}

static int64_t context_of(const struct ls_generate_cache *cache) {
    return cache->model->built.input.dims[0];
}

static int64_t vocabulary_of(const struct ls_generate_cache *cache) {
    return ls_network_output_shape(cache->model->built.network)->dims[1];
}

static ls_status reserve_memory(struct ls_generate_cache *cache) {
    size_t numbers = IDS + (size_t)context_of(cache), floats = ls_plan_decode_floats(cache->model->built.network);
    void *input = NULL;
    cache->staged = ls_alloc_array(numbers, sizeof(*cache->staged));
    if (!cache->staged) return ls_fail_memory("tokens", numbers * sizeof(*cache->staged));
    ls_status status = cache->device->ops->allocate(cache->device, numbers * sizeof(*cache->input), &input);
    cache->input = input;
    if (!status) status = ls_device_allocate_floats(cache->device, floats ? floats : 1, &cache->kept);
    return status ? ls_fail_context(status, "the keys and values of a text") : LS_OK;
}

ls_status ls_generate_cache_new(ls_model *model, struct ls_generate_cache **cache) {
    LS_NEW(struct ls_generate_cache, made, "the cache of a text");
    made->model = model;
    made->device = model->built.replicas[0].device;
    ls_status status = reserve_memory(made);
    return LS_HAND_OVER(status, cache, made, ls_generate_cache_free(made));
}

void ls_generate_cache_free(struct ls_generate_cache *cache) {
    if (!cache) return;
    const struct ls_device_ops *ops = cache->device->ops;
    ls_plan_free(cache->step);
    if (cache->kept) ops->release(cache->device, cache->kept);
    if (cache->input) ops->release(cache->device, cache->input);
    ls_free(cache->staged);
    ls_free(cache);
}

/* ---- positions ---- */

/* The tokens that are not held yet. */
struct advance {
    struct ls_generate_cache *cache;
    const int32_t *tokens;
    int64_t count;
    float *logits; /* of the last one */
};

/* Some of them, of which the first has its place in the text. Behind the ids lie others from before, or zeros: the
 * check of a whole example finds what is new. */
static ls_status bring_tokens(const struct advance *advance, int64_t first, int64_t count) {
    const struct ls_generate_cache *cache = advance->cache;
    cache->staged[0] = (int32_t)(cache->held + first);
    memcpy(cache->staged + IDS, advance->tokens + first, (size_t)count * sizeof(*cache->staged));
    ls_status status = ls_network_check_ids(cache->model->built.network, cache->staged + IDS, 1);
    if (status) return status;
    return cache->device->ops->copy_in(cache->device, cache->input, cache->staged,
                                       (IDS + (size_t)count) * sizeof(*cache->staged));
}

static ls_status make_plan(const struct ls_generate_cache *cache, int64_t positions, size_t layers,
                           struct ls_plan **plan) {
    const struct ls_decoding decoding = {positions, cache->input, cache->kept, layers};
    return ls_plan_slots_decode(cache->model, &decoding, cache->input + IDS, plan);
}

static ls_status run_positions(const struct ls_generate_cache *cache, struct ls_plan *plan) {
    ls_status status = ls_plan_run(plan, NULL, NULL);
    if (!status) status = ls_device_wait(cache->device);
    if (status) ls_device_drain(cache->device);
    return status;
}

/* All but the last. */
static ls_status keep_positions(const struct advance *advance) {
    struct ls_plan *plan = NULL;
    size_t layers = ls_plan_decode_layers(advance->cache->model->built.network);
    ls_status status = bring_tokens(advance, 0, advance->count - 1);
    if (!status) status = make_plan(advance->cache, advance->count - 1, layers, &plan);
    if (!status) status = run_positions(advance->cache, plan);
    ls_plan_free(plan);
    return status;
}

static ls_status run_last(const struct advance *advance) {
    struct ls_generate_cache *cache = advance->cache;
    ls_status status = bring_tokens(advance, advance->count - 1, 1);
    if (!status && !cache->step) status = make_plan(cache, 1, 0, &cache->step);
    if (!status) status = run_positions(cache, cache->step);
    if (status) return status;
    return cache->device->ops->copy_out(cache->device, advance->logits, ls_plan_outputs(cache->step),
                                        (size_t)vocabulary_of(cache) * sizeof(float));
}

static ls_status run_advance(ls_model *model, void *context) {
    const struct advance *advance = context;
    (void)model;
    ls_status status = advance->count > 1 ? keep_positions(advance) : LS_OK;
    return status ? status : run_last(advance);
}

ls_status ls_generate_cache_logits(struct ls_generate_cache *cache, const int32_t *tokens, int64_t count,
                                   float *logits) {
    struct advance advance = {cache, tokens + cache->held, count - cache->held, logits};
    ls_status status = ls_predict_on_batch_alone(cache->model, run_advance, &advance);
    if (!status) cache->held = count;
    return status;
}
