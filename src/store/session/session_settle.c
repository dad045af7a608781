/* Every server tells how far it is, and the furthest its decisions and its session. */
#include "store/session/session_pushes.h"

#include "base/float_bits.h"
#include "base/new.h"
#include "collective/collectives.h"
#include "store/session/tickets.h"

/* A server that was left out of a generation may have decided in another order than those that were in it: then it
 * counts as one with nothing. The generation of the newest decision tells. */
enum { TELL_LAST, TELL_VERSION, TELL_BEGIN, TELL_JOINED, TELL_DONE, TELL };

static bool is_further(const int64_t *one, const int64_t *other) {
    return one[TELL_LAST] != other[TELL_LAST] ? one[TELL_LAST] > other[TELL_LAST]
                                              : one[TELL_VERSION] > other[TELL_VERSION];
}

/* A server that was not in the last generation that has divided the variables has nothing, also where no decision came
 * in it: those that were there may be behind it, and can no more follow. */
static void forget_absent(int64_t *told, int workers, int size) {
    int64_t done = 0;
    for (int i = workers; i < size; i++)
        if (told[i * TELL + TELL_DONE] > done) done = told[i * TELL + TELL_DONE];
    for (int i = workers; i < size; i++)
        if (told[i * TELL + TELL_JOINED] < done) told[i * TELL + TELL_VERSION] = -1;
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
        bool same = own[TELL_VERSION] >= 0 && own[TELL_BEGIN] >= 0 && own[TELL_BEGIN] == best[TELL_BEGIN];
        if (same && best[TELL_VERSION] - own[TELL_VERSION] > *behind) *behind = best[TELL_VERSION] - own[TELL_VERSION];
    }
    return furthest;
}

static struct ls_staged *find_staged(const struct ls_session_pushes *server, int64_t ticket, int64_t generation) {
    for (int w = 0; w < server->workers && ticket != LS_NO_TICKET; w++)
        if (server->staged[w].ticket == ticket && server->staged[w].generation == generation) return &server->staged[w];
    return NULL;
}

static void give_up(struct ls_session_pushes *server, const struct ls_session_target *target) {
    if (target->holding) target->holding->version[0] = target->holding->version[1] = -1;
    ls_session_pushes_close(server);
}

enum { DECISION_TICKET, DECISION_GENERATION, DECISION_FACTOR, DECISION };

/* decisions: [behind][DECISION] up to the furthest version. A server that lacks a push of them is given up. */
static ls_status go_forward(struct ls_session_pushes *server, const struct ls_session_target *target, int64_t version,
                            int64_t behind, const int64_t *decisions) {
    ls_status status = LS_OK;
    for (int64_t i = behind - (version - server->state.version); i < behind && !status; i++) {
        const int64_t *decision = decisions + i * DECISION;
        struct ls_staged *staged = find_staged(server, decision[DECISION_TICKET], decision[DECISION_GENERATION]);
        float factor = ls_float_bits_value((uint32_t)decision[DECISION_FACTOR]);
        if (!staged) {
            give_up(server, target);
            return LS_OK;
        }
        status = ls_session_pushes_decide(server, target, staged, factor);
    }
    return status;
}

/* own, best: what this server and the furthest have told. */
static ls_status follow(struct ls_session_pushes *server, const struct ls_session_target *target, const int64_t *own,
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

static void write_decisions(const struct ls_session_pushes *server, int64_t behind, int64_t *decisions) {
    int64_t first = server->state.version - behind + 1;
    for (int64_t i = 0; i < behind; i++) {
        const struct ls_decided *decided = &server->history[(first + i) % server->workers];
        int64_t *decision = decisions + i * DECISION;
        decision[DECISION_TICKET] = decided->version == first + i ? decided->ticket : LS_NO_TICKET;
        decision[DECISION_GENERATION] = decided->generation;
        decision[DECISION_FACTOR] = (int64_t)ls_float_bits_of(decided->factor);
    }
}

static ls_status tell_sessions(struct ls_group *group, struct ls_session_pushes *server,
                               const struct ls_session_target *target, int64_t *told) {
    size_t size = (size_t)ls_group_size(group);
    const int64_t own[TELL] = {server ? server->last : -1, server && target->holding ? target->holding->version[0] : -1,
                               server && server->open ? server->session.begin : -1, server ? server->joined : 0,
                               server ? server->done : 0};
    if (server) server->joined = target->generation;
    LS_CLEANUP(ls_free_pointer) LS_NEW_ARRAY(size_t, counts, size, "versions of parameter servers");
    for (size_t i = 0; i < size; i++) counts[i] = TELL;
    return ls_group_all_gather(group, LS_ALL_GATHER("versions of parameter servers", own, told, counts, LS_INT64));
}

static ls_status hear_decisions(struct ls_session_pushes *server, struct ls_group *group, int furthest, int64_t behind,
                                int64_t *decisions) {
    if (!behind) return LS_OK;
    if (ls_group_rank(group) == furthest) write_decisions(server, behind, decisions);
    return ls_group_broadcast(
        group, LS_BROADCAST("decisions on pushes", decisions, DECISION * (size_t)behind, LS_INT64, furthest));
}

static void adopt_session(struct ls_session_pushes *server, const struct ls_session *session,
                          struct ls_session_state *state) {
    ls_session_pushes_close(server);
    server->session = *session;
    server->state = *state;
    server->open = true;
    *state = (struct ls_session_state){0};
}

/* A server that is to get the variables gets the session that has made them first: whoever has all variables knows
 * which tickets are in them. version: of the furthest. */
static ls_status share_session(struct ls_session_pushes *server, struct ls_group *group, int furthest,
                               int64_t version) {
    int64_t words[LS_SESSION_WORDS] = {0};
    struct ls_session session;
    struct ls_session_state state = {0};
    bool gives = ls_group_rank(group) == furthest;
    if (gives) ls_session_encode(&server->session, words);
    ls_status status = ls_group_broadcast(
        group, LS_BROADCAST("the session of variables", words, LS_SESSION_WORDS, LS_INT64, furthest));
    if (!status) status = ls_session_decode(words, &session);
    if (status) return status;
    bool same = server && server->open && ls_session_is(&server->session, &session);
    bool has = gives || (same && server->state.version == version), takes = server && !has;
    if (takes) status = ls_session_state_new(&session, &state);
    if (!status) status = ls_session_state_share(group, &session, has, has ? &server->state : &state);
    if (!status && takes) adopt_session(server, &session, &state);
    ls_session_state_free(&state);
    return status;
}

ls_status ls_session_settle_run(struct ls_session_pushes *server, struct ls_group *group,
                                const struct ls_session_target *target) {
    int size = ls_group_size(group), workers = size - ls_group_serving(group), furthest = -1;
    int64_t behind = 0;
    LS_CLEANUP(ls_free_pointer) LS_NEW_ARRAY(int64_t, told, (size_t)size * TELL, "versions of parameter servers");
    ls_status status = tell_sessions(group, server, target, told);
    if (!status) forget_absent(told, workers, size);
    if (!status) furthest = find_furthest(told, workers, size, &behind);
    LS_CLEANUP(ls_free_pointer) int64_t *decisions = ls_alloc_array(DECISION * (size_t)behind + 1, sizeof(*decisions));
    if (!decisions) return ls_fail_memory("decisions on pushes", DECISION * (size_t)behind * sizeof(*decisions));
    if (furthest >= 0 && !status) status = hear_decisions(server, group, furthest, behind, decisions);
    if (furthest >= 0 && !status && server)
        status = follow(server, target, told + (size_t)ls_group_rank(group) * TELL, told + (size_t)furthest * TELL,
                        behind, decisions);
    const int64_t *best = furthest < 0 ? NULL : told + (size_t)furthest * TELL;
    if (best && !status && best[TELL_BEGIN] >= 0) status = share_session(server, group, furthest, best[TELL_VERSION]);
    return status;
}
