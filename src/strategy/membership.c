/* From options and TF_CONFIG to a joined group, and out again. */
#include "strategy/membership.h"

#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/dtype.h"
#include "base/memory.h"
#include "base/point.h"
#include "base/status.h"
#include "strategy/flight.h"
#include "strategy/handover.h"
#include "strategy/restarts.h"

/* What strategies and bare communicators have in common. */
static ls_status check_options(const ls_strategy_options *options) {
    if ((unsigned)options->communication > LS_NCCL)
        return ls_fail(LS_INVALID_ARGUMENT, "communication %d is none of LS_AUTO, LS_RING, LS_NCCL",
                       options->communication);
    ls_status status = ls_compression_check(options->compression);
    if (status) return status;
    if (!isfinite(options->timeout_seconds) || options->timeout_seconds < 0)
        return ls_fail(LS_INVALID_ARGUMENT, "timeout_seconds %g must be a number of seconds, not negative",
                       options->timeout_seconds);
    if (!isfinite(options->join_timeout_seconds) || options->join_timeout_seconds < 0)
        return ls_fail(LS_INVALID_ARGUMENT, "join_timeout_seconds %g must be a number of seconds, not negative",
                       options->join_timeout_seconds);
    return LS_OK;
}

static ls_status start_log(struct ls_membership *membership, const ls_strategy_options *options) {
    ls_status status = ls_settings_read(&membership->settings);
    if (status) return status;
    membership->log.sink = options->log;
    membership->log.context = options->log_context;
    membership->log.level = membership->settings.log_level;
    if (options->timeout_seconds > 0) membership->settings.collective_timeout = options->timeout_seconds;
    if (options->join_timeout_seconds > 0) membership->settings.join_timeout = options->join_timeout_seconds;
    return LS_OK;
}

static ls_status read_config(struct ls_membership *membership, const ls_strategy_options *options) {
    const char *text = options->tf_config ? options->tf_config : getenv("TF_CONFIG");
    ls_status status = ls_tf_config_parse(text, &membership->config);
    if (status) return status;
    const struct ls_tf_config *config = membership->config;
    if (config->cluster_mode)
        (void)snprintf(membership->log.name, sizeof(membership->log.name), "%s:%d", ls_task_type_name(config->type),
                       config->index);
    for (int i = 0; i < config->warning_count; i++)
        ls_log_warning(&membership->log, "TF_CONFIG: %s", config->warnings[i]);
    if (config->cluster_mode && config->type == LS_TASK_PS)
        return ls_fail(
            LS_INVALID_ARGUMENT,
            "TF_CONFIG: this task is ps:%d; parameter servers take no part in mirrored training: do not start "
            "it, or give it the type worker",
            config->index);
    return LS_OK;
}

static ls_status start_cluster(struct ls_membership *membership, const ls_strategy_options *options) {
    const struct ls_cluster_config config = {
        .tf_config = membership->config,
        .settings = &membership->settings,
        .log = &membership->log,
        .abort = membership->abort,
        .join_timeout = membership->settings.join_timeout,
        .activity = &membership->activity,
        .elastic = options->elastic ? options->elastic : membership->settings.elastic,
    };
    return ls_cluster_new(&config, &membership->cluster);
}

static void close_links(struct ls_link **links, int count) {
    for (int i = 0; i < count; i++)
        if (links[i]) links[i]->ops->close(links[i]);
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

/* A loss that is recovered from needs no post-mortem, unless one is wanted; an error that is the end gets it at the
 * end.
 */
static void group_failed(void *context) {
    struct ls_membership *membership = context;
    const struct ls_settings *settings = &membership->settings;
    bool recovers = settings->rejoin_timeout > 0 || ls_membership_is_elastic(membership);
    if (*settings->flight_record_folder || !membership->cluster || !recovers) ls_membership_dump(membership);
}

static ls_status make_group(struct ls_membership *membership) {
    LS_CLEANUP(ls_free_pointer)
    struct ls_link **links = ls_alloc_array((size_t)membership->size, sizeof(struct ls_link *));
    if (!links) return ls_fail_memory("links", (size_t)membership->size * sizeof(struct ls_link *));
    enum ls_algorithm algorithm;
    ls_status status = find_algorithm(membership->settings.algorithm, &algorithm);
    if (!status && membership->cluster) status = ls_cluster_take_links(membership->cluster, links);
    if (status) return status;
    const struct ls_group_config config = {
        .rank = membership->rank,
        .size = membership->size,
        .links = links,
        .abort = membership->abort,
        .log = &membership->log,
        .generation = membership->generation,
        .timeout = membership->settings.collective_timeout,
        .report_interval = membership->settings.report_interval,
        .transport = membership->settings.transport,
        .algorithm = algorithm,
        .segment = (size_t)membership->settings.segment,
        .flight_record = (size_t)membership->settings.flight_record,
        .activity = &membership->activity,
        .failed = group_failed,
        .context = membership,
    };
    status = ls_group_new(&config, &membership->group);
    if (status) close_links(links, membership->size);
    if (!status) status = ls_group_connect(membership->group);
    if (!status && membership->communication != LS_RING)
        status = ls_group_measure(membership->group, &membership->choice);
    return status;
}

/* One attempt at a generation. */
static ls_status attempt(struct ls_membership *membership) {
    const struct ls_standing standing = {membership->holds, membership->position};
    struct ls_generation generation;
    ls_group_free(ls_steal(membership->group)); /* its links end: who still waits on them learns of the loss */
    ls_reached("form");
    ls_status status = ls_cluster_form(membership->cluster, &standing, &generation);
    if (status) return status;
    membership->rank = ls_cluster_rank(membership->cluster);
    membership->size = ls_cluster_size(membership->cluster);
    membership->task = ls_cluster_task(membership->cluster, membership->rank);
    membership->tasks = ls_cluster_tasks(membership->cluster);
    membership->local_rank = ls_cluster_local_rank(membership->cluster);
    membership->local_size = ls_cluster_local_size(membership->cluster);
    membership->generation = generation.number;
    ls_reached("links");
    status = make_group(membership);
    if (!status) ls_reached("group");
    if (!status && generation.copy) status = ls_state_copy(membership, &generation);
    if (!status) ls_reached("state");
    if (!status) status = ls_cluster_accept(membership->cluster);
    if (!status) ls_reached("entered");
    membership->dumped = false;
    return status;
}

ls_status ls_membership_enter(struct ls_membership *membership) {
    ls_status status;
    if (!membership->cluster) return make_group(membership);
    do {
        status = attempt(membership);
        if (!status) status = ls_restarts_share(membership);
    } while (status && ls_membership_may_recover(membership, status));
    return status;
}

bool ls_membership_may_recover(struct ls_membership *membership, ls_status status) {
    return membership->cluster && ls_cluster_may_recover(membership->cluster, status);
}

void ls_membership_say_lost(const struct ls_membership *membership) {
    double limit = membership->settings.rejoin_timeout;
    if (ls_membership_is_elastic(membership))
        ls_log_warning(&membership->log, "%s; forming the next generation, with who is there after %g s", ls_error(),
                       limit);
    else
        ls_log_warning(&membership->log, "%s; waiting up to %g s for it to come back", ls_error(), limit);
}

bool ls_membership_is_elastic(const struct ls_membership *membership) {
    return membership->cluster && ls_cluster_is_elastic(membership->cluster);
}

bool ls_membership_is_scaled(const struct ls_membership *membership) {
    return membership->cluster && ls_cluster_is_scaled(membership->cluster);
}

int ls_membership_task(const struct ls_membership *membership, int rank) {
    return membership->cluster ? ls_cluster_task(membership->cluster, rank) : rank;
}

static ls_status build(struct ls_membership *membership, const ls_strategy_options *options, bool read_tf_config) {
    membership->size = membership->local_size = membership->tasks = 1;
    membership->generation = 1;
    membership->communication = options->communication;
    ls_status status = check_options(options);
    if (!status) status = start_log(membership, options);
    if (!status) status = ls_abort_new(&membership->abort);
    if (!status && read_tf_config) status = read_config(membership, options);
    bool clustered = !status && membership->config && membership->config->cluster_mode;
    if (clustered && membership->config->type != LS_TASK_EVALUATOR) /* an evaluator is a cluster of its own */
        status = start_cluster(membership, options);
    return status ? status : ls_membership_enter(membership);
}

ls_status ls_membership_new(const ls_strategy_options *options, bool read_tf_config,
                            struct ls_membership **membership) {
    struct ls_membership *made = ls_alloc(sizeof(*made));
    if (!made) return ls_fail_memory("a membership", sizeof(*made));
    ls_status status = build(made, options, read_tf_config);
    if (status) return ls_membership_close(made, status);
    *membership = made;
    return LS_OK;
}

/* Where all workers have stopped nobody is told of a failure, and the message says why. */
static ls_status leave_stopped(struct ls_cluster *cluster) {
    char message[LS_ERROR_SIZE];
    (void)snprintf(message, sizeof(message), "%s", ls_error());
    ls_status status = ls_cluster_leave(cluster, LS_OK);
    return status ? status : ls_fail(LS_CANCELLED, "%s", message);
}

ls_status ls_membership_close(struct ls_membership *membership, ls_status status) {
    if (!membership) return status;
    bool stopped = status == LS_CANCELLED && membership->stopped;
    if (membership->cluster && !membership->group)
        ls_cluster_give_up(membership->cluster, status);
    else if (membership->cluster)
        status = stopped ? leave_stopped(membership->cluster) : ls_cluster_leave(membership->cluster, status);
    /* options that differ are clear without it */
    bool clear = status == LS_INVALID_ARGUMENT && !*membership->settings.flight_record_folder;
    if (stopped && status == LS_CANCELLED) clear = true;
    if (status && !clear) ls_membership_dump(membership);
    ls_group_free(membership->group);
    ls_free(membership->inherited.data);
    ls_free(membership->restarts);
    ls_tf_config_free(membership->config);
    ls_abort_free(membership->abort);
    ls_free(membership);
    return status;
}

static ls_status read_values(const struct ls_bytes *received, int count, int64_t *values) {
    for (int i = 0; i < count; i++) {
        if (received[i].size != sizeof(int64_t))
            return ls_fail(LS_INTERNAL, "rank %d sent %zu bytes where a number of 8 was expected", i, received[i].size);
        memcpy(&values[i], received[i].data, sizeof(int64_t));
    }
    return LS_OK;
}

ls_status ls_membership_exchange(struct ls_membership *membership, const char *name, int64_t value, int64_t *values) {
    values[0] = value;
    if (!membership->cluster) return LS_OK;
    size_t count = (size_t)membership->size;
    LS_CLEANUP(ls_free_pointer) struct ls_bytes *received = ls_alloc_array(count, sizeof(*received));
    if (!received) return ls_fail_memory("an exchange", count * sizeof(*received));
    ls_status status = ls_cluster_exchange(membership->cluster, name, (struct ls_bytes){&value, sizeof(value)},
                                           membership->settings.collective_timeout, received);
    if (status) return status;
    status = read_values(received, membership->size, values);
    for (size_t i = 0; i < count; i++) ls_free(received[i].data);
    return status;
}

ls_status ls_membership_agree(struct ls_membership *membership, const char *name, const char *lines) {
    if (!membership->cluster) return LS_OK;
    return ls_cluster_agree(membership->cluster, name, lines, membership->settings.collective_timeout);
}
