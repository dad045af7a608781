/* Decisions, and the agreement of servers about them. */
#include "store/session_apply.h"

#include <string.h>

#include "base/memory.h"
#include "base/status.h"
#include "collective/all_gather.h"
#include "collective/broadcast.h"
#include "store/tickets.h"

void ls_session_apply_drop(struct ls_staged *staged) {
    ls_free(staged->bytes);
    *staged = (struct ls_staged){.ticket = LS_NO_TICKET};
}

static void drop_all(struct ls_session_server *server) {
    for (int w = 0; server->staged && w < server->workers; w++) ls_session_apply_drop(&server->staged[w]);
}

ls_status ls_session_server_new(struct ls_session_server **server) {
    struct ls_session_server *made = ls_alloc(sizeof(*made));
    if (!made) return ls_fail_memory("a parameter server's sessions", sizeof(*made));
    *server = made;
    return LS_OK;
}

void ls_session_apply_close(struct ls_session_server *server) {
    drop_all(server);
    ls_session_state_free(&server->state);
    server->open = false;
}

void ls_session_server_forget(struct ls_session_server *server, int64_t generation) {
    ls_session_apply_close(server);
    server->last = generation;
}

void ls_session_server_free(struct ls_session_server *server) {
    if (!server) return;
    ls_session_apply_close(server);
    ls_free(server->staged);
    ls_free(server->history);
    ls_free(server);
}

ls_status ls_session_apply_prepare(struct ls_session_server *server, int workers) {
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

size_t ls_session_apply_floats(const struct ls_session_target *target) {
    const struct ls_holding *holding = target->holding;
    size_t floats = 0;
    for (size_t i = 0; i < (size_t)holding->replicas * target->terms->bucket_count; i++)
        floats += holding->held[i].range.end - holding->held[i].range.begin;
    return floats;
}

/* Copies the gradients to where the optimizer finds them; returns what follows them. */
static const unsigned char *place_gradients(const struct ls_session_target *target, const unsigned char *bytes) {
    const struct ls_holding *holding = target->holding;
    for (size_t i = 0; i < (size_t)holding->replicas * target->terms->bucket_count; i++) {
        const struct ls_held *held = &holding->held[i];
        size_t size = (held->range.end - held->range.begin) * sizeof(float);
        memcpy(holding->gradients + held->at, bytes, size);
        bytes += size;
    }
    return bytes;
}

static const unsigned char *add_statistics(struct ls_session_server *server, const unsigned char *bytes, bool applied) {
    for (int64_t i = 0; i < server->session.statistics; i++, bytes += sizeof(float)) {
        float change;
        memcpy(&change, bytes, sizeof(change));
        if (applied) server->state.statistics[i] += change;
    }
    return bytes;
}

static void note_decision(struct ls_session_server *server, const struct ls_staged *staged, float factor,
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

ls_status ls_session_apply(struct ls_session_server *server, const struct ls_session_target *target,
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
    ls_session_apply_drop(staged);
    return LS_OK;
}

/* ---- agreement ---- */

/* A server that was left out of a generation may have decided in another order than those that were in it: then it
 * counts as one with nothing. The generation of the newest decision tells. */
enum { TELL_LAST, TELL_VERSION, TELL_BEGIN, TELL };

static bool is_further(const int64_t *one, const int64_t *other) {
    return one[TELL_LAST] != other[TELL_LAST] ? one[TELL_LAST] > other[TELL_LAST]
                                              : one[TELL_VERSION] > other[TELL_VERSION];
}

/* The first server of those that are furthest; -1: none has variables. *behind: of the others, the most. */
static int find_furthest(const int64_t *told, int workers, int size, int64_t *behind) {
    int furthest = -1;
    for (int i = workers; i < size; i++) {
        const int64_t *own = told + (size_t)i * TELL;
        if (own[TELL_VERSION] >= 0 && (furthest < 0 || is_further(own, told + (size_t)furthest * TELL))) furthest = i;
    }
    *behind = 0;
    for (int i = workers; furthest >= 0 && i < size; i++) {
        const int64_t *own = told + (size_t)i * TELL, *best = told + (size_t)furthest * TELL;
        bool same = own[TELL_BEGIN] >= 0 && own[TELL_BEGIN] == best[TELL_BEGIN];
        if (same && best[TELL_VERSION] - own[TELL_VERSION] > *behind) *behind = best[TELL_VERSION] - own[TELL_VERSION];
    }
    return furthest;
}

static struct ls_staged *find_staged(const struct ls_session_server *server, int64_t ticket, int64_t generation) {
    for (int w = 0; w < server->workers && ticket != LS_NO_TICKET; w++)
        if (server->staged[w].ticket == ticket && server->staged[w].generation == generation) return &server->staged[w];
    return NULL;
}

static void give_up(struct ls_session_server *server, const struct ls_session_target *target) {
    if (target->holding) target->holding->version[0] = target->holding->version[1] = -1;
    ls_session_apply_close(server);
}

enum { DECISION_TICKET, DECISION_GENERATION, DECISION_FACTOR, DECISION };

/* decisions: [behind][DECISION] up to the furthest version. A server that lacks a push of them is given up. */
static ls_status go_forward(struct ls_session_server *server, const struct ls_session_target *target, int64_t version,
                            int64_t behind, const int64_t *decisions) {
    ls_status status = LS_OK;
    for (int64_t i = behind - (version - server->state.version); i < behind && !status; i++) {
        const int64_t *decision = decisions + i * DECISION;
        struct ls_staged *staged = find_staged(server, decision[DECISION_TICKET], decision[DECISION_GENERATION]);
        uint32_t bits = (uint32_t)decision[DECISION_FACTOR];
        float factor;
        memcpy(&factor, &bits, sizeof(factor));
        if (!staged) {
            give_up(server, target);
            return LS_OK;
        }
        status = ls_session_apply(server, target, staged, factor);
    }
    return status;
}

/* own, best: what this server and the furthest have told. */
static ls_status follow(struct ls_session_server *server, const struct ls_session_target *target, const int64_t *own,
                        const int64_t *best, int64_t behind, const int64_t *decisions) {
    bool same = own[TELL_BEGIN] >= 0 && own[TELL_BEGIN] == best[TELL_BEGIN];
    ls_status status = LS_OK;
    if (own[TELL_VERSION] >= 0 && same && own[TELL_VERSION] < best[TELL_VERSION])
        status = go_forward(server, target, best[TELL_VERSION], behind, decisions);
    else if (own[TELL_VERSION] != best[TELL_VERSION] || own[TELL_LAST] != best[TELL_LAST])
        give_up(server, target);
    server->last = best[TELL_LAST];
    return status;
}

static void write_decisions(const struct ls_session_server *server, int64_t behind, int64_t *decisions) {
    int64_t first = server->state.version - behind + 1;
    for (int64_t i = 0; i < behind; i++) {
        const struct ls_decided *decided = &server->history[(first + i) % server->workers];
        int64_t *decision = decisions + i * DECISION;
        uint32_t bits;
        memcpy(&bits, &decided->factor, sizeof(bits));
        decision[DECISION_TICKET] = decided->version == first + i ? decided->ticket : LS_NO_TICKET;
        decision[DECISION_GENERATION] = decided->generation;
        decision[DECISION_FACTOR] = (int64_t)bits;
    }
}

static ls_status tell_all(struct ls_group *group, const struct ls_session_server *server,
                          const struct ls_session_target *target, int64_t *told) {
    size_t size = (size_t)ls_group_size(group);
    const int64_t own[TELL] = {server ? server->last : -1, server && target->holding ? target->holding->version[0] : -1,
                               server && server->open ? server->session.begin : -1};
    LS_CLEANUP(ls_free_pointer) size_t *counts = ls_alloc_array(size, sizeof(*counts));
    if (!counts) return ls_fail_memory("versions of parameter servers", size * sizeof(*counts));
    for (size_t i = 0; i < size; i++) counts[i] = TELL;
    return ls_group_all_gather(group, "versions of parameter servers", LS_INT64, own, counts, told);
}

static ls_status hear_decisions(struct ls_session_server *server, struct ls_group *group, int furthest, int64_t behind,
                                int64_t *decisions) {
    if (!behind) return LS_OK;
    if (ls_group_rank(group) == furthest) write_decisions(server, behind, decisions);
    return ls_group_broadcast(group, "decisions on pushes", furthest, LS_INT64, decisions, DECISION * (size_t)behind);
}

ls_status ls_session_server_settle(struct ls_session_server *server, struct ls_group *group,
                                   const struct ls_session_target *target) {
    int size = ls_group_size(group), workers = size - ls_group_serving(group), furthest = -1;
    int64_t behind = 0;
    LS_CLEANUP(ls_free_pointer) int64_t *told = ls_alloc_array((size_t)size * TELL, sizeof(*told));
    if (!told) return ls_fail_memory("versions of parameter servers", (size_t)size * TELL * sizeof(*told));
    ls_status status = tell_all(group, server, target, told);
    if (!status) furthest = find_furthest(told, workers, size, &behind);
    LS_CLEANUP(ls_free_pointer) int64_t *decisions = ls_alloc_array(DECISION * (size_t)behind + 1, sizeof(*decisions));
    if (!decisions) return ls_fail_memory("decisions on pushes", DECISION * (size_t)behind * sizeof(*decisions));
    if (furthest >= 0 && !status) status = hear_decisions(server, group, furthest, behind, decisions);
    if (furthest >= 0 && !status && server)
        status = follow(server, target, told + (size_t)ls_group_rank(group) * TELL, told + (size_t)furthest * TELL,
                        behind, decisions);
    if (server) drop_all(server);
    return status;
}
