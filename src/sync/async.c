/* Asynchronous training in fit: sessions of tickets (store/session/session.h). All workers meet at the end of a
 * session: of an epoch, where a checkpoint is due, and where somebody has asked to save or to stop. A session is one
 * transaction of a fit; the servers know which of its tickets are done, so that a worker that is lost, or comes back,
 * repeats none. */
#include "sync/sync.h"

#include <string.h>

#include "base/clock.h"
#include "base/new.h"
#include "base/point.h"
#include "store/session/session_worker.h"
#include "store/store.h"
#include "store/session/tickets.h"
#include "strategy/iterator.h"
#include "train/checkpointing.h"
#include "train/fit.h"
#include "train/input.h"
#include "train/training_state.h"
#include "train/step.h"
#include "train/stored.h"

_Static_assert((int)LS_FIT_NUMBERS <= (int)LS_SESSION_NUMBERS, "the numbers of a push");

struct sessions {
    struct ls_fitting *fitting;
    struct ls_session session;
    struct ls_session_worker *worker;
    int64_t position, batches; /* of the fit at its begin; of a ticket */
    ls_request asked;          /* by this worker, with a push that may be lost */
    bool ended;
};

static int64_t border_of(const struct ls_fitting *fitting) {
    int64_t epoch = ls_fit_epoch_end(fitting);
    int64_t saved = ls_checkpointing_next(fitting->checkpointing, fitting->state.position);
    return saved < epoch ? saved : epoch;
}

static struct ls_session describe(const struct ls_fitting *fitting, int64_t batches) {
    const ls_model *model = fitting->model;
    const ls_parameter_server_options *servers = &model->strategy->servers;
    int64_t count = border_of(fitting) - fitting->state.position;
    size_t trained = ls_network_trainable_count(model->built.network);
    return (struct ls_session){.model = model->number,
                               .begin = model->progress.step.iteration,
                               .tickets = (count + batches - 1) / batches,
                               .staleness = servers->staleness ? servers->staleness : -1,
                               .on_stale = servers->on_stale,
                               .max_staleness = servers->max_staleness,
                               .statistics = (int64_t)(model->built.summed_count - trained),
                               .numbers = LS_FIT_NUMBERS,
                               .step = model->progress.step};
}

static void stand_at(struct sessions *sessions, int64_t tickets) {
    sessions->fitting->state.position = sessions->position + tickets * sessions->batches;
    sessions->fitting->model->progress.step.iteration = sessions->session.begin + tickets;
}

/* The model stands where it did when the session began, but for the variables, and asks again. */
static void give_up(struct sessions *sessions) {
    struct ls_model_progress *progress = &sessions->fitting->model->progress;
    stand_at(sessions, 0);
    ls_reached("undo");
    if (sessions->asked > progress->request) progress->request = sessions->asked;
}

static void free_sessions(struct sessions *sessions) {
    if (!sessions) return;
    if (!sessions->ended) give_up(sessions);
    ls_session_worker_free(sessions->worker);
    ls_free(sessions);
}

static ls_status begin(struct ls_fitting *fitting, struct sessions **sessions) {
    ls_model *model = fitting->model;
    LS_NEW(struct sessions, made, "a session of asynchronous training");
    *made = (struct sessions){.fitting = fitting,
                              .position = fitting->state.position,
                              .batches = model->progress.step.rule.gradient_accumulation_steps};
    if (made->batches < 1) made->batches = 1;
    made->session = describe(fitting, made->batches);
    const struct ls_session_worker_config config = {ls_store_group(model->bound.store),
                                                    ls_store_terms(model->bound.store), &made->session,
                                                    model->built.replicas[0].parameters};
    ls_status status = ls_session_worker_new(&config, &made->worker);
    return LS_HAND_OVER(status, sessions, made, free_sessions(made));
}

/* Waits for a ticket of this worker's. *over: the session has ended, and all workers have the same variables. */
static ls_status take(struct sessions *sessions, bool *over) {
    int64_t ticket = LS_NO_TICKET;
    ls_status status = ls_session_worker_take(sessions->worker, &ticket);
    if (status) return status;
    *over = ticket == LS_NO_TICKET;
    if (!*over) stand_at(sessions, ticket);
    return LS_OK;
}

static ls_status give(struct sessions *sessions, const struct ls_loss_sums *sums) {
    const ls_model *model = sessions->fitting->model;
    const struct ls_requests *requests = &model->progress.requests;
    double numbers[LS_FIT_NUMBERS];
    ls_fit_numbers_write(sums, requests, numbers);
    if (requests->save && !sessions->asked) sessions->asked = LS_SAVE;
    if (requests->stop) sessions->asked = LS_STOP;
    return ls_session_worker_give(sessions->worker, model->progress.step.rule.learning_rate,
                                  model->built.replicas[0].gradients, numbers, requests->save || requests->stop);
}

/* ---- the end ---- */

static void tell_staleness(const struct sessions *sessions, const struct ls_session_totals *totals) {
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

static void tell_activity(const ls_model *model, const struct ls_session_totals *totals) {
    struct ls_activity *activity = &model->strategy->runtime->activity;
    ls_activity_add(&activity->applied, totals->applied);
    ls_activity_add(&activity->dropped, totals->dropped);
    ls_activity_add(&activity->staleness, totals->staleness);
}

/* The fit and the model stand behind all that the session has trained. */
static ls_status finish(struct sessions *sessions) {
    struct ls_fitting *fitting = sessions->fitting;
    ls_model *model = fitting->model;
    int64_t tickets;
    const struct ls_session_totals *totals = ls_session_worker_totals(sessions->worker, &tickets);
    stand_at(sessions, 0);
    const struct ls_fit_state before = fitting->state;
    const struct ls_requests asked_before = model->progress.requests;
    int64_t end = ls_fit_epoch_end(fitting);
    stand_at(sessions, tickets);
    if (fitting->state.position > end) fitting->state.position = end; /* there the last ticket has fewer batches */
    ls_fit_numbers_take(fitting, totals->numbers);
    add_result(&fitting->state.result, totals);
    ls_checkpointing_expect(fitting->checkpointing, before.position, fitting->state.position, &model->progress);
    const struct ls_requests *requests = &model->progress.requests;
    bool wanted = model->progress.keeps && (model->progress.fetches || requests->save || requests->stop);
    ls_status status = ls_stored_fetch(model, wanted && !model->strategy->runtime->rank);
    sessions->ended = !status;
    if (status) {
        fitting->state = before;
        model->progress.requests = asked_before;
        return status;
    }
    tell_staleness(sessions, totals);
    tell_activity(model, totals);
    return LS_OK;
}

/* ---- the session ---- */

/* One ticket of a session. The numbers that callbacks see are this worker's. */
static ls_status train_ticket(struct ls_fitting *fitting, struct sessions *sessions, struct ls_loss_sums *own) {
    struct ls_fit_state *state = &fitting->state;
    struct ls_loss_sums sums;
    int64_t taken, started = ls_now(), begin = state->epochs * fitting->steps_per_epoch;
    ls_status status = ls_fit_callbacks_tell(fitting, LS_ON_TRAIN_BATCH_BEGIN);
    ls_input_use_pipeline(fitting->model, fitting->pipeline);
    ls_fit_batches_ask(fitting);
    if (!status) status = ls_fit_batches_run(fitting, &taken, &sums);
    if (!status) status = give(sessions, &sums);
    if (status) return status;
    ls_track_end(fitting->model->strategy->replicas[0].track, started, "step",
                 (struct ls_span_facts){.step = fitting->model->progress.step.iteration});
    ls_op_add_loss_sums(own, &sums);
    ls_result_means(fitting->model, own, &state->result.loss, &state->result.accuracy, state->result.metrics);
    ls_reached("committed");
    status = ls_fit_callbacks_tell(fitting, LS_ON_TRAIN_BATCH_END);
    ls_progress_step(fitting->progress, state->position + taken - begin, own->rows, &state->result);
    return status;
}

static ls_status train_tickets(struct ls_fitting *fitting, struct sessions *sessions) {
    struct ls_loss_sums own = {0};
    bool over = false;
    ls_status status = LS_OK;
    while (!status && !over) {
        status = take(sessions, &over);
        if (!status && !over) status = train_ticket(fitting, sessions, &own);
        if (status) return ls_fail_context(status, "a batch of epoch %d", (int)fitting->state.epochs + 1);
    }
    return finish(sessions);
}

/* The session after the fit's position. Collective, with the servers. */
static ls_status run_session(struct ls_fitting *fitting) {
    struct sessions *sessions = NULL;
    ls_status status = begin(fitting, &sessions);
    if (!status) status = train_tickets(fitting, sessions);
    free_sessions(sessions);
    return status;
}

/* ---- the way ---- */

static ls_status check_async(const ls_model *model) {
    const ls_optimizer *rule = &model->progress.step.rule;
    bool normed = rule->clipnorm > 0 || rule->global_clipnorm > 0 || rule->kind == LS_OPTIMIZER_LAMB;
    ls_status status = ls_sync_batch_norm_refuse(model, "asynchronous training",
                                                 "and workers do not meet in a step; take one that is not");
    if (status) return status;
    if (rule->momentum_correction)
        return ls_fail(LS_UNIMPLEMENTED, "asynchronous training: momentum_correction is of steps in order; leave it "
                                         "out");
    if (normed && ls_group_servers(model->strategy->runtime->group) > 1)
        return ls_fail(LS_UNIMPLEMENTED,
                       "asynchronous training: %s needs the norms of whole variables, and %d parameter servers have "
                       "parts of each: take one server, or clipvalue, or consistency LS_SYNC",
                       rule->kind == LS_OPTIMIZER_LAMB ? "LAMB" : "clipping by norms",
                       ls_group_servers(model->strategy->runtime->group));
    return LS_OK;
}

static ls_status describe_bounds(FILE *out, const ls_strategy *strategy, const ls_checkpoint_options *checkpoint) {
    const ls_parameter_server_options *servers = &strategy->servers;
    (void)checkpoint;
    (void)fprintf(out, "consistency=async\nstaleness=%d\non_stale=%d\nmax_staleness=%d\n", servers->staleness,
                  (int)servers->on_stale, servers->max_staleness);
    return LS_OK;
}

static void advise_on_bounds(const struct ls_log *log, const ls_strategy *strategy, const char *rule) {
    int bound = strategy->servers.staleness, workers = strategy->runtime->size;
    if (workers == 1 || (bound && bound < workers)) return;
    ls_log_warning(log,
                   "gradients whose variables others have updated since suit %s less than plain SGD (arXiv "
                   "1810.03264): compare the loss with consistency sync, or take a smaller learning rate or a bound "
                   "(staleness)",
                   rule);
}

const struct ls_sync_ops ls_sync_async = {.apart = true,
                                          .asks_in_step = true,
                                          .leaves = true,
                                          .check = check_async,
                                          .describe = describe_bounds,
                                          .advise = advise_on_bounds,
                                          .commit = ls_sync_commit,
                                          .open_data = ls_iterator_open_alone,
                                          .train = run_session};
