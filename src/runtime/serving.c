/* A parameter server's thread ("ls-server"): forms generations with the workers, serves in each, and ends with them. It
 * holds no state of the training. A loss costs it the generation; it comes back in the next one. */
#include "runtime/serving.h"

#include <stdatomic.h>
#include <stdio.h>

#include "base/clock.h"
#include "base/deadlines.h"
#include "base/kept_error.h"
#include "base/monitor.h"
#include "base/new.h"
#include "base/point.h"
#include "base/thread.h"
#include "cluster/join.h"
#include "cluster/leave.h"
#include "collective/servers/assist.h"
#include "collective/servers/serve.h"
#include "runtime/http_server.h"
#include "store/keeper.h"
#include "base/plain.h"

#define CHANNEL (UINT32_MAX - 1) /* of the links; no process set has so great a number */

#define RAISE_AGAIN (10 * LS_MILLISECOND)

struct ls_serving {
    struct ls_runtime *runtime; /* borrowed */
    struct ls_cluster *cluster; /* the thread's, until it leaves; its change is guarded */
    struct ls_group *group;
    struct ls_keeper *keeper; /* over all generations */
    pthread_t thread;
    atomic_bool stopping;      /* nothing is waited for any more */
    atomic_bool retiring;      /* this process was asked to stop */
    int64_t alone_since;       /* the asking thread's: no worker is connected; 0: one is */
    struct ls_monitor monitor; /* guards what follows */
    bool ended;
    char why[LS_ERROR_SIZE / 2]; /* stopping: the first reason */
    struct ls_kept_error result; /* from ended on */
};

ls_status ls_serving_check(const struct ls_runtime *runtime) {
    static const char name[] = "ParameterServerStrategy";
    const struct ls_cluster_view *config = runtime->config;
    if (!config || !config->cluster_mode)
        return ls_fail(
            LS_INVALID_ARGUMENT,
            "%s: there is no TF_CONFIG, and so no ps task that keeps the variables; start it by lockstep run "
            "--ps K, or take CentralStorageStrategy in one process",
            name);
    if (!config->num_servers && config->type != LS_TASK_PS && config->type != LS_TASK_EVALUATOR)
        return ls_fail(LS_INVALID_ARGUMENT,
                       "%s: TF_CONFIG has no ps: add cluster.ps with an address for each server, or take "
                       "MultiWorkerMirroredStrategy",
                       name);
    if (runtime->settings.servers != LS_SERVERS_OFF) return LS_OK;
    return ls_fail(LS_INVALID_ARGUMENT, "%s: LOCKSTEP_PS is off, and the ps tasks keep the variables: leave it out",
                   name);
}

static ls_status make_server_group(struct ls_cluster *cluster, struct ls_runtime *runtime, uint64_t generation,
                                   struct ls_group **group) {
    const struct ls_membership *members = ls_cluster_group(cluster);
    const struct ls_group_config config = {
        .rank = members->rank,
        .size = members->size + members->servers,
        .servers = members->servers,
        .abort = runtime->serves ? runtime->server_abort : runtime->abort,
        .generation = generation,
        .activity = runtime->serves ? &runtime->activity : NULL,
    };
    return ls_channels_open(runtime, cluster, CHANNEL, config, group);
}

/* A server that is lost while the group forms has no other line. */
static void tell_servers(struct ls_runtime *runtime, int servers) {
    const char *many = servers == 1 ? "" : "s", *one = servers == 1 ? "s" : "";
    if (servers == runtime->helpers) return;
    runtime->helpers = servers;
    if (!servers)
        ls_runtime_tell(runtime, "no parameter server helps to add any more");
    else if (runtime->use == LS_RUNTIME_HYBRID)
        ls_runtime_tell(runtime, "%d parameter server%s keep%s sparse tables, and help%s to add", servers, many, one,
                        one);
    else if (ls_runtime_stores(runtime))
        ls_runtime_tell(runtime, "%d parameter server%s keep%s the variables", servers, many, one);
    else
        ls_runtime_tell(runtime, "%d parameter server%s help%s to add", servers, many, one);
}

ls_status ls_serving_assist(struct ls_runtime *runtime) {
    struct ls_group *assist;
    int servers = runtime->cluster ? ls_cluster_group(runtime->cluster)->servers : 0;
    ls_status status = LS_OK;
    if (servers) status = make_server_group(runtime->cluster, runtime, runtime->generation, &assist);
    if (servers && !status) status = ls_group_assist(runtime->group, assist, &ls_assist_ops);
    if (!status) tell_servers(runtime, servers);
    return status;
}

static ls_status fail_stopped(struct ls_serving *server) {
    LS_HOLD(&server->monitor);
    return ls_fail(LS_CANCELLED, "%s", server->why);
}

static ls_status watch_workers(void *context) {
    struct ls_serving *server = context;
    if (atomic_load(&server->stopping)) return fail_stopped(server);
    return ls_join_watch(server->cluster);
}

/* A block's share of an array, and beside it a ring for each worker that sends to it. */
static void say_share(const struct ls_serving *server, uint64_t generation) {
    int workers = ls_cluster_group(server->cluster)->size, servers = ls_cluster_group(server->cluster)->servers;
    double n = workers, k = servers, share = n > k ? 2 * (n - 1) / (n * n + k * n - 2 * k) : 1 / k;
    ls_log_info(
        &server->runtime->log,
        "serves %d worker%s with %d parameter server%s (generation %llu); it adds %.1f %% of each large array, and "
        "keeps as much of the largest in memory",
        workers, workers == 1 ? "" : "s", servers, servers == 1 ? "" : "s", (unsigned long long)generation,
        100 * share);
    char text[128];
    (void)snprintf(text, sizeof(text), "serves %d worker%s, generation %llu", workers, workers == 1 ? "" : "s",
                   (unsigned long long)generation);
    ls_service_notify_ready(server->runtime->notify, text);
    ls_http_server_say(server->runtime->http, true, text);
}

static ls_status attempt_to_serve(struct ls_serving *server) {
    static const struct ls_standing nothing;
    struct ls_generation generation;
    ls_group_free(ls_steal(server->group));
    ls_reached("form");
    ls_status status = ls_join_form(server->cluster, &nothing, &generation);
    if (!status) status = make_server_group(server->cluster, server->runtime, generation.number, &server->group);
    if (!status) status = ls_join_offer(server->cluster);
    if (status) return status;
    ls_reached("entered");
    say_share(server, generation.number);
    ls_keeper_begin(server->keeper, (int64_t)generation.number, server->runtime->config->num_servers);
    const struct ls_keeping keeping = {ls_keeper_call, server->keeper};
    return ls_group_serve(server->group, watch_workers, server, &keeping);
}

static bool may_recover(struct ls_serving *server, ls_status status) {
    bool severed = server->group && ls_group_is_severed(server->group);
    if (atomic_load(&server->stopping) || ls_keeper_has_lost(server->keeper) ||
        !ls_join_may_recover(server->cluster, status, severed))
        return false;
    ls_log_info(&server->runtime->log, "%s; this parameter server waits for the workers", ls_error());
    ls_http_server_say(server->runtime->http, false, ls_error());
    return true;
}

/* A stop that was asked for stays one, however the workers end. */
static ls_status conclude(struct ls_serving *server, ls_status status) {
    bool loss = status == LS_UNAVAILABLE || status == LS_ABORTED || status == LS_DEADLINE_EXCEEDED;
    if (ls_leave_is_over(server->cluster)) {
        status = ls_leave_outcome(server->cluster);
        if (!status) ls_log_info(&server->runtime->log, "the workers have finished, and this parameter server ends");
        return status;
    }
    if (loss && atomic_load(&server->stopping)) return fail_stopped(server);
    if (loss && atomic_load(&server->retiring))
        return ls_fail(LS_CANCELLED, "this parameter server was asked to stop, and its workers are lost: %.700s",
                       ls_error());
    return status;
}

/* In order where the workers have left so. */
static void leave_workers(struct ls_serving *server, ls_status status) {
    struct ls_cluster *cluster = server->cluster;
    const struct ls_leave leave = {.root = ls_cluster_group(cluster)->rank, .message = ""};
    bool over = ls_leave_is_over(cluster);
    ls_monitor_lock(&server->monitor);
    server->cluster = NULL;
    ls_monitor_unlock(&server->monitor);
    if (over)
        ls_leave_end(cluster, &leave);
    else
        ls_join_give_up(cluster, status);
}

static void *serve_workers(void *argument) {
    struct ls_serving *server = argument;
    ls_status status;
    do status = attempt_to_serve(server);
    while (!ls_leave_is_over(server->cluster) && may_recover(server, status));
    status = conclude(server, status);
    ls_kept_error_set(&server->result, status);
    leave_workers(server, status);
    ls_group_free(ls_steal(server->group));
    ls_monitor_flag(&server->monitor, &server->ended);
    return NULL;
}

static void free_serving(struct ls_serving *server) {
    ls_keeper_free(server->keeper);
    ls_monitor_destroy(&server->monitor);
    ls_free(server);
}

static ls_status make_serving(struct ls_runtime *runtime, struct ls_cluster *cluster, struct ls_serving **server) {
    LS_NEW(struct ls_serving, made, "a parameter server");
    *made = (struct ls_serving){.runtime = runtime, .cluster = cluster};
    ls_status status = ls_monitor_init(&made->monitor);
    if (!status) status = ls_keeper_new(&runtime->log, &made->keeper);
    if (!status) {
        ls_keeper_set_files(made->keeper, runtime->settings.record, runtime->settings.replay);
        ls_keeper_limit(made->keeper, ls_memory_limit_find(runtime->settings.memory_limit, ""));
        status = ls_thread_start(&made->thread, "ls-server", serve_workers, made);
    }
    return LS_HAND_OVER(status, server, made, free_serving(made));
}

ls_status ls_serving_start(struct ls_runtime *runtime, struct ls_cluster *cluster, struct ls_serving **server) {
    ls_status status = make_serving(runtime, cluster, server);
    if (status) ls_join_give_up(cluster, status);
    return status;
}

ls_status ls_serving_wait(struct ls_serving *server) {
    LS_HOLD(&server->monitor);
    while (!server->ended) (void)ls_monitor_wait(&server->monitor, LS_NEVER);
    return ls_kept_error_raise(&server->result);
}

/* ---- The end before the workers' -------------------------------------------------------------------------------- */

/* Ends the thread's waits. It may be forming a generation, which lowers the flag when it begins: then again. Those with
 * whom it is in a call hear the status, too. To them it is lost: LS_CANCELLED would end the training. */
static void interrupt(struct ls_serving *server, const char *why) {
    ls_monitor_lock(&server->monitor);
    if (!*server->why) (void)snprintf(server->why, sizeof(server->why), "%s", why);
    ls_monitor_unlock(&server->monitor);
    atomic_store(&server->stopping, true);
    ls_abort_raise(server->runtime->server_abort, LS_UNAVAILABLE, why);
}

void ls_serving_stop(struct ls_serving *server) {
    ls_monitor_lock(&server->monitor);
    while (!server->ended) {
        ls_monitor_unlock(&server->monitor);
        interrupt(server, "this parameter server ends");
        ls_monitor_lock(&server->monitor);
        if (!server->ended) (void)ls_monitor_wait(&server->monitor, ls_now() + RAISE_AGAIN);
    }
    ls_monitor_unlock(&server->monitor);
}

static const char *name_of(const struct ls_serving *server) {
    const struct ls_cluster_view *view = server->runtime->config;
    return ls_cluster_view_task(view, view->type, view->index)->name;
}

static void look_for_company(struct ls_serving *server, bool *entered, bool *alone) {
    ls_monitor_lock(&server->monitor);
    *entered = server->cluster && ls_cluster_has_entered(server->cluster);
    *alone = !server->cluster || !ls_cluster_has_worker(server->cluster);
    ls_monitor_unlock(&server->monitor);
    if (*alone && !server->alone_since) server->alone_since = ls_now();
    if (!*alone) server->alone_since = 0;
}

/* Returns true if its workers are not there, or have had the time. Sets why to the reason. */
static bool has_served(struct ls_serving *server, int64_t since, char *why, size_t size) {
    double grace = server->runtime->settings.stop_grace;
    int64_t now = ls_now();
    bool entered, alone;
    look_for_company(server, &entered, &alone);
    int used = snprintf(why, size, "%s was asked to stop", name_of(server));
    if (!entered || (alone && now >= server->alone_since + LS_STOP_TIMEOUT)) return true;
    (void)ls_plain_text(why + used, size - (size_t)used,
                        ", and its workers have not left within the %g s of LOCKSTEP_STOP_GRACE", grace);
    return now >= ls_deadline_after(since, grace);
}

void ls_serving_retire(struct ls_serving *server, int64_t since) {
    char why[LS_ERROR_SIZE / 2];
    bool served = has_served(server, since, why, sizeof(why));
    if (!atomic_exchange(&server->retiring, true) && !served)
        ls_log_info(&server->runtime->log,
                    "asked to stop: this parameter server serves until its workers have left, %g s at most "
                    "(LOCKSTEP_STOP_GRACE)",
                    server->runtime->settings.stop_grace);
    if (served) interrupt(server, why);
}

void ls_serving_free(struct ls_serving *server) {
    if (!server) return;
    ls_serving_stop(server);
    (void)pthread_join(server->thread, NULL);
    free_serving(server);
}
