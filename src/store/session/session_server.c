/* A server's loop in a session: it answers letters until all workers have the last variables. The first server also
 * gives the tickets, and decides. */
#include "store/session/session_pushes.h"

#include <stdio.h>
#include <string.h>

#include "base/clock.h"
#include "base/deadlines.h"
#include "base/kept_error.h"
#include "base/memory.h"
#include "store/session/session_record.h"
#include "store/session/session_waits.h"
#include "store/session/tickets.h"

/* A worker that reads, when there is a version. */
struct reader {
    bool waits, last, exactly;
    int64_t ticket, version;
};
struct run {
    struct ls_session_pushes *server;
    const struct ls_session_target *target;
    struct ls_group *group;
    struct ls_post *post;
    int workers, servers, own; /* own: its number among the servers */
    size_t floats;             /* of a push */
    struct reader *readers;    /* [workers] */
    int served;                /* workers that have the last variables */
    bool ended;
    /* the first server's */
    struct ls_tickets *tickets;
    int *staged;       /* [workers] servers that have its push */
    bool *told;        /* [workers][servers] which ones */
    int64_t *versions; /* [servers] */
    struct ls_session_record record;
    struct ls_session_replay *replay;
    struct ls_session_waits waits;
};

/* Bytes of a push, its head included. To the first server it brings the versions that were read. */
static size_t push_size(const struct run *run) {
    const struct ls_session *session = &run->server->session;
    size_t floats = run->floats + (size_t)session->statistics, versions = run->own ? 0 : (size_t)run->servers;
    return LS_POST_HEAD + floats * sizeof(float) + (size_t)session->numbers * sizeof(double) +
           versions * sizeof(int64_t);
}

static bool is_first(const struct run *run) {
    return run->own == 0;
}

static struct ls_session_head head_of(const struct run *run, enum ls_session_kind kind, int worker, int64_t ticket) {
    return (struct ls_session_head){.kind = (int32_t)kind,
                                    .worker = worker,
                                    .begin = run->server->session.begin,
                                    .ticket = ticket,
                                    .version = run->server->state.version};
}

static ls_status send_head(const struct run *run, int to, const struct ls_session_head *head, void *body, size_t size) {
    unsigned char bytes[LS_POST_HEAD];
    ls_session_head_encode(head, bytes);
    return ls_post_send(run->post, to, bytes, body, size);
}

/* ---- variables ---- */

/* The own ranges, and of the first server statistics. */
static ls_status send_variables(const struct run *run, enum ls_session_kind kind, int worker, int64_t ticket) {
    const struct ls_holding *holding = run->target->holding;
    size_t buckets = run->target->terms->bucket_count, statistics = (size_t)run->server->session.statistics, count = 0;
    for (size_t b = 0; b < buckets; b++) count += holding->held[b].range.end - holding->held[b].range.begin;
    count += is_first(run) ? statistics : 0;
    float *body = ls_alloc_aligned((count + 1) * sizeof(*body)), *at = body;
    if (!body) return ls_fail_memory("variables on their way to a worker", count * sizeof(*body));
    for (size_t b = 0; b < buckets; b++) {
        const struct ls_held *held = &holding->held[b];
        size_t own = held->range.end - held->range.begin;
        memcpy(at, holding->blobs[0][0] + held->at, own * sizeof(*at));
        at += own;
    }
    if (is_first(run)) memcpy(at, run->server->state.statistics, statistics * sizeof(*at));
    const struct ls_session_head head = head_of(run, kind, worker, ticket);
    return send_head(run, worker, &head, body, count * sizeof(*body));
}

static ls_status serve_readers(struct run *run) {
    ls_status status = LS_OK;
    for (int w = 0; w < run->workers && !status; w++) {
        struct reader *reader = &run->readers[w];
        if (!reader->waits || run->server->state.version < reader->version) continue;
        if (reader->exactly && run->server->state.version > reader->version)
            return ls_fail(LS_DATA_LOSS, "LOCKSTEP_REPLAY: rank %d reads at step %lld, and the variables are at %lld",
                           w, (long long)reader->version, (long long)run->server->state.version);
        reader->waits = false;
        run->served += reader->last;
        status = send_variables(run, LS_SESSION_RESULT, w, reader->ticket);
    }
    return status;
}

/* ---- the first server ---- */

static ls_status send_grant(const struct run *run, int worker, int64_t ticket) {
    run->waits.since[worker] = ls_now();
    return send_variables(run, LS_SESSION_GRANT, worker, ticket);
}

static ls_status give_tickets(struct run *run) {
    int worker;
    int64_t ticket;
    ls_status status = LS_OK;
    while (!status && ls_tickets_give(run->tickets, &worker, &ticket)) status = send_grant(run, worker, ticket);
    return status;
}

static ls_status send_end(const struct run *run, int to) {
    const struct ls_session_head head = head_of(run, LS_SESSION_END, 0, ls_tickets_end(run->tickets));
    size_t size = to < run->workers ? sizeof(struct ls_session_totals) : 0;
    struct ls_session_totals *totals = size ? ls_alloc(size) : NULL;
    if (size && !totals) return ls_fail_memory("a session's end", size);
    if (totals) *totals = run->server->state.totals;
    return send_head(run, to, &head, totals, size);
}

static ls_status send_order(const struct run *run, int worker, int64_t ticket, float factor) {
    struct ls_session_head head = head_of(run, LS_SESSION_ORDER, worker, ticket);
    ls_status status = LS_OK;
    head.version++;
    head.value = factor;
    for (int s = 1; s < run->servers && !status; s++) status = send_head(run, run->workers + s, &head, NULL, 0);
    return status;
}

static void ask_for_ticket(struct run *run, int worker) {
    run->waits.since[worker] = ls_now();
    ls_tickets_ask(run->tickets, worker);
}

static ls_status decide(struct run *run, int worker, float factor) {
    struct ls_staged *staged = &run->server->staged[worker];
    size_t versions = (size_t)run->servers * sizeof(*run->versions);
    memcpy(run->versions, staged->bytes + push_size(run) - versions, versions);
    ls_status status = ls_session_record_add(&run->record, staged->ticket, factor, run->versions);
    if (!status) status = send_order(run, worker, staged->ticket, factor);
    if (!status) status = ls_session_pushes_decide(run->server, run->target, staged, factor);
    if (status) return status;
    run->staged[worker] = 0;
    memset(run->told + (size_t)worker * (size_t)run->servers, 0, (size_t)run->servers * sizeof(*run->told));
    ls_tickets_finish(run->tickets, worker);
    ask_for_ticket(run, worker);
    return LS_OK;
}

static ls_status decide_staged(struct run *run) {
    ls_status status = LS_OK;
    for (int w = 0; w < run->workers && !status; w++) {
        const struct ls_staged *staged = &run->server->staged[w];
        if (run->staged[w] == run->servers)
            status =
                decide(run, w, ls_session_factor(&run->server->session, run->server->state.version - staged->version));
    }
    return status;
}

/* ---- the order of a record ---- */

static ls_status send_pin(const struct run *run, int worker, int64_t ticket) {
    const struct ls_session_head head = head_of(run, LS_SESSION_PIN, worker, ticket);
    size_t size = (size_t)run->servers * sizeof(*run->versions);
    int64_t *body = ls_alloc(size);
    if (!body) return ls_fail_memory("versions to be read", size);
    memcpy(body, run->versions, size);
    return send_head(run, worker, &head, body, size);
}

static ls_status give_recorded(struct run *run) {
    int64_t version = run->server->state.version, ticket;
    int worker;
    ls_status status = LS_OK;
    while (!status && (ticket = ls_session_replay_next(run->replay, version, run->versions)) != LS_NO_TICKET &&
           ls_tickets_give_this(run->tickets, ticket, &worker)) {
        (void)ls_session_replay_read(run->replay, ticket, 0, version);
        status = send_pin(run, worker, ticket);
        if (!status) status = send_grant(run, worker, ticket);
    }
    return status;
}

static int find_staged_worker(const struct run *run, int64_t ticket) {
    for (int w = 0; w < run->workers; w++)
        if (run->staged[w] == run->servers && run->server->staged[w].ticket == ticket) return w;
    return -1;
}

static ls_status follow_record(struct run *run) {
    ls_status status = LS_OK;
    for (int worker = 0; worker >= 0 && !status;) {
        int64_t ticket;
        float factor = 0;
        status = give_recorded(run);
        bool may = !status && ls_session_replay_may(run->replay, run->server->state.version, &ticket, &factor);
        worker = may ? find_staged_worker(run, ticket) : -1;
        if (worker >= 0) status = decide(run, worker, factor);
    }
    return status;
}

/* ---- going on ---- */

static ls_status end_session(struct run *run) {
    ls_status status = LS_OK;
    run->ended = true;
    for (int i = 0; i < run->workers + run->servers && !status; i++)
        if (i != run->workers) status = send_end(run, i);
    return status;
}

/* The first server decides, gives tickets, and ends the session where it can. */
static ls_status go_on(struct run *run) {
    ls_status status = run->replay ? follow_record(run) : decide_staged(run);
    if (run->server->state.closing && !run->replay) ls_tickets_close(run->tickets);
    if (!status && !run->replay) status = give_tickets(run);
    if (!status && !run->ended && ls_tickets_are_over(run->tickets)) status = end_session(run);
    return status ? status : serve_readers(run);
}

/* ---- letters ---- */

static ls_status refuse_letter(const struct run *run, int from, const struct ls_session_head *head) {
    return ls_fail(LS_DATA_LOSS,
                   "a letter of kind %d came from rank %d, for ticket %lld at step %lld: it is not its turn",
                   head->kind, from, (long long)head->ticket, (long long)run->server->state.version);
}

/* Another server has it too. */
static ls_status count_staged(struct run *run, int server, const struct ls_session_head *head, int worker) {
    bool *told = run->told + (size_t)worker * (size_t)run->servers + server;
    if (*told) return refuse_letter(run, run->workers + server, head);
    *told = true;
    run->staged[worker]++;
    return go_on(run);
}

static ls_status take_ask(struct run *run, int from, const struct ls_session_head *head) {
    bool asks = is_first(run) && ls_tickets_of(run->tickets, from) == LS_NO_TICKET;
    if (!asks || ls_tickets_asks(run->tickets, from)) return refuse_letter(run, from, head);
    ask_for_ticket(run, from);
    return go_on(run);
}

static ls_status take_pull(struct run *run, int from, const struct ls_session_head *head) {
    struct reader *reader = &run->readers[from];
    if (reader->waits || reader->last) return refuse_letter(run, from, head);
    *reader = (struct reader){true, head->ticket == LS_NO_TICKET, head->flag, head->ticket, head->version};
    return serve_readers(run);
}

/* A worker that pushes has read at that version or a later one here, too. */
static ls_status take_push(struct run *run, struct ls_letter *letter, const struct ls_session_head *head) {
    struct ls_staged *staged = &run->server->staged[letter->from];
    const struct ls_session *session = &run->server->session;
    bool granted = !is_first(run) || ls_tickets_of(run->tickets, letter->from) == head->ticket;
    bool fits = head->ticket >= 0 && head->ticket < session->tickets && staged->ticket == LS_NO_TICKET &&
                !(run->server->state.done[head->ticket / 64] >> head->ticket % 64 & 1);
    if (!granted || !fits || head->version > run->server->state.version || letter->size != push_size(run))
        return refuse_letter(run, letter->from, head);
    *staged = (struct ls_staged){.ticket = head->ticket,
                                 .version = head->version,
                                 .generation = run->target->generation,
                                 .rate = head->value,
                                 .closes = head->flag,
                                 .bytes = ls_steal(letter->bytes)};
    if (is_first(run)) return count_staged(run, 0, head, letter->from);
    struct ls_session_head told = *head;
    told.kind = LS_SESSION_STAGED;
    told.worker = letter->from;
    return send_head(run, run->workers, &told, NULL, 0);
}

static ls_status take_pulled(struct run *run, int from, const struct ls_session_head *head) {
    bool known = is_first(run) && run->replay && ls_tickets_of(run->tickets, from) == head->ticket;
    if (!known || !ls_session_replay_read(run->replay, head->ticket, head->worker, head->version))
        return refuse_letter(run, from, head);
    return go_on(run);
}

/* The push itself may come later than the news of it. */
static ls_status take_staged(struct run *run, int from, const struct ls_session_head *head) {
    bool known = is_first(run) && head->worker < run->workers &&
                 ls_tickets_of(run->tickets, head->worker) == head->ticket && head->ticket != LS_NO_TICKET;
    return known ? count_staged(run, from - run->workers, head, head->worker) : refuse_letter(run, from, head);
}

static ls_status take_order(struct run *run, int from, const struct ls_session_head *head) {
    struct ls_staged *staged = head->worker < run->workers ? &run->server->staged[head->worker] : NULL;
    if (from != run->workers || !staged || staged->ticket != head->ticket || head->ticket == LS_NO_TICKET ||
        head->version != run->server->state.version + 1)
        return refuse_letter(run, from, head);
    ls_status status = ls_session_pushes_decide(run->server, run->target, staged, head->value);
    return status ? status : serve_readers(run);
}

static ls_status take_end(struct run *run, int from, const struct ls_session_head *head) {
    if (from != run->workers || head->version != run->server->state.version) return refuse_letter(run, from, head);
    run->ended = true;
    return LS_OK;
}

static ls_status take_letter(struct run *run, struct ls_letter *letter) {
    struct ls_session_head head;
    int from = letter->from, size = run->workers + run->servers;
    ls_status status = ls_session_head_decode(letter->bytes, &run->server->session, size, &head);
    if (status) return ls_fail_context(status, "from rank %d", from);
    bool works = from < run->workers;
    if (!works && head.kind == LS_SESSION_FAILED) return ls_session_failure(letter);
    if (works && head.kind == LS_SESSION_ASK) return take_ask(run, from, &head);
    if (works && head.kind == LS_SESSION_PULL) return take_pull(run, from, &head);
    if (works && head.kind == LS_SESSION_PUSH) return take_push(run, letter, &head);
    if (works && head.kind == LS_SESSION_PULLED) return take_pulled(run, from, &head);
    if (!works && head.kind == LS_SESSION_STAGED) return take_staged(run, from, &head);
    if (!works && head.kind == LS_SESSION_ORDER) return take_order(run, from, &head);
    if (!works && head.kind == LS_SESSION_END) return take_end(run, from, &head);
    return refuse_letter(run, from, &head);
}

/* ---- the whole ---- */

static bool has_ended(const struct run *run) {
    return run->ended && run->served == run->workers;
}

static ls_status answer_letters(struct run *run) {
    ls_status status = is_first(run) ? go_on(run) : LS_OK;
    while (!status && !has_ended(run)) {
        struct ls_letter letter = {0};
        bool found;
        int64_t until = ls_now() + LS_SECOND, due = is_first(run) ? run->waits.due : until;
        status = ls_post_next(run->post, ls_deadline_earlier(due, until), &letter, &found);
        if (!status && found) status = take_letter(run, &letter);
        if (is_first(run))
            ls_session_waits_tell(&run->waits, run->tickets, run->staged, run->servers, run->target->log);
        ls_free(letter.bytes);
    }
    return status ? status : ls_post_flush(run->post);
}

static ls_status open_run(struct run *run, const struct ls_session *session) {
    struct ls_session_pushes *server = run->server;
    size_t workers = (size_t)run->workers;
    run->readers = ls_alloc_array(workers, sizeof(*run->readers));
    run->staged = ls_alloc_array(workers, sizeof(*run->staged));
    run->told = ls_alloc_array(workers * (size_t)run->servers, sizeof(*run->told));
    run->versions = ls_alloc_array((size_t)run->servers, sizeof(*run->versions));
    run->waits.since = ls_alloc_array(workers, sizeof(*run->waits.since));
    if (!run->readers || !run->staged || !run->told || !run->versions || !run->waits.since)
        return ls_fail_memory("a session", workers * sizeof(*run->readers));
    run->floats = ls_session_pushes_floats(run->target);
    ls_status status = ls_session_pushes_prepare(server, run->workers);
    if (!status) status = ls_post_new(run->group, "asynchronous training", &run->post);
    if (status || !is_first(run)) return status;
    run->waits.workers = run->workers;
    run->waits.interval = ls_post_report_interval(run->post);
    run->waits.due = ls_deadline_in(run->waits.interval);
    status = ls_tickets_new(session->tickets, server->state.done, run->workers, session->staleness, &run->tickets);
    if (!status)
        status = ls_session_record_open(run->target->record, session, run->servers, run->workers, server->state.version,
                                        &run->record);
    if (!status)
        status = ls_session_replay_open(run->target->replay, session, run->servers, run->workers, &run->replay);
    return status;
}

/* A server that ends sooner would be one that is lost. */
static void wait_for_others(const struct run *run) {
    int64_t until = ls_now() + LS_LAST_WORD_TIMEOUT;
    ls_status status = LS_OK;
    while (!status && ls_now() < until) {
        struct ls_letter letter = {0};
        bool found;
        status = ls_post_next(run->post, until, &letter, &found);
        ls_free(letter.bytes);
    }
}

/* The others wait for letters. A loss they find themselves. */
static void tell_failure(struct run *run, ls_status status) {
    struct ls_kept_error kept = ls_kept_error_of(status);
    const struct ls_session_head head = head_of(run, LS_SESSION_FAILED, 0, LS_NO_TICKET);
    size_t length = strlen(kept.message);
    bool told = status != LS_UNAVAILABLE && status != LS_CANCELLED && run->post;
    for (int i = 0; i < run->workers + run->servers && told; i++) {
        unsigned char *body = i == run->workers + run->own ? NULL : ls_alloc(length + 1);
        if (!body) continue;
        body[0] = (unsigned char)status;
        memcpy(body + 1, kept.message, length);
        (void)send_head(run, i, &head, body, length + 1);
    }
    if (told && !ls_post_flush(run->post)) wait_for_others(run);
    (void)ls_kept_error_raise(&kept);
}

static ls_status close_run(struct run *run, ls_status status) {
    if (status) tell_failure(run, status);
    struct ls_kept_error kept = ls_kept_error_of(status);
    ls_kept_error_first(&kept, ls_session_record_close(&run->record));
    ls_post_free(run->post);
    ls_session_replay_free(run->replay);
    ls_free(run->waits.since);
    ls_free(run->versions);
    ls_tickets_free(run->tickets);
    ls_free(run->readers);
    ls_free(run->staged);
    ls_free(run->told);
    return ls_kept_error_raise(&kept);
}

/* The session of the generation before goes on if it is the same. A loss in between leaves it as it is: the variables
 * have its steps. */
static ls_status open_session(struct ls_session_pushes *server, struct ls_group *group,
                              const struct ls_session *session) {
    bool has = server->open && ls_session_is(&server->session, session);
    ls_status status = LS_OK;
    if (!has) ls_session_pushes_close(server);
    if (!has) status = ls_session_state_new(session, &server->state);
    server->session = *session;
    if (!status) status = ls_session_state_share(group, session, has, &server->state);
    server->open = has || !status;
    if (!server->open) ls_session_pushes_close(server);
    return status;
}

ls_status ls_session_server_run(struct ls_session_pushes *server, struct ls_group *group,
                                const struct ls_session *session, const struct ls_session_target *target) {
    int servers = ls_group_serving(group), workers = ls_group_size(group) - servers;
    struct run run = {.server = server,
                      .target = target,
                      .group = group,
                      .workers = workers,
                      .servers = servers,
                      .own = ls_group_rank(group) - workers};
    ls_status status = open_session(server, group, session);
    if (!status && server->state.version != target->holding->version[0])
        status = ls_fail(LS_DATA_LOSS, "a session stands at step %lld, and the variables at %lld",
                         (long long)server->state.version, (long long)target->holding->version[0]);
    if (!status) status = open_run(&run, session);
    if (!status) status = answer_letters(&run);
    return close_run(&run, status);
}
