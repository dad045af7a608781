/* A push waits in its worker's place until it is decided. */
#include "store/session/session_pushes.h"

#include <string.h>

#include "base/new.h"
#include "store/session/tickets.h"

static void drop_push(struct ls_staged *staged) {
    ls_free(staged->bytes);
    *staged = (struct ls_staged){.ticket = LS_NO_TICKET};
}

static void drop_all(struct ls_session_pushes *server) {
    for (int w = 0; server->staged && w < server->workers; w++) drop_push(&server->staged[w]);
}

ls_status ls_session_pushes_new(struct ls_session_pushes **server) {
    LS_NEW(struct ls_session_pushes, made, "a parameter server's sessions");
    *server = made;
    return LS_OK;
}

void ls_session_pushes_close(struct ls_session_pushes *server) {
    drop_all(server);
    ls_session_state_free(&server->state);
    server->open = false;
}

void ls_session_pushes_forget(struct ls_session_pushes *server, int64_t generation) {
    ls_session_pushes_close(server);
    server->last = generation;
}

void ls_session_pushes_divide(struct ls_session_pushes *server, int64_t generation) {
    drop_all(server);
    server->done = generation;
}

void ls_session_pushes_free(struct ls_session_pushes *server) {
    if (!server) return;
    ls_session_pushes_close(server);
    ls_free(server->staged);
    ls_free(server->history);
    ls_free(server);
}

ls_status ls_session_pushes_prepare(struct ls_session_pushes *server, int workers) {
    drop_all(server);
    ls_free(ls_steal(server->staged));
    ls_free(ls_steal(server->history));
    server->workers = workers;
    server->staged = ls_alloc_array((size_t)workers, sizeof(*server->staged));
    server->history = ls_alloc_array((size_t)workers, sizeof(*server->history));
    if (!server->staged || !server->history)
        return ls_fail_memory("pushes of workers", (size_t)workers * sizeof(*server->staged));
    for (int w = 0; w < workers; w++) server->staged[w].ticket = server->history[w].version = LS_NO_TICKET;
    return LS_OK;
}

/* ---- one decision ---- */

size_t ls_session_pushes_floats(const struct ls_session_target *target) {
    const struct ls_holding *holding = target->holding;
    size_t floats = 0;
    for (size_t i = 0; i < holding->held_count; i++)
        floats += holding->held[i].range.end - holding->held[i].range.begin;
    return floats;
}

/* Copies the gradients to where the optimizer finds them; returns what follows them. */
static const unsigned char *place_gradients(const struct ls_session_target *target, const unsigned char *bytes) {
    const struct ls_holding *holding = target->holding;
    for (size_t i = 0; i < holding->held_count; i++) {
        const struct ls_held *held = &holding->held[i];
        size_t size = (held->range.end - held->range.begin) * sizeof(float);
        memcpy(holding->gradients + held->at, bytes, size);
        bytes += size;
    }
    return bytes;
}

static const unsigned char *add_statistics(struct ls_session_pushes *server, const unsigned char *bytes, bool applied) {
    for (int64_t i = 0; i < server->session.statistics; i++, bytes += sizeof(float)) {
        float change;
        memcpy(&change, bytes, sizeof(change));
        if (applied) server->state.statistics[i] += change;
    }
    return bytes;
}

static void note_decision(struct ls_session_pushes *server, const struct ls_staged *staged, float factor,
                          const unsigned char *numbers) {
    struct ls_session_state *state = &server->state;
    double values[LS_SESSION_NUMBERS];
    memcpy(values, numbers, (size_t)server->session.numbers * sizeof(double));
    ls_session_totals_add(&state->totals, state->version - staged->version, factor > 0, values,
                          server->session.numbers);
    state->version++;
    state->closing |= staged->closes;
    state->done[staged->ticket / 64] |= UINT64_C(1) << staged->ticket % 64;
    server->history[state->version % server->workers] =
        (struct ls_decided){state->version, staged->ticket, staged->generation, factor};
    server->last = staged->generation;
}

ls_status ls_session_pushes_decide(struct ls_session_pushes *server, const struct ls_session_target *target,
                                   struct ls_staged *staged, float factor) {
    struct ls_optimizer_step step = server->session.step;
    const unsigned char *rest = place_gradients(target, staged->bytes + LS_POST_HEAD);
    step.iteration = server->state.version + 1;
    step.rule.learning_rate = staged->rate * factor;
    ls_status status = factor > 0 ? target->apply(target->context, &step) : LS_OK;
    target->holding->version[0] = status ? -1 : step.iteration;
    if (status) return status;
    rest = add_statistics(server, rest, factor > 0);
    note_decision(server, staged, factor, rest);
    drop_push(staged);
    return LS_OK;
}
