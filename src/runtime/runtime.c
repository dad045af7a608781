/* From options and TF_CONFIG to a joined group, and out again. */
#include "runtime/runtime.h"

#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <limits.h>
#include <string.h>

#include "base/clock.h"
#include "base/kept_error.h"
#include "base/new.h"
#include "base/options.h"
#include "base/random.h"
#include "base/point.h"
#include "base/streams.h"
#include "cluster/join.h"
#include "cluster/exchange.h"
#include "cluster/leave.h"
#include "cluster/rendezvous/rendezvous.h"
#include "cluster/loss.h"
#include "collective/algorithm.h"
#include "runtime/http_server.h"
#include "runtime/state_transfer.h"
#include "runtime/restarts.h"
#include "runtime/serving.h"
#include "runtime/user_request.h"

/* The limit of recoveries in a row at one position without a lost worker: something breaks connections each time. */
#define MOST_REPEATS 8

/* Checks the options that strategies and bare communicators have in common. */
static ls_status check_runtime_options(const ls_strategy_options *options) {
    if ((unsigned)options->communication > LS_NCCL)
        return ls_fail(LS_INVALID_ARGUMENT, "communication %d is none of LS_AUTO, LS_RING, LS_NCCL",
                       options->communication);
    ls_status status = ls_option_names_check_compression(options->compression);
    if (status) return status;
    if (!isfinite(options->timeout_seconds) || options->timeout_seconds < 0)
        return ls_fail(LS_INVALID_ARGUMENT, "timeout_seconds %g must be a number of seconds, not negative",
                       options->timeout_seconds);
    if (!isfinite(options->join_timeout_seconds) || options->join_timeout_seconds < 0)
        return ls_fail(LS_INVALID_ARGUMENT, "join_timeout_seconds %g must be a number of seconds, not negative",
                       options->join_timeout_seconds);
    return LS_OK;
}

static void go_on_without_lost(struct ls_settings *settings) {
    if (!getenv("LOCKSTEP_REJOIN_TIMEOUT")) settings->rejoin_timeout = 0;
    if (!*settings->elastic) (void)snprintf(settings->elastic, sizeof(settings->elastic), "1");
}

static ls_status start_log(struct ls_runtime *runtime, const ls_strategy_options *options) {
    ls_streams_open();
    ls_status status = ls_settings_read(&runtime->settings);
    if (status) return status;
    if (runtime->use == LS_RUNTIME_GOES_ON) go_on_without_lost(&runtime->settings);
    runtime->log.sink = options->log;
    runtime->log.context = options->log_context;
    runtime->log.level = runtime->settings.log_level;
    runtime->log.json = runtime->settings.log_json;
    if (options->timeout_seconds > 0) runtime->settings.collective_timeout = options->timeout_seconds;
    if (options->join_timeout_seconds > 0) runtime->settings.join_timeout = options->join_timeout_seconds;
    return LS_OK;
}

/* Describes the options that all workers have alike, which is compared before anybody waits in a call. */
static void describe_options(const struct ls_runtime *runtime, const ls_strategy_options *options, char *lines,
                             size_t size) {
    const char *keeping = ls_runtime_stores(runtime) ? "yes" : "no";
    if (runtime->use == LS_RUNTIME_HYBRID) keeping = "sparse tables";
    if (runtime->use == LS_RUNTIME_GOES_ON) keeping = "asynchronously";
    (void)snprintf(
        lines, size,
        "communication=%s\nLOCKSTEP_ALGORITHM=%s\nLOCKSTEP_PS=%s\nservers keep=%s\ncompression=%s\nbytes_per_pack=%zu\n"
        "threads_per_replica=%d\nreplicas=%d\n",
        ls_option_names_communication(options->communication), runtime->settings.algorithm,
        ls_settings_servers_name(runtime->settings.servers), keeping, ls_option_names_compression(options->compression),
        options->bytes_per_pack, options->threads_per_replica, options->replicas);
}

static ls_status compare_call(void *context, const void *call, size_t size) {
    struct ls_runtime *runtime = context;
    if (size != LS_FRAME_SIZE) return ls_fail(LS_DATA_LOSS, "a call of %zu bytes is no collective's", size);
    return ls_call_record_compare(&runtime->calls, call, ls_algorithm_name);
}

static void tell_stall(void *context, uint64_t sequence, const unsigned char frame[LS_FRAME_SIZE]) {
    const struct ls_ranks *ranks = context;
    ls_stall_tell(ranks->runtime->cluster, sequence, frame, LS_FRAME_SIZE);
}

static ls_status start_cluster(struct ls_runtime *runtime, const ls_strategy_options *options) {
    char lines[512];
    describe_options(runtime, options, lines, sizeof(lines));
    ls_status status = ls_rendezvous_meet(runtime->config, &runtime->settings, &runtime->log, &runtime->rendezvous);
    if (status) return status;
    const struct ls_cluster_config config = {
        .tf_config = runtime->config,
        .rendezvous = runtime->rendezvous,
        .meet = ls_rendezvous_server_take,
        .settings = &runtime->settings,
        .log = &runtime->log,
        .abort = runtime->serves ? runtime->server_abort : runtime->abort,
        .activity = &runtime->activity,
        .options = lines,
        .elastic = options->elastic ? options->elastic : runtime->settings.elastic,
        .hastens = runtime->use == LS_RUNTIME_GOES_ON && runtime->settings.rejoin_timeout <= 0,
        .needs_server = ls_runtime_stores(runtime),
        .compare_call = compare_call,
        .waiting = ls_http_server_tell_wait,
        .context = runtime,
    };
    status = ls_call_record_init(&runtime->calls);
    if (status) return status;
    runtime->records = true;
    return ls_cluster_new(&config, &runtime->cluster);
}

static ls_status find_algorithm(const char *name, enum ls_algorithm *algorithm) {
    char names[256] = "";
    *algorithm = ls_algorithm_find(name);
    if (*algorithm < LS_ALGORITHM_COUNT && ls_algorithm_info(*algorithm)->in_tree_order) return LS_OK;
    for (int i = 0; i < LS_ALGORITHM_COUNT; i++) {
        const struct ls_algorithm_info *info = ls_algorithm_info((enum ls_algorithm)i);
        size_t length = strlen(names);
        if (info->in_tree_order)
            (void)snprintf(names + length, sizeof(names) - length, "%s%s", i ? ", " : "", info->name);
    }
    return ls_fail(LS_INVALID_ARGUMENT, "LOCKSTEP_ALGORITHM='%s' is none of %s (RING is a communication of its own)",
                   name, names);
}

static void tell_failure(const struct ls_runtime *runtime, ls_status status) {
    char text[LS_ERROR_SIZE];
    (void)ls_abort_status(runtime->abort);
    (void)snprintf(text, sizeof(text), "rank %d: %.1000s", runtime->rank, ls_error());
    ls_leave_tell_failure(runtime->cluster, status, text);
}

/* A loss with recovery needs no post-mortem, unless one is wanted. A final error gets it at the end. The record is the
 * whole group's: a set's thread leaves it alone. */
static void group_failed(void *context, ls_status status, bool own) {
    const struct ls_ranks *ranks = context;
    struct ls_runtime *runtime = ranks->runtime;
    const struct ls_settings *settings = &runtime->settings;
    bool recovers = settings->rejoin_timeout > 0 || ls_runtime_is_elastic(runtime);
    if (ls_abort_is_cancelled(runtime->abort)) return;
    if (own && runtime->cluster && status != LS_UNAVAILABLE && status != LS_FAILED_PRECONDITION)
        tell_failure(runtime, status);
    if (ranks->members) {
        if (ls_group_is_severed(ranks->group)) ls_group_sever(runtime->group);
        return;
    }
    if (*settings->flight_record_folder || !runtime->cluster || !recovers) ls_flight_dump(runtime);
}

ls_status ls_runtime_make_group(struct ls_ranks *ranks, uint32_t number) {
    struct ls_runtime *runtime = ranks->runtime;
    const struct ls_settings *settings = &runtime->settings;
    enum ls_algorithm algorithm;
    ls_status status = find_algorithm(settings->algorithm, &algorithm);
    if (status) return status;
    const struct ls_group_config config = {
        .rank = ranks->rank,
        .size = ranks->size,
        .members = ranks->members,
        .abort = runtime->abort,
        .generation = runtime->generation,
        .algorithm = algorithm,
        .mail_limit = (size_t)settings->mail_limit,
        .direct_limit = settings->direct_limit < INT_MAX ? (int)settings->direct_limit : INT_MAX,
        .activity = number ? NULL : &runtime->activity,
        .hooks = {group_failed, runtime->cluster ? tell_stall : NULL, ranks},
        .record = runtime->cluster && !number ? &runtime->calls : NULL,
    };
    return ls_channels_open(runtime, runtime->cluster, 2 * number, config, &ranks->group);
}

static ls_status make_group(struct ls_runtime *runtime) {
    ls_status status = ls_runtime_make_group(&runtime->ranks, 0);
    if (!status) status = ls_group_connect(runtime->group);
    if (!status) status = ls_serving_assist(runtime);
    if (!status && runtime->communication != LS_RING) status = ls_tuner_measure(runtime->group, &runtime->choice);
    return status;
}

/* One attempt at a generation. The acceptance comes last. A generation begins only when all have said that they hold
 * its links and its state, so the loss of the source within the copy leaves nobody in a generation that lacks the
 * state: all form anew. */
static ls_status attempt_to_form(struct ls_runtime *runtime) {
    const struct ls_standing standing = {runtime->holds, runtime->position};
    struct ls_generation generation;
    ls_group_free(ls_steal(runtime->group)); /* its links end, so that waiting members learn of the loss */
    ls_reached("form");
    ls_status status = ls_join_form(runtime->cluster, &standing, &generation);
    if (status) return status;
    runtime->rank = ls_cluster_group(runtime->cluster)->rank;
    runtime->size = ls_cluster_group(runtime->cluster)->size;
    runtime->task = ls_runtime_task(runtime, runtime->rank);
    runtime->tasks = runtime->config->num_workers;
    runtime->local_rank = ls_cluster_local_rank(runtime->cluster);
    runtime->local_size = ls_cluster_local_size(runtime->cluster);
    runtime->generation = generation.number;
    ls_reached("links");
    status = make_group(runtime);
    if (!status) ls_reached("group");
    if (!status && generation.copy) status = ls_state_transfer_copy(runtime, &generation);
    if (!status) ls_reached("state");
    if (!status) status = ls_join_accept(runtime->cluster);
    if (!status) ls_reached("entered");
    runtime->dumped = false;
    return status;
}

static void notify_ready(struct ls_runtime *runtime) {
    char text[128];
    ls_activity_set(&runtime->activity.generation, (int64_t)runtime->generation);
    ls_activity_set(&runtime->activity.members, runtime->size);
    (void)snprintf(text, sizeof(text), "rank %d of %d, generation %llu", runtime->rank, runtime->size,
                   (unsigned long long)runtime->generation);
    if (runtime->serves) return;
    ls_service_notify_ready(runtime->notify, text);
    ls_http_server_say(runtime->http, true, text);
}

/* The reason, now and then, where the group does not form for long and goes on. Returns true. */
static bool tell_failed_attempt(const struct ls_runtime *runtime, int64_t *told) {
    double interval = runtime->settings.report_interval;
    if (interval <= 0 || ls_now() < ls_deadline_after(*told, interval)) return true;
    *told = ls_now();
    ls_runtime_tell(runtime, "the group forms anew after generation %llu: %s", (unsigned long long)runtime->generation,
                    ls_error());
    return true;
}

static ls_status enter_generation(struct ls_runtime *runtime) {
    int64_t told = ls_now();
    ls_status status;
    if (!runtime->cluster) return make_group(runtime);
    ls_activity_set(&runtime->activity.members, 0);
    (void)ls_activity_wait(&runtime->activity, ls_now());
    do {
        status = attempt_to_form(runtime);
        if (!status) status = ls_restarts_share(runtime);
    } while (status && ls_runtime_may_recover(runtime, status) && tell_failed_attempt(runtime, &told));
    (void)ls_activity_wait(&runtime->activity, 0);
    return status;
}

ls_status ls_runtime_enter(struct ls_runtime *runtime) {
    ls_status status = enter_generation(runtime);
    if (!status) notify_ready(runtime);
    return status;
}

void ls_runtime_abort(struct ls_runtime *runtime, const char *reason) {
    char message[LS_ERROR_SIZE];
    (void)snprintf(message, sizeof(message), "aborted: %s", reason);
    if (runtime->cluster)
        ls_leave_abort(runtime->cluster, reason);
    else
        ls_abort_raise(runtime->abort, LS_ABORTED, message);
}

bool ls_runtime_is_cancelled(struct ls_runtime *runtime, ls_status status) {
    if (status != LS_CANCELLED || runtime->stopped) return false;
    return runtime->cluster ? ls_leave_is_cancelled(runtime->cluster) : ls_abort_is_cancelled(runtime->abort);
}

bool ls_runtime_may_recover(struct ls_runtime *runtime, ls_status status) {
    bool severed = runtime->group && ls_group_is_severed(runtime->group);
    return runtime->cluster && !runtime->lost && ls_join_may_recover(runtime->cluster, status, severed);
}

/* A number that changes when a process was started anew, or the members are others. */
static uint64_t crew_of(const struct ls_runtime *runtime) {
    uint64_t crew = (uint64_t)runtime->size;
    for (int task = 0; runtime->restarts && task < runtime->tasks; task++)
        crew = crew * 31 + (uint64_t)runtime->restarts[task].since;
    return crew;
}

/* A recovery is one of a loop if nothing has changed since the one before: the position of the last commit and the
 * crew. A committed step or a new process starts the count anew, so a long run may recover any number of times. */
static bool repeats(struct ls_runtime *runtime) {
    uint64_t crew = crew_of(runtime);
    bool alike = runtime->holds && runtime->repeated.position == runtime->position && runtime->repeated.crew == crew;
    runtime->repeated.position = runtime->position;
    runtime->repeated.crew = crew;
    runtime->repeated.count = alike ? runtime->repeated.count + 1 : 1;
    return runtime->repeated.count > MOST_REPEATS;
}

static void say_lost(const struct ls_runtime *runtime) {
    double limit = runtime->settings.rejoin_timeout;
    bool speaks = runtime->tasks <= LS_LOG_FEW || ls_cluster_is_first(runtime->cluster);
    bool server = ls_cluster_has_lost_server(runtime->cluster);
    ls_service_notify_status(runtime->notify, ls_error());
    ls_http_server_say(runtime->http, false, ls_error());
    if (runtime->anew)
        ls_log_shared(&runtime->log, speaks, LS_LOG_WARNING, "%s", ls_error());
    else if (server)
        ls_log_shared(&runtime->log, speaks, LS_LOG_WARNING, "%s; the step is made again by those who are there",
                      ls_error());
    else if (ls_runtime_is_elastic(runtime))
        ls_log_shared(&runtime->log, speaks, LS_LOG_WARNING,
                      "%s; waiting for it to come back, and going on with who is there after %g s", ls_error(), limit);
    else
        ls_log_shared(&runtime->log, speaks, LS_LOG_WARNING, "%s; waiting up to %g s for it to come back", ls_error(),
                      limit);
}

bool ls_runtime_speaks(const struct ls_runtime *runtime) {
    return runtime->tasks <= LS_LOG_FEW || ls_cluster_has_convened(runtime->cluster);
}

bool ls_runtime_begin_recovery(struct ls_runtime *runtime, ls_status status) {
    if (!status || !ls_runtime_may_recover(runtime, status)) return false;
    if (repeats(runtime)) {
        (void)ls_fail(status, "%.700s; %d recoveries in a row began at position %lld, though nobody was lost",
                      ls_error(), MOST_REPEATS, (long long)runtime->position);
        return false;
    }
    say_lost(runtime);
    runtime->anew = false;
    return true;
}

void ls_runtime_give_up(const struct ls_runtime *runtime, ls_status status, const char *error) {
    bool own = status == LS_UNAVAILABLE && !ls_group_is_severed(runtime->group); /* the user's, and no loss */
    ls_abort_raise(runtime->abort, own ? LS_ABORTED : status, error);
}

bool ls_runtime_is_elastic(const struct ls_runtime *runtime) {
    return runtime->cluster && ls_cluster_is_elastic(runtime->cluster);
}

bool ls_runtime_is_scaled(const struct ls_runtime *runtime) {
    return runtime->cluster && ls_cluster_is_scaled(runtime->cluster);
}

int ls_runtime_task(const struct ls_runtime *runtime, int rank) {
    return runtime->cluster ? ls_cluster_group(runtime->cluster)->members[rank] : rank;
}

static ls_status build_runtime(struct ls_runtime *runtime, const ls_strategy_options *options, bool read_tf_config) {
    runtime->ranks = (struct ls_ranks){.runtime = runtime, .size = 1};
    runtime->local_size = runtime->tasks = 1;
    runtime->generation = 1;
    runtime->communication = options->communication == LS_NCCL ? LS_AUTO : options->communication;
    ls_status status = check_runtime_options(options);
    if (!status) status = start_log(runtime, options);
    if (!status) status = ls_service_notify_new(&runtime->notify);
    if (!status) status = ls_abort_new(&runtime->abort);
    if (!status && read_tf_config) status = ls_cluster_source_read(runtime, options->tf_config);
    if (!status && !read_tf_config) ls_cluster_source_warn(runtime, true);
    if (!status && ls_runtime_stores(runtime)) status = ls_serving_check(runtime);
    bool clustered = !status && runtime->config && runtime->config->cluster_mode;
    runtime->serves = clustered && runtime->config->type == LS_TASK_PS;
    bool off = runtime->serves && runtime->settings.servers == LS_SERVERS_OFF;
    if (off) ls_log_info(&runtime->log, "LOCKSTEP_PS is off: this parameter server has nothing to do, and ends");
    if (runtime->serves) status = ls_abort_new(&runtime->server_abort);
    if (!status && clustered && runtime->config->type != LS_TASK_EVALUATOR &&
        !off) /* an evaluator is a cluster of its own */
        status = start_cluster(runtime, options);
    if (!status && !runtime->http) status = ls_http_server_new(runtime, &runtime->http);
    if (!status && runtime->cluster && runtime->serves)
        status = ls_serving_start(runtime, ls_steal(runtime->cluster), &runtime->server);
    if (!status)
        status = ls_user_request_new(runtime, options->request, options->request_context, &runtime->user_request);
    return status ? status : ls_runtime_enter(runtime);
}

ls_status ls_runtime_new(const ls_strategy_options *options, bool read_tf_config, enum ls_runtime_use use,
                         struct ls_runtime **runtime) {
    LS_NEW(struct ls_runtime, made, "a runtime");
    made->use = use;
    ls_status status = build_runtime(made, options, read_tf_config);
    if (status) return ls_runtime_close(made, status);
    *runtime = made;
    return LS_OK;
}

/* After a stop of all workers nobody is told of a failure, and what is lost from now on changes nothing. The message
 * says why they stopped. */
static ls_status leave_stopped(struct ls_cluster *cluster) {
    struct ls_kept_error kept = ls_kept_error_of(LS_CANCELLED);
    ls_leave_note_stopped(cluster, kept.message);
    (void)ls_cluster_leave(cluster, LS_OK);
    return ls_kept_error_raise(&kept);
}

ls_status ls_runtime_serve(struct ls_runtime *runtime) {
    ls_status status = runtime->server ? ls_serving_wait(runtime->server) : LS_OK;
    if (status == LS_CANCELLED) atomic_store(&runtime->stopped, true); /* threads may join a server at once */
    return status;
}

ls_status ls_runtime_close(struct ls_runtime *runtime, ls_status status) {
    if (!runtime) return status;
    if (!status) status = ls_runtime_serve(runtime);
    bool stopped = status == LS_CANCELLED && runtime->stopped;
    if (runtime->server) ls_user_request_free(ls_steal(runtime->user_request)); /* its thread ends the server */
    ls_serving_free(ls_steal(runtime->server));
    ls_service_notify_free(ls_steal(runtime->notify));
    ls_http_server_free(ls_steal(runtime->http));
    if (!status && runtime->cluster) status = ls_leave_pass_exit(runtime->cluster);
    bool cancelled = ls_runtime_is_cancelled(runtime, status);
    ls_user_request_free(ls_steal(runtime->user_request));
    if (runtime->cluster && !runtime->group)
        ls_join_give_up(runtime->cluster, status);
    else if (runtime->cluster)
        status = stopped ? leave_stopped(runtime->cluster) : ls_cluster_leave(runtime->cluster, status);
    /* options that differ are clear without it */
    bool clear = status == LS_INVALID_ARGUMENT && !*runtime->settings.flight_record_folder;
    if ((stopped || cancelled) && status == LS_CANCELLED) clear = true;
    if (status && !clear) ls_flight_dump(runtime);
    ls_group_free(runtime->group);
    for (int i = 0; i < LS_STATE_PARTS; i++) ls_state_transfer_drop(runtime, (enum ls_state_part)i);
    ls_free(runtime->restarts);
    ls_rendezvous_server_free(runtime->rendezvous);
    ls_cluster_view_free(runtime->config);
    ls_abort_free(runtime->abort);
    ls_abort_free(runtime->server_abort);
    if (runtime->records) ls_call_record_destroy(&runtime->calls);
    ls_free(runtime);
    return status;
}

ls_status ls_runtime_exchange_rows(struct ls_runtime *runtime, const char *name, struct ls_bytes own, void *rows) {
    LS_CLEANUP(ls_free_pointer) LS_NEW_ARRAY(struct ls_bytes, received, (size_t)runtime->size, "an exchange");
    ls_status status = ls_cluster_exchange(runtime->cluster, name, own, runtime->settings.collective_timeout, received);
    if (status) return status;
    for (int i = 0; i < runtime->size; i++) {
        if (!status && received[i].size != own.size)
            status = ls_fail(LS_INTERNAL, "rank %d sent %zu bytes where a row of %zu was expected", i, received[i].size,
                             own.size);
        if (!status) memcpy((char *)rows + (size_t)i * own.size, received[i].data, own.size);
        ls_free(received[i].data);
    }
    return status;
}

ls_status ls_runtime_exchange(struct ls_runtime *runtime, const char *name, int64_t value, int64_t *values) {
    values[0] = value;
    if (!runtime->cluster) return LS_OK;
    return ls_runtime_exchange_rows(runtime, name, (struct ls_bytes){&value, sizeof(value)}, values);
}

ls_status ls_runtime_draw(struct ls_runtime *runtime, const char *name, uint64_t *number) {
    LS_CLEANUP(ls_free_pointer) int64_t *drawn = ls_alloc_array((size_t)runtime->size, sizeof(*drawn));
    int64_t own = 0;
    if (!drawn) return ls_fail_memory("a number that is drawn", (size_t)runtime->size * sizeof(*drawn));
    ls_status status = ls_entropy_fill(&own, sizeof(own));
    if (!status) status = ls_runtime_exchange(runtime, name, own, drawn);
    if (!status) *number = (uint64_t)drawn[0];
    return status;
}

ls_status ls_runtime_agree(struct ls_runtime *runtime, const char *name, const char *lines) {
    if (!runtime->cluster) return LS_OK;
    return ls_agree_lines(runtime->cluster, name, lines, runtime->settings.collective_timeout);
}
