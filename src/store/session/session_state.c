/* One broadcast, where somebody lacks the state. */
#include "store/session/session.h"

#include <string.h>

#include "base/new.h"
#include "collective/collectives.h"

static size_t words_for(const struct ls_session *session) {
    return ((size_t)session->tickets + 63) / 64;
}

ls_status ls_session_state_new(const struct ls_session *session, struct ls_session_state *state) {
    *state = (struct ls_session_state){.version = session->begin};
    state->done = ls_alloc_array(words_for(session), sizeof(*state->done));
    state->statistics = ls_alloc_array((size_t)session->statistics + 1, sizeof(*state->statistics));
    if (state->done && state->statistics) return LS_OK;
    ls_session_state_free(state);
    return ls_fail_memory("a session of asynchronous training", words_for(session) * sizeof(*state->done));
}

void ls_session_state_free(struct ls_session_state *state) {
    ls_free(ls_steal(state->done));
    ls_free(ls_steal(state->statistics));
}

/* The rank that gives; -1: every server has it. */
static ls_status find_giver(struct ls_group *group, bool has, int *giver) {
    int size = ls_group_size(group), servers = ls_group_serving(group);
    int64_t own = has;
    LS_CLEANUP(ls_free_pointer) size_t *counts = ls_alloc_array((size_t)size, sizeof(*counts));
    LS_CLEANUP(ls_free_pointer) int64_t *told = ls_alloc_array((size_t)size, sizeof(*told));
    if (!counts || !told) return ls_fail_memory("a session's servers", (size_t)size * sizeof(*told));
    for (int i = 0; i < size; i++) counts[i] = 1;
    ls_status status = ls_group_all_gather(group, LS_ALL_GATHER("who knows the session", &own, told, counts, LS_INT64));
    bool lacks = false;
    *giver = 0;
    for (int i = size - 1; i >= size - servers; i--) {
        if (told[i])
            *giver = i;
        else
            lacks = true;
    }
    if (!lacks) *giver = -1;
    return status;
}

enum { HEAD_VERSION, HEAD_CLOSING, HEAD };
#define TOTALS (sizeof(struct ls_session_totals) / sizeof(int64_t))

static void write_state(const struct ls_session *session, const struct ls_session_state *state, int64_t *words) {
    words[HEAD_VERSION] = state->version;
    words[HEAD_CLOSING] = state->closing;
    memcpy(words + HEAD, &state->totals, sizeof(state->totals));
    memcpy(words + HEAD + TOTALS, state->done, words_for(session) * sizeof(*words));
    memcpy(words + HEAD + TOTALS + words_for(session), state->statistics, (size_t)session->statistics * sizeof(float));
}

static ls_status read_state(const struct ls_session *session, const int64_t *words, struct ls_session_state *state) {
    int64_t version = words[HEAD_VERSION];
    if (version < session->begin || version > session->begin + session->tickets || words[HEAD_CLOSING] < 0 ||
        words[HEAD_CLOSING] > 1)
        return ls_fail(LS_DATA_LOSS, "a server tells of a session that stands at step %lld, from %lld on",
                       (long long)version, (long long)session->begin);
    state->version = version;
    state->closing = words[HEAD_CLOSING];
    memcpy(&state->totals, words + HEAD, sizeof(state->totals));
    memcpy(state->done, words + HEAD + TOTALS, words_for(session) * sizeof(*words));
    memcpy(state->statistics, words + HEAD + TOTALS + words_for(session), (size_t)session->statistics * sizeof(float));
    return LS_OK;
}

ls_status ls_session_state_share(struct ls_group *group, const struct ls_session *session, bool has,
                                 struct ls_session_state *state) {
    int giver = -1, rank = ls_group_rank(group);
    size_t count = HEAD + TOTALS + words_for(session) + ((size_t)session->statistics + 1) / 2;
    ls_status status = find_giver(group, has, &giver);
    if (status || giver < 0) return status;
    LS_CLEANUP(ls_free_pointer) LS_NEW_ARRAY(int64_t, words, count, "a session's state");
    if (rank == giver) write_state(session, state, words);
    status = ls_group_broadcast(group, LS_BROADCAST("a session's state", words, count, LS_INT64, giver));
    bool takes = rank >= ls_group_size(group) - ls_group_serving(group) && !has;
    return status || !takes ? status : read_state(session, words, state);
}
