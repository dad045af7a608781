/* From a training to bytes and back. Numbers are little-endian words of 8 bytes, and so is the table of
 * training_progress.c; variables and moments lie as they do in memory. */
#include "train/training_state.h"

#include <endian.h>
#include <string.h>

#include "base/memory.h"
#include "runtime/state_transfer.h"
#include "train/model_build.h"
#include "train/model_state.h"

#define KIND                                                                                                           \
    0x4C53464957 /* a state of fit, evaluate and predict, not of a custom loop; its last byte is the version           \
                  */
#define FIT  (LS_PROGRESS_FIT | LS_PROGRESS_RESULT)
#define WORD sizeof(int64_t)

/* The first words, before the fit's progress, the results of calls, and parts of so many bytes in this order. */
enum {
    STATE_KIND,
    STATE_DONE,   /* calls; their results follow */
    STATE_INSIDE, /* 1: a fit has begun its steps */
    STATE_LINES,  /* the fit's description, with its zero */
    STATE_MODELS,
    STATE_CALLBACKS, /* their states */
    STATE_OUTPUTS,   /* what predict's calls gave */
    STATE_WORDS
};
/* The first words of a model's part, before its progress and its state. */
enum { MODEL_NUMBER /* ls_model.number */, MODEL_FLOATS /* of its state */, MODEL_WORDS };

/* The parts of a state, in its bytes. */
struct parts {
    int64_t heading[STATE_WORDS];
    struct ls_fit_state fit;
    const char *results, *lines, *models, *callbacks, *outputs;
};
/* A model's. */
struct model_part {
    struct ls_training_progress progress;
    const float *floats; /* NULL if the state has none of this model */
    int64_t count;
};

/* ---- to bytes ---- */

static bool has_state(const ls_model *model) {
    return model->number && model->built.network;
}

static size_t size_of_model(const ls_model *model) {
    return MODEL_WORDS * WORD + ls_training_progress_size(LS_PROGRESS_MODEL) +
           ls_state_transfer_round(ls_model_state_count(model, LS_PARTS_HERE) * sizeof(float));
}

/* Returns the bytes of the whole state. The state is what a worker needs to take the place of another one: the results
 * of the calls that are done, the models' variables and moments, and, inside of a fit, its position, the sums of the
 * present epoch and the callbacks' states. The order of the data and all random numbers follow from seeds and position
 * and are not in it. */
static size_t fill_heading(const struct ls_training *training, int64_t heading[STATE_WORDS]) {
    size_t size = STATE_WORDS * WORD + ls_training_progress_size(FIT) +
                  (size_t)training->done * ls_training_progress_size(LS_PROGRESS_RESULT);
    memset(heading, 0, STATE_WORDS * WORD);
    heading[STATE_KIND] = KIND;
    heading[STATE_DONE] = training->done;
    heading[STATE_OUTPUTS] = (int64_t)ls_predict_cache_size(training->outputs);
    for (const ls_model *model = training->models; model; model = model->next)
        if (has_state(model)) heading[STATE_MODELS] += (int64_t)size_of_model(model);
    if (training->fit) {
        heading[STATE_INSIDE] = 1;
        heading[STATE_LINES] = (int64_t)ls_state_transfer_round(strlen(training->lines) + 1);
        heading[STATE_CALLBACKS] = (int64_t)ls_callback_list_state_size(training->callbacks);
    }
    for (int i = STATE_LINES; i < STATE_WORDS; i++) size += (size_t)heading[i];
    return size;
}

static void write_words(char **at, const int64_t *words, size_t count) {
    for (size_t i = 0; i < count; i++, *at += WORD) {
        uint64_t word = htole64((uint64_t)words[i]);
        memcpy(*at, &word, WORD);
    }
}

static void write_progress(char **at, const struct ls_training_progress *progress, unsigned parts) {
    ls_training_progress_write(progress, parts, *at);
    *at += ls_training_progress_size(parts);
}

static ls_status write_models(const struct ls_training *training, char **at) {
    ls_status status = LS_OK;
    for (const ls_model *model = training->models; model && !status; model = model->next) {
        if (!has_state(model)) continue;
        size_t floats = ls_model_state_count(model, LS_PARTS_HERE);
        const struct ls_training_progress progress = ls_model_state_progress(model);
        write_words(at, (int64_t[MODEL_WORDS]){model->number, (int64_t)floats}, MODEL_WORDS);
        write_progress(at, &progress, LS_PROGRESS_MODEL);
        status = ls_model_state_get(model, LS_PARTS_HERE, (float *)(void *)*at);
        *at += ls_state_transfer_round(floats * sizeof(float));
    }
    return status;
}

static ls_status write_state(const struct ls_training *training, const int64_t heading[STATE_WORDS], char *at) {
    struct ls_training_progress progress = {0};
    if (training->fit) progress.fit = *training->fit;
    write_words(&at, heading, STATE_WORDS);
    write_progress(&at, &progress, FIT);
    for (int64_t i = 0; i < training->done; i++) {
        progress.fit.result = training->results[i];
        write_progress(&at, &progress, LS_PROGRESS_RESULT);
    }
    if (training->fit) memcpy(at, training->lines, strlen(training->lines) + 1);
    at += heading[STATE_LINES];
    ls_status status = write_models(training, &at);
    if (status) return status;
    if (training->fit) ls_callback_list_get_state(training->callbacks, at);
    ls_predict_cache_write(training->outputs, at + heading[STATE_CALLBACKS]);
    return LS_OK;
}

ls_status ls_training_state_encode(void *context, struct ls_bytes *bytes, void **made) {
    const struct ls_training *training = context;
    int64_t heading[STATE_WORDS];
    *bytes = training->kept;
    *made = NULL;
    if (bytes->data) return LS_OK;
    size_t size = fill_heading(training, heading);
    LS_CLEANUP(ls_free_pointer) char *written = ls_alloc_aligned(size);
    if (!written) return ls_fail_memory("the training's state", size);
    ls_status status = write_state(training, heading, written);
    if (status) return status;
    *made = ls_steal(written);
    *bytes = (struct ls_bytes){*made, size};
    return LS_OK;
}

int64_t ls_training_state_begin(ls_model *model) {
    struct ls_training *training = model->strategy->training;
    model->strategy->runtime->sources[LS_STATE_TRAINING] = (struct ls_state_source){ls_training_state_encode, training};
    return ls_training_begin(model);
}

/* ---- back ---- */

static ls_status bad_state(void) {
    return ls_fail(LS_DATA_LOSS, "the state that another worker gave is not one of this version");
}

/* The next count items of each bytes; NULL if fewer are left. */
static const char *next_part(struct ls_bytes *left, int64_t count, size_t each) {
    const char *part = left->data;
    if (count < 0 || (size_t)count > left->size / each) return NULL;
    left->data = (char *)left->data + (size_t)count * each;
    left->size -= (size_t)count * each;
    return part;
}

static bool read_words(struct ls_bytes *left, int64_t *words, size_t count) {
    const char *at = next_part(left, (int64_t)count, WORD);
    for (size_t i = 0; at && i < count; i++) {
        uint64_t word;
        memcpy(&word, at + i * WORD, WORD);
        words[i] = (int64_t)le64toh(word);
    }
    return at;
}

static ls_status read_parts(struct ls_bytes left, struct parts *parts) {
    struct ls_training_progress progress = {0};
    int64_t *heading = parts->heading;
    if (!read_words(&left, heading, STATE_WORDS) || heading[STATE_KIND] != KIND) return bad_state();
    if ((uint64_t)heading[STATE_INSIDE] > 1) return bad_state();
    const char *fit = next_part(&left, 1, ls_training_progress_size(FIT));
    parts->results = next_part(&left, heading[STATE_DONE], ls_training_progress_size(LS_PROGRESS_RESULT));
    parts->lines = next_part(&left, heading[STATE_LINES], 1);
    parts->models = next_part(&left, heading[STATE_MODELS], 1);
    parts->callbacks = next_part(&left, heading[STATE_CALLBACKS], 1);
    parts->outputs = next_part(&left, heading[STATE_OUTPUTS], 1);
    bool there = fit && parts->results && parts->lines && parts->models && parts->callbacks && parts->outputs;
    if (!there || left.size || heading[STATE_LINES] % 8 || heading[STATE_MODELS] % 8) return bad_state();
    if (!heading[STATE_LINES])
        parts->lines = "";
    else if (parts->lines[heading[STATE_LINES] - 1])
        return bad_state();
    ls_status status = ls_training_progress_read(fit, FIT, &progress);
    parts->fit = progress.fit;
    return status;
}

static ls_status read_results(const struct parts *parts, ls_result *results) {
    struct ls_training_progress progress = {0};
    ls_status status = LS_OK;
    for (int64_t i = 0; !status && i < parts->heading[STATE_DONE]; i++) {
        size_t at = (size_t)i * ls_training_progress_size(LS_PROGRESS_RESULT);
        status = ls_training_progress_read(parts->results + at, LS_PROGRESS_RESULT, &progress);
        results[i] = progress.fit.result;
    }
    return status;
}

static ls_status take_results(struct ls_training *training, const struct parts *parts) {
    size_t done = (size_t)parts->heading[STATE_DONE];
    if ((size_t)training->done >= done) return LS_OK;
    LS_CLEANUP(ls_free_pointer) ls_result *results = ls_alloc_array(done, sizeof(*results));
    if (!results) return ls_fail_memory("the results of earlier calls", done);
    struct ls_predict_cache *outputs = NULL;
    ls_status status = read_results(parts, results);
    if (!status) status = ls_predict_cache_read(parts->outputs, (size_t)parts->heading[STATE_OUTPUTS], &outputs);
    if (status) return status;
    ls_predict_cache_free(training->outputs);
    ls_free(training->results);
    training->outputs = outputs;
    training->results = ls_steal(results);
    training->done = training->room = (int64_t)done;
    return LS_OK;
}

static ls_status find_model(const struct parts *parts, int64_t number, struct model_part *found) {
    struct ls_bytes left = {(char *)parts->models, (size_t)parts->heading[STATE_MODELS]};
    found->floats = NULL;
    while (left.size && !found->floats) {
        int64_t words[MODEL_WORDS];
        if (!read_words(&left, words, MODEL_WORDS)) return bad_state();
        const char *progress = next_part(&left, 1, ls_training_progress_size(LS_PROGRESS_MODEL));
        found->count = words[MODEL_FLOATS];
        const char *floats = next_part(&left, found->count / 2 + found->count % 2, 2 * sizeof(float));
        if (!progress || !floats || found->count < 0) return bad_state();
        if (words[MODEL_NUMBER] != number) continue;
        found->floats = (const float *)(const void *)floats;
        return ls_training_progress_read(progress, LS_PROGRESS_MODEL, &found->progress);
    }
    return LS_OK;
}

/* The model as the state has it; it stays where the state is that of another one. */
static ls_status take_model(const struct ls_training_call *call, const struct parts *parts) {
    ls_model *model = call->model;
    struct model_part part = {.progress = ls_model_state_progress(model)};
    ls_status status = find_model(parts, model->number, &part);
    if (status || !part.floats) return status;
    status = ls_model_build_network(model, call->data);
    if (!status && ls_model_state_count(model, LS_PARTS_HERE) != (size_t)part.count) {
        if (!model->built.replicas) ls_model_build_release(model);
        return LS_OK;
    }
    if (!status) status = ls_model_build(model, call->data, call->pipeline, part.floats);
    if (!status) ls_model_state_set_progress(model, &part.progress);
    return status;
}

/* The states as the others have them: the fit is the same, and so are its callbacks. */
static ls_status take_callbacks(const struct ls_training_call *call, const struct parts *parts) {
    ls_status status = ls_callback_list_build(call->callbacks);
    if (status) return status;
    if (ls_callback_list_state_size(call->callbacks) != (size_t)parts->heading[STATE_CALLBACKS])
        return ls_fail(LS_FAILED_PRECONDITION, "the callbacks have %zu bytes of state here and %lld where fit goes on",
                       ls_callback_list_state_size(call->callbacks), (long long)parts->heading[STATE_CALLBACKS]);
    ls_callback_list_set_state(call->callbacks, parts->callbacks);
    return LS_OK;
}

static ls_status check_lines(const struct ls_training_call *call, const struct parts *parts) {
    const struct ls_runtime *runtime = call->model->strategy->runtime;
    if (!call->lines)
        return ls_fail(
            LS_FAILED_PRECONDITION,
            "rank %d evaluates or predicts where the others train: it was started anew, and does other things than "
            "before",
            runtime->rank);
    return ls_state_transfer_compare(runtime, "training", parts->lines, call->lines);
}

/* Calls have numbers, since a restarted program comes to all of its calls anew. A call with a number below the others'
 * is done: its result is taken and nothing is computed. The one with their number is entered where they stand. */
static ls_status resume(const struct ls_training_call *call, const struct parts *parts, struct ls_fit_state *state,
                        enum ls_call_stand *stand) {
    const int64_t *heading = parts->heading;
    struct ls_training *training = call->model->strategy->training;
    ls_status status = take_results(training, parts);
    if (!status && heading[STATE_DONE] == call->index && heading[STATE_INSIDE]) status = check_lines(call, parts);
    if (!status) status = take_model(call, parts);
    if (status) return status;
    *stand = heading[STATE_DONE] > call->index ? LS_CALL_DONE : heading[STATE_INSIDE] ? LS_CALL_INSIDE : LS_CALL_NEW;
    if (*stand != LS_CALL_INSIDE) return LS_OK;
    *state = parts->fit;
    return take_callbacks(call, parts);
}

ls_status ls_training_state_resume(const struct ls_training_call *call, struct ls_fit_state *state,
                                   enum ls_call_stand *stand) {
    ls_strategy *strategy = call->model->strategy;
    struct ls_runtime *runtime = strategy->runtime;
    const struct ls_training *training = strategy->training;
    struct parts parts;
    *stand = training->done > call->index ? LS_CALL_DONE : training->fit ? LS_CALL_INSIDE : LS_CALL_NEW;
    const struct ls_bytes *inherited = runtime->inherited;
    if (!inherited[LS_STATE_TRAINING].data && inherited[LS_STATE_LOOP].data && !strategy->committed.bytes)
        return ls_fail(LS_FAILED_PRECONDITION, "the others are in a custom loop, and have come to no call of a model");
    if (inherited[LS_STATE_TRAINING].data) {
        ls_status status = read_parts(inherited[LS_STATE_TRAINING], &parts);
        if (!status) status = resume(call, &parts, state, stand);
        if (status) return status;
        /* the rest of it is for a later call, and for others until then */
        if (parts.heading[STATE_DONE] == call->index) ls_state_transfer_drop(runtime, LS_STATE_TRAINING);
    }
    if (*stand == LS_CALL_DONE) state->result = training->results[call->index];
    return LS_OK;
}
