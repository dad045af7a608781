/* A worker's part of a session, and what fit makes of its end. */
#include "train/sessions.h"

#include <string.h>

#include "base/memory.h"
#include "base/status.h"
#include "store/session_worker.h"
#include "store/store.h"
#include "store/tickets.h"
#include "train/checkpointing.h"
#include "train/result.h"
#include "train/stored.h"

/* A push brings so many numbers: sums, and requests. */
enum { COUNT = LS_RESULT_NUMBERS + 3 };
_Static_assert((int)COUNT <= (int)LS_SESSION_NUMBERS, "the numbers of a push");

struct ls_sessions {
    struct ls_fitting *fitting;
    struct ls_session session;
    struct ls_session_worker *worker;
    int64_t position, batches; /* of the fit at its begin; of a ticket */
    bool ended;
};

static int64_t end_of(const struct ls_fitting *fitting) {
    int64_t epoch = (fitting->state.epochs + 1) * fitting->steps_per_epoch;
    int64_t saved = ls_checkpointing_next(fitting->checkpointing, fitting->state.position);
    return saved < epoch ? saved : epoch;
}

static struct ls_session describe(const struct ls_fitting *fitting, int64_t batches) {
    const ls_model *model = fitting->model;
    const ls_parameter_server_options *servers = &model->strategy->servers;
    int64_t count = end_of(fitting) - fitting->state.position;
    size_t trained = ls_network_trainable_count(model->built.network);
    return (struct ls_session){.model = model->number,
                               .begin = model->progress.step.iteration,
                               .tickets = (count + batches - 1) / batches,
                               .staleness = servers->staleness ? servers->staleness : -1,
                               .on_stale = servers->on_stale,
                               .max_staleness = servers->max_staleness,
                               .statistics = (int64_t)(model->built.blob_count - trained),
                               .numbers = COUNT,
                               .step = model->progress.step};
}

ls_status ls_sessions_begin(struct ls_fitting *fitting, struct ls_sessions **sessions) {
    ls_model *model = fitting->model;
    struct ls_sessions *made = ls_alloc(sizeof(*made));
    if (!made) return ls_fail_memory("a session of asynchronous training", sizeof(*made));
    *made = (struct ls_sessions){.fitting = fitting,
                                 .position = fitting->state.position,
                                 .batches = model->progress.step.rule.gradient_accumulation_steps};
    if (made->batches < 1) made->batches = 1;
    made->session = describe(fitting, made->batches);
    const struct ls_session_worker_config config = {ls_store_group(model->bound.store),
                                                    ls_store_terms(model->bound.store), &made->session,
                                                    model->built.replicas[0].parameters};
    ls_status status = ls_session_worker_new(&config, &made->worker);
    if (status)
        ls_sessions_free(made);
    else
        *sessions = made;
    return status;
}

static void stand_at(struct ls_sessions *sessions, int64_t tickets) {
    sessions->fitting->state.position = sessions->position + tickets * sessions->batches;
    sessions->fitting->model->progress.step.iteration = sessions->session.begin + tickets;
}

void ls_sessions_free(struct ls_sessions *sessions) {
    if (!sessions) return;
    if (!sessions->ended) stand_at(sessions, 0);
    ls_session_worker_free(sessions->worker);
    ls_free(sessions);
}

ls_status ls_sessions_take(struct ls_sessions *sessions, int64_t *position, bool *over) {
    int64_t ticket = LS_NO_TICKET;
    ls_status status = ls_session_worker_take(sessions->worker, &ticket);
    if (status) return status;
    *over = ticket == LS_NO_TICKET;
    if (!*over) stand_at(sessions, ticket);
    *position = sessions->fitting->state.position;
    return LS_OK;
}

ls_status ls_sessions_give(struct ls_sessions *sessions, const struct ls_loss_sums *sums) {
    const ls_model *model = sessions->fitting->model;
    const struct ls_requests *requests = &model->progress.requests;
    double numbers[COUNT];
    const double last[] = {(double)requests->save, (double)requests->stop, (double)requests->stop_ranks};
    ls_result_write_sums(sums, numbers);
    memcpy(numbers + LS_RESULT_NUMBERS, last, sizeof(last));
    return ls_session_worker_give(sessions->worker, model->progress.step.rule.learning_rate,
                                  model->built.replicas[0].gradients, numbers, requests->save || requests->stop);
}

/* ---- the end ---- */

static void tell_staleness(const struct ls_sessions *sessions, const struct ls_session_totals *totals) {
    const struct ls_runtime *runtime = sessions->fitting->model->strategy->runtime;
    int64_t pushes = totals->applied + totals->dropped;
    char classes[160] = "";
    for (int c = 0; c < LS_STALENESS_CLASSES; c++) {
        size_t used = strlen(classes);
        (void)snprintf(classes + used, sizeof(classes) - used, "%s%lld", c ? " " : "", (long long)totals->classes[c]);
    }
    ls_runtime_tell(
        runtime,
        "%lld pushes: %lld applied, %lld dropped; updates since the variables were read: mean %.2f, at most "
        "%lld; pushes with 0, 1, 2.., 4.., 8.., 16.., 32.., 64..: %s",
        (long long)pushes, (long long)totals->applied, (long long)totals->dropped,
        pushes ? (double)totals->staleness / (double)pushes : 0, (long long)totals->oldest, classes);
}

static void add_result(ls_result *result, const struct ls_session_totals *totals) {
    int64_t before = result->pushes_applied + result->pushes_dropped, now = totals->applied + totals->dropped;
    if (!now) return;
    result->staleness_mean =
        (result->staleness_mean * (double)before + (double)totals->staleness) / (double)(before + now);
    if (totals->oldest > result->staleness_max) result->staleness_max = totals->oldest;
    result->pushes_applied += totals->applied;
    result->pushes_dropped += totals->dropped;
}

static void take_numbers(const struct ls_sessions *sessions, const struct ls_session_totals *totals) {
    struct ls_fit_state *state = &sessions->fitting->state;
    ls_model *model = sessions->fitting->model;
    const double *last = totals->numbers + LS_RESULT_NUMBERS;
    struct ls_loss_sums sums;
    ls_result_read_sums(totals->numbers, &sums);
    ls_op_add_loss_sums(&state->sums, &sums);
    ls_result_means(model, &state->sums, &state->result.loss, &state->result.accuracy, state->result.metrics);
    model->progress.requests = (struct ls_requests){(int64_t)last[0], (int64_t)last[1], (int64_t)last[2]};
    model->progress.request = LS_GO_ON;
    add_result(&state->result, totals);
}

ls_status ls_sessions_end(struct ls_sessions *sessions) {
    struct ls_fitting *fitting = sessions->fitting;
    ls_model *model = fitting->model;
    int64_t tickets;
    const struct ls_session_totals *totals = ls_session_worker_totals(sessions->worker, &tickets);
    stand_at(sessions, 0);
    const struct ls_fit_state before = fitting->state;
    int64_t limit = end_of(fitting);
    stand_at(sessions, tickets);
    if (fitting->state.position > limit) fitting->state.position = limit;
    take_numbers(sessions, totals);
    ls_checkpointing_expect(fitting->checkpointing, before.position, fitting->state.position, &model->progress);
    const struct ls_requests *requests = &model->progress.requests;
    bool wanted = model->progress.keeps && (model->progress.fetches || requests->save || requests->stop);
    ls_status status = ls_stored_fetch(model, wanted && !model->strategy->runtime->rank);
    sessions->ended = !status;
    if (status)
        fitting->state = before;
    else
        tell_staleness(sessions, totals);
    return status;
}
