/* A worker asks the first server, and answers what it is told. */
#include "store/session/session_worker.h"

#include <stdio.h>
#include <string.h>

#include "base/new.h"
#include "collective/collectives.h"
#include "shard/layout.h"
#include "store/session/tickets.h"

struct ls_session_worker {
    struct ls_session_worker_config config;
    struct ls_post *post;
    int rank, workers, servers;
    struct ls_layout layout;
    int64_t ticket;    /* the present one */
    int64_t *versions; /* [servers] of the variables that it has read */
    int64_t *pins;     /* [servers] at which it is to read them, where pinned is set */
    bool begun, pinned;
    int64_t ended;
    struct ls_session_totals totals;
};

/* Tells the servers of the session, and gives them the statistics where none of them knows it. */
static ls_status tell_session(const struct ls_session_worker *worker) {
    const struct ls_session *session = worker->config.session;
    int64_t words[LS_SESSION_WORDS];
    struct ls_session told;
    struct ls_session_state state;
    ls_session_encode(session, words);
    ls_status status =
        ls_group_broadcast_directly(worker->config.group, LS_STORE_SESSION, LS_INT64, words, LS_SESSION_WORDS);
    if (!status) status = ls_session_decode(words, &told);
    if (status) return status;
    if (told.begin != session->begin || told.tickets != session->tickets || told.model != session->model)
        return ls_fail(LS_DATA_LOSS, "rank 0 begins %lld tickets after step %lld, and rank %d %lld after step %lld",
                       (long long)told.tickets, (long long)told.begin, worker->rank, (long long)session->tickets,
                       (long long)session->begin);
    status = ls_session_state_new(session, &state);
    if (status) return status;
    memcpy(state.statistics, worker->config.variables + worker->config.terms->count,
           (size_t)session->statistics * sizeof(float));
    status = ls_session_state_share(worker->config.group, session, false, &state);
    ls_session_state_free(&state);
    return status;
}

ls_status ls_session_worker_new(const struct ls_session_worker_config *config, struct ls_session_worker **worker) {
    LS_NEW(struct ls_session_worker, made, "asynchronous training");
    int servers = ls_group_serving(config->group);
    *made = (struct ls_session_worker){.config = *config,
                                       .rank = ls_group_rank(config->group),
                                       .workers = ls_group_size(config->group) - servers,
                                       .servers = servers,
                                       .layout = ls_layout_of(config->terms, servers),
                                       .ticket = LS_NO_TICKET};
    made->versions = ls_alloc_array((size_t)servers, sizeof(*made->versions));
    made->pins = ls_alloc_array((size_t)servers, sizeof(*made->pins));
    ls_status status = made->versions && made->pins
                           ? LS_OK
                           : ls_fail_memory("asynchronous training", (size_t)servers * sizeof(*made->pins));
    if (!status) status = tell_session(made);
    if (!status) status = ls_post_new(config->group, "asynchronous training", &made->post);
    return LS_HAND_OVER(status, worker, made, ls_session_worker_free(made));
}

void ls_session_worker_free(struct ls_session_worker *worker) {
    if (!worker) return;
    ls_post_free(worker->post);
    ls_free(worker->versions);
    ls_free(worker->pins);
    ls_free(worker);
}

/* ---- letters ---- */

static ls_status send_to(const struct ls_session_worker *worker, int server, struct ls_session_head head, void *body,
                         size_t size) {
    unsigned char bytes[LS_POST_HEAD];
    head.begin = worker->config.session->begin;
    ls_session_head_encode(&head, bytes);
    return ls_post_send(worker->post, worker->workers + server, bytes, body, size);
}

static ls_status receive(const struct ls_session_worker *worker, const char *what, struct ls_letter *letter,
                         struct ls_session_head *head) {
    ls_status status = ls_post_await(worker->post, what, letter);
    if (status) return status;
    status = ls_session_head_decode(letter->bytes, worker->config.session, worker->workers + worker->servers, head);
    if (status) status = ls_fail_context(status, "from rank %d", letter->from);
    if (!status && letter->from < worker->workers)
        status = ls_fail(LS_DATA_LOSS, "a letter of asynchronous training came from rank %d, which is no server",
                         letter->from);
    if (!status && head->kind == LS_SESSION_FAILED) status = ls_session_failure(letter);
    if (!status) return LS_OK;
    ls_free(ls_steal(letter->bytes));
    return ls_group_fail(worker->config.group, status);
}

static ls_status fail_letter(const struct ls_session_worker *worker, const struct ls_letter *letter,
                             const struct ls_session_head *head) {
    return ls_group_fail(worker->config.group,
                         ls_fail(LS_DATA_LOSS, "a letter of kind %d with %zu bytes came from rank %d, for ticket %lld",
                                 head->kind, letter->size, letter->from, (long long)head->ticket));
}

/* ---- variables ---- */

/* Copies what one server owns, one range behind the other. Without `to` it only counts. Returns how many floats. */
static size_t copy_ranges(const struct ls_session_worker *worker, int owner, const float *gradients, float *to) {
    const struct ls_terms_model *terms = worker->config.terms;
    size_t floats = 0;
    for (size_t b = 0; b < terms->bucket_count; b++) {
        struct ls_range range = ls_layout_range(&worker->layout, b, owner);
        size_t count = range.end - range.begin;
        if (to && count) memcpy(to + floats, gradients + range.begin, count * sizeof(*to));
        floats += count;
    }
    return floats;
}

static ls_status copy_variables(const struct ls_session_worker *worker, const struct ls_letter *letter,
                                const struct ls_session_head *head) {
    const struct ls_terms_model *terms = worker->config.terms;
    int server = letter->from - worker->workers;
    float *variables = worker->config.variables;
    const unsigned char *at = letter->bytes + LS_POST_HEAD;
    size_t statistics = server ? 0 : (size_t)worker->config.session->statistics;
    size_t floats = copy_ranges(worker, server, NULL, NULL) + statistics;
    if (letter->size != LS_POST_HEAD + floats * sizeof(float)) return fail_letter(worker, letter, head);
    for (size_t b = 0; b < terms->bucket_count; b++) {
        struct ls_range range = ls_layout_range(&worker->layout, b, server);
        size_t size = (range.end - range.begin) * sizeof(float);
        if (size) memcpy(variables + range.begin, at, size);
        at += size;
    }
    if (statistics) memcpy(variables + terms->count, at, statistics * sizeof(float));
    return LS_OK;
}

static ls_status ask_variables(const struct ls_session_worker *worker, int server, int64_t ticket, int64_t version) {
    const struct ls_session_head head = {.kind = LS_SESSION_PULL,
                                         .worker = worker->rank,
                                         .ticket = ticket,
                                         .version = worker->pinned ? worker->pins[server] : version,
                                         .flag = worker->pinned};
    return send_to(worker, server, head, NULL, 0);
}

/* The first server counts who has read where it keeps to a record. */
static ls_status tell_read(const struct ls_session_worker *worker, int server) {
    const struct ls_session_head head = {
        .kind = LS_SESSION_PULLED, .worker = server, .ticket = worker->ticket, .version = worker->versions[server]};
    return worker->pinned ? send_to(worker, 0, head, NULL, 0) : LS_OK;
}

/* From all servers but those before first, at the version or later. */
static ls_status pull(struct ls_session_worker *worker, int first, int64_t version) {
    int64_t ticket = worker->ticket;
    ls_status status = LS_OK;
    int missing = worker->servers - first;
    for (int s = first; s < worker->servers && !status; s++) {
        worker->versions[s] = LS_NO_TICKET;
        status = ask_variables(worker, s, ticket, version);
    }
    for (; missing && !status; missing--) {
        struct ls_letter letter = {0};
        struct ls_session_head head;
        status = receive(worker, "the variables of parameter servers", &letter, &head);
        if (status) return status;
        int server = letter.from - worker->workers;
        if (head.kind != LS_SESSION_RESULT || head.ticket != ticket || head.version < version ||
            worker->versions[server] != LS_NO_TICKET)
            status = fail_letter(worker, &letter, &head);
        if (!status) status = copy_variables(worker, &letter, &head);
        worker->versions[server] = head.version;
        if (!status) status = tell_read(worker, server);
        ls_free(letter.bytes);
    }
    return status;
}

/* ---- tickets ---- */

static ls_status take_totals(struct ls_session_worker *worker, const struct ls_letter *letter,
                             const struct ls_session_head *head) {
    if (letter->size != LS_POST_HEAD + sizeof(worker->totals) || head->ticket < 0)
        return fail_letter(worker, letter, head);
    memcpy(&worker->totals, letter->bytes + LS_POST_HEAD, sizeof(worker->totals));
    worker->ended = head->ticket;
    worker->ticket = LS_NO_TICKET;
    worker->pinned = false;
    return pull(worker, 0, head->version);
}

static ls_status take_grant(struct ls_session_worker *worker, const struct ls_letter *letter,
                            const struct ls_session_head *head) {
    if (head->ticket < 0 || head->ticket >= worker->config.session->tickets) return fail_letter(worker, letter, head);
    ls_status status = copy_variables(worker, letter, head);
    worker->ticket = head->ticket;
    worker->versions[0] = head->version;
    if (!status) status = pull(worker, 1, head->version);
    worker->pinned = false;
    return status;
}

static ls_status take_pin(struct ls_session_worker *worker, const struct ls_letter *letter,
                          const struct ls_session_head *head) {
    size_t size = (size_t)worker->servers * sizeof(*worker->pins);
    if (letter->size != LS_POST_HEAD + size) return fail_letter(worker, letter, head);
    memcpy(worker->pins, letter->bytes + LS_POST_HEAD, size);
    worker->pinned = true;
    return LS_OK;
}

/* *more: another letter of the first server follows. */
static ls_status take_reply(struct ls_session_worker *worker, const struct ls_letter *letter,
                            const struct ls_session_head *head, bool *more) {
    *more = head->kind == LS_SESSION_PIN;
    if (letter->from != worker->workers) return fail_letter(worker, letter, head);
    if (head->kind == LS_SESSION_PIN) return take_pin(worker, letter, head);
    if (head->kind == LS_SESSION_GRANT) return take_grant(worker, letter, head);
    return head->kind == LS_SESSION_END ? take_totals(worker, letter, head) : fail_letter(worker, letter, head);
}

ls_status ls_session_worker_take(struct ls_session_worker *worker, int64_t *ticket) {
    const struct ls_session_head ask = {LS_SESSION_ASK, worker->rank, .ticket = LS_NO_TICKET,
                                        .version = worker->config.session->begin};
    char what[80];
    (void)snprintf(what, sizeof(what), "a ticket of the parameter server with rank %d", worker->workers);
    ls_status status = worker->begun ? LS_OK : send_to(worker, 0, ask, NULL, 0);
    worker->begun = true;
    for (bool more = true; more && !status;) {
        struct ls_letter letter = {0};
        struct ls_session_head head;
        status = receive(worker, what, &letter, &head);
        if (!status) status = take_reply(worker, &letter, &head, &more);
        ls_free(letter.bytes);
    }
    if (!status) *ticket = worker->ticket;
    return status;
}

/* ---- pushes ---- */

/* Copies what the server owns, and then that of which it has a copy, as struct ls_holding lists it. */
static size_t copy_held(const struct ls_session_worker *worker, int server, const float *gradients, float *to) {
    size_t floats = 0;
    for (int c = 0; c < worker->layout.copies; c++)
        floats += copy_ranges(worker, ls_layout_before(&worker->layout, server, c), gradients, to ? to + floats : NULL);
    return floats;
}

static ls_status push_to(const struct ls_session_worker *worker, int server, const struct ls_session_head *head,
                         const float *gradients, const double *numbers) {
    const struct ls_session *session = worker->config.session;
    size_t floats = copy_held(worker, server, gradients, NULL), statistics = (size_t)session->statistics;
    size_t size = (floats + statistics) * sizeof(float), numbered = (size_t)session->numbers * sizeof(double);
    size_t versions = server ? 0 : (size_t)worker->servers * sizeof(*worker->versions);
    unsigned char *body = ls_alloc_aligned(size + numbered + versions + 1);
    if (!body) return ls_fail_memory("gradients on their way to a parameter server", size + numbered);
    (void)copy_held(worker, server, gradients, (float *)(void *)body);
    memcpy(body + floats * sizeof(float), gradients + worker->config.terms->count, statistics * sizeof(float));
    memcpy(body + size, numbers, numbered);
    memcpy(body + size + numbered, worker->versions, versions);
    return send_to(worker, server, *head, body, size + numbered + versions);
}

ls_status ls_session_worker_give(struct ls_session_worker *worker, float rate, const float *gradients,
                                 const double *numbers, bool closes) {
    const struct ls_session_head head = {.kind = LS_SESSION_PUSH,
                                         .worker = worker->rank,
                                         .ticket = worker->ticket,
                                         .version = worker->versions[0],
                                         .value = rate,
                                         .flag = closes};
    ls_status status = LS_OK;
    for (int s = worker->servers - 1; s >= 0 && !status; s--) status = push_to(worker, s, &head, gradients, numbers);
    return status ? ls_group_fail(worker->config.group, status) : LS_OK;
}

const struct ls_session_totals *ls_session_worker_totals(const struct ls_session_worker *worker, int64_t *ended) {
    *ended = worker->ended;
    return &worker->totals;
}
