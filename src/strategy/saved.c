/* From a training to bytes and back. */
#include "strategy/saved.h"

#include <string.h>

#include "base/memory.h"
#include "strategy/handover.h"

#define KIND       0x4C53464955        /* a state of fit, evaluate and predict, not of a custom loop */
#define KEPT_BYTES ((size_t)256 << 20) /* of the outputs of predict that are kept beside the newest */

struct heading {
    int64_t kind;
    int64_t done;   /* calls; their results follow */
    int64_t inside; /* whether a fit has begun its steps */
    struct ls_fit_state fit;
    struct ls_requests requests;
    int64_t iteration;
    struct ls_loss_scaler scaler;
    float learning_rate, epoch_rate;
    int64_t lines;     /* bytes of the fit's description, with its zero, in whole words; after the results */
    int64_t floats;    /* of the model's state; after the lines */
    int64_t callbacks; /* bytes of their states */
    int64_t outputs;   /* bytes of what predict's calls gave, the last part */
};

/* The parts of a state, in its bytes. */
struct parts {
    struct heading heading;
    const ls_result *results;
    const char *lines;
    const float *floats;
    const void *callbacks, *outputs;
};

/* ---- to bytes ---- */

static void describe(const ls_strategy *strategy, struct heading *heading) {
    const struct ls_training *training = &strategy->training;
    const ls_model *model = training->model;
    heading->kind = KIND;
    heading->done = training->done;
    heading->outputs = (int64_t)ls_kept_size(training->outputs);
    if (training->fit) {
        heading->inside = 1;
        heading->fit = *training->fit;
        heading->lines = (int64_t)ls_state_round(strlen(training->lines) + 1);
        heading->callbacks = (int64_t)ls_callbacks_state_size(training->callbacks);
    }
    if (!model || !model->network) return;
    heading->requests = model->requests;
    heading->iteration = model->step.iteration;
    heading->scaler = model->scaler;
    heading->learning_rate = model->step.rule.learning_rate;
    heading->epoch_rate = model->epoch_rate;
    heading->floats = (int64_t)ls_model_state_count(model);
}

static ls_status encode(void *context, void **bytes, size_t *size) {
    const ls_strategy *strategy = context;
    const struct ls_training *training = &strategy->training;
    struct heading heading = {0};
    describe(strategy, &heading);
    size_t results = (size_t)heading.done * sizeof(ls_result), lines = (size_t)heading.lines;
    size_t floats = ls_state_round((size_t)heading.floats * sizeof(float));
    size_t before = ls_state_round(sizeof(heading)) + results + lines + floats + (size_t)heading.callbacks;
    size_t total = before + (size_t)heading.outputs;
    char *made = ls_alloc_aligned(total), *at = made;
    if (!made) return ls_fail_memory("the training's state", total);
    memcpy(at, &heading, sizeof(heading));
    at += ls_state_round(sizeof(heading));
    if (results) memcpy(at, training->results, results);
    at += results;
    if (lines) memcpy(at, training->lines, strlen(training->lines) + 1);
    at += lines;
    if (training->fit) ls_callbacks_get_state(training->callbacks, at + floats);
    ls_kept_write(training->outputs, made + before);
    ls_status status = heading.floats ? ls_model_get_state(training->model, (float *)(void *)at) : LS_OK;
    if (status) {
        ls_free(made);
        return status;
    }
    *bytes = made;
    *size = total;
    return LS_OK;
}

/* ---- back ---- */

static ls_status bad_state(void) {
    return ls_fail(LS_DATA_LOSS, "the state that another worker gave is not one of this version");
}

static ls_status read_parts(const struct ls_bytes *bytes, struct parts *parts) {
    const char *at = bytes->data;
    size_t left = bytes->size;
    struct heading *heading = &parts->heading;
    if (left < ls_state_round(sizeof(*heading))) return bad_state();
    memcpy(heading, at, sizeof(*heading));
    at += ls_state_round(sizeof(*heading));
    left -= ls_state_round(sizeof(*heading));
    if (heading->kind != KIND || heading->done < 0 || (size_t)heading->done > left / sizeof(ls_result))
        return bad_state();
    parts->results = (const void *)at;
    at += (size_t)heading->done * sizeof(ls_result);
    left -= (size_t)heading->done * sizeof(ls_result);
    if (heading->lines < 0 || (size_t)heading->lines > left || heading->lines % 8) return bad_state();
    parts->lines = heading->lines ? at : "";
    if (heading->lines && at[heading->lines - 1]) return bad_state();
    at += heading->lines;
    left -= (size_t)heading->lines;
    if (heading->floats < 0 || (size_t)heading->floats > (left & ~(size_t)7) / sizeof(float)) return bad_state();
    parts->floats = heading->floats ? (const void *)at : NULL;
    at += ls_state_round((size_t)heading->floats * sizeof(float));
    left -= ls_state_round((size_t)heading->floats * sizeof(float));
    if (heading->callbacks < 0 || (size_t)heading->callbacks > left) return bad_state();
    parts->callbacks = at;
    if (heading->outputs < 0 || (size_t)heading->outputs != left - (size_t)heading->callbacks) return bad_state();
    parts->outputs = at + heading->callbacks;
    return LS_OK;
}

static ls_status take_results(struct ls_training *training, const struct parts *parts) {
    if (training->done >= parts->heading.done) return LS_OK;
    struct ls_kept *outputs = NULL;
    ls_status status = ls_kept_read(parts->outputs, (size_t)parts->heading.outputs, &outputs);
    if (status) return status;
    ls_kept_free(training->outputs);
    training->outputs = outputs;
    ls_result *results = ls_alloc_array((size_t)parts->heading.done, sizeof(*results));
    if (!results) return ls_fail_memory("the results of earlier calls", (size_t)parts->heading.done);
    memcpy(results, parts->results, (size_t)parts->heading.done * sizeof(*results));
    ls_free(training->results);
    training->results = results;
    training->done = parts->heading.done;
    return LS_OK;
}

/* The model as the state has it; left alone where the state is that of another one. */
static ls_status take_model(const struct ls_call *call, const struct parts *parts) {
    ls_model *model = call->model;
    const struct heading *heading = &parts->heading;
    if (!parts->floats) return LS_OK;
    ls_status status = ls_model_plan(model, call->data);
    if (!status && ls_model_state_count(model) != (size_t)heading->floats) {
        if (!model->replicas) ls_model_release(model);
        return LS_OK;
    }
    if (!status) status = ls_model_build(model, call->data, call->pipeline, parts->floats);
    if (status) return status;
    model->step.iteration = heading->iteration;
    model->scaler = heading->scaler;
    model->step.rule.learning_rate = heading->learning_rate;
    model->epoch_rate = heading->epoch_rate;
    model->requests = heading->requests;
    return LS_OK;
}

/* The states as the others have them: the fit is the same, and so are its callbacks. */
static ls_status take_callbacks(const struct ls_call *call, const struct parts *parts) {
    ls_status status = ls_callbacks_build(call->callbacks);
    if (status) return status;
    if (ls_callbacks_state_size(call->callbacks) != (size_t)parts->heading.callbacks)
        return ls_fail(LS_FAILED_PRECONDITION, "the callbacks have %zu bytes of state here and %lld where fit goes on",
                       ls_callbacks_state_size(call->callbacks), (long long)parts->heading.callbacks);
    ls_callbacks_set_state(call->callbacks, parts->callbacks);
    return LS_OK;
}

static ls_status check_lines(const struct ls_call *call, const struct parts *parts) {
    const struct ls_membership *membership = call->model->strategy->membership;
    if (!call->lines)
        return ls_fail(
            LS_FAILED_PRECONDITION,
            "rank %d evaluates or predicts where the others train: it was started anew, and does other things than "
            "before",
            membership->rank);
    return ls_state_compare(membership, "training", parts->lines, call->lines);
}

static ls_status resume(const struct ls_call *call, const struct parts *parts, struct ls_fit_state *state,
                        enum ls_call_stand *stand) {
    const struct heading *heading = &parts->heading;
    struct ls_training *training = &call->model->strategy->training;
    ls_status status = take_results(training, parts);
    if (!status && heading->done == call->index && heading->inside) status = check_lines(call, parts);
    if (!status) status = take_model(call, parts);
    if (status) return status;
    *stand = heading->done > call->index ? LS_CALL_DONE : heading->inside ? LS_CALL_INSIDE : LS_CALL_NEW;
    if (*stand != LS_CALL_INSIDE) return LS_OK;
    *state = heading->fit;
    return take_callbacks(call, parts);
}

ls_status ls_training_resume(const struct ls_call *call, struct ls_fit_state *state, enum ls_call_stand *stand) {
    ls_strategy *strategy = call->model->strategy;
    struct ls_membership *membership = strategy->membership;
    struct parts parts;
    *stand = strategy->training.done > call->index ? LS_CALL_DONE : LS_CALL_NEW;
    if (membership->inherited.data) {
        ls_status status = read_parts(&membership->inherited, &parts);
        if (!status) status = resume(call, &parts, state, stand);
        if (status) return status;
        /* what is left of it is for a later call, and for others until then */
        if (parts.heading.done == call->index) ls_free(ls_membership_take_inherited(membership).data);
    }
    if (*stand == LS_CALL_DONE) state->result = strategy->training.results[call->index];
    return LS_OK;
}

/* ---- the calls ---- */

int64_t ls_training_begin(ls_strategy *strategy, ls_model *model) {
    struct ls_training *training = &strategy->training;
    if (training->parted) ls_free(ls_membership_take_inherited(strategy->membership).data);
    training->parted = false;
    if (training->model && training->model != model) training->several = true;
    training->model = model;
    training->fit = NULL;
    training->callbacks = NULL;
    strategy->membership->source = (struct ls_state_source){encode, strategy};
    return training->made++;
}

int64_t ls_training_iteration(const ls_model *model) {
    const struct ls_training *training = &model->strategy->training;
    bool known = training->model == model && training->made > 0 && training->done >= training->made;
    return known ? training->results[training->made - 1].steps : model->step.iteration;
}

void ls_training_start(const struct ls_call *call, struct ls_fit_state *state) {
    struct ls_training *training = &call->model->strategy->training;
    training->fit = state;
    training->lines = call->lines;
    training->callbacks = call->callbacks;
}

ls_status ls_training_end(ls_strategy *strategy, const ls_result *result) {
    struct ls_training *training = &strategy->training;
    training->fit = NULL;
    if (training->done >= training->made) return LS_OK; /* the others were before this process */
    ls_result *results = ls_alloc_array((size_t)training->made, sizeof(*results));
    if (!results) return ls_fail_memory("the results of all calls", (size_t)training->made * sizeof(*results));
    if (training->done) memcpy(results, training->results, (size_t)training->done * sizeof(*results));
    results[training->done++] = *result;
    ls_free(training->results);
    training->results = results;
    ls_membership_commit(strategy->membership);
    return LS_OK;
}

ls_status ls_training_keep(ls_strategy *strategy, int64_t rows, int64_t width, const float *outputs) {
    struct ls_membership *membership = strategy->membership;
    struct ls_training *training = &strategy->training;
    bool anyone =
        membership->cluster && (membership->settings.rejoin_timeout > 0 || ls_membership_is_elastic(membership));
    const struct ls_kept_heading heading = {training->made - 1, rows, width};
    if (!anyone || training->done >= training->made) return LS_OK;
    return ls_kept_add(&training->outputs, &heading, outputs, KEPT_BYTES);
}

ls_status ls_training_outputs(const ls_strategy *strategy, int64_t index, const struct ls_kept **outputs) {
    const struct ls_kept *found = ls_kept_find(strategy->training.outputs, index);
    if (!found)
        return ls_fail(LS_FAILED_PRECONDITION,
                       "the others have done call %lld without this process, and its outputs are not kept: the newest "
                       "are, and %zu MiB of those before",
                       (long long)index + 1, KEPT_BYTES >> 20);
    *outputs = found;
    return LS_OK;
}

void ls_training_part(ls_model *model) {
    ls_strategy *strategy = model->strategy;
    struct ls_training *training = &strategy->training;
    struct ls_membership *membership = strategy->membership;
    struct ls_bytes bytes;
    if (training->model != model) return;
    if (membership->cluster && membership->holds && !membership->inherited.data &&
        encode(strategy, &bytes.data, &bytes.size) == LS_OK) {
        ls_membership_keep(membership, bytes);
        training->parted = true;
    }
    training->model = NULL;
}
