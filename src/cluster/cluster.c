/* The cluster's handle: made of a listener, the control streams and what is known of each peer. Its incarnation is
 * drawn at random, so that a process that comes back is told from the one before. */
#include "cluster/cluster.h"

#include <errno.h>
#include <stdio.h>
#include <string.h>
#include <sys/eventfd.h>
#include <sys/random.h>
#include <sys/resource.h>
#include <unistd.h>

#include "base/clock.h"
#include "base/deadlines.h"
#include "base/memory.h"
#include "base/status.h"
#include "cluster/socket.h"
#include "cluster/state.h"

void ls_cluster_notify(struct ls_cluster *cluster) {
    ls_monitor_broadcast(&cluster->monitor);
    if (cluster->phase < LS_PHASE_MEMBER) (void)eventfd_write(cluster->wake, 1);
}

struct ls_message ls_cluster_message(const struct ls_cluster *cluster, enum ls_message_kind kind) {
    return (struct ls_message){.kind = kind, .incarnation = cluster->incarnation, .generation = cluster->generation};
}

void ls_cluster_send(struct ls_rpc_stream *stream, const struct ls_message *message) {
    LS_CLEANUP(ls_free_pointer) void *data = NULL;
    size_t size;
    if (stream && ls_message_encode(message, &data, &size) == LS_OK) (void)ls_rpc_send(stream, data, size);
}

/* Equal for the processes of one host (or container): its boot and its name. */
static void read_host(char host[256]) {
    char boot[64] = "", name[128] = "";
    FILE *file = fopen("/proc/sys/kernel/random/boot_id", "re");
    if (file) {
        if (!fgets(boot, sizeof(boot), file)) boot[0] = 0;
        (void)fclose(file);
    }
    boot[strcspn(boot, "\n")] = 0;
    (void)gethostname(name, sizeof(name) - 1);
    (void)snprintf(host, 256, "%s/%s", boot, name);
}

static ls_status check_config(const struct ls_cluster_config *config) {
    const struct ls_tf_config *tf = config->tf_config;
    if (!tf->cluster_mode || tf->id_in_cluster < 0 || tf->id_in_cluster >= tf->num_workers ||
        (tf->type != LS_TASK_CHIEF && tf->type != LS_TASK_WORKER))
        return ls_fail(LS_INVALID_ARGUMENT, "only chief and worker tasks of a cluster can join it");
    for (int rank = 0; rank < tf->num_workers; rank++)
        if (!ls_tf_config_member(tf, rank)) return ls_fail(LS_INTERNAL, "TF_CONFIG has no task of rank %d", rank);
    return LS_OK;
}

static void control_connection(void *context, int fd) {
    struct ls_cluster *cluster = context;
    ls_monitor_lock(&cluster->monitor);
    ls_rpc_serve(cluster->rpc, fd);
    ls_monitor_unlock(&cluster->monitor);
}

static ls_status start_listener(struct ls_cluster *cluster, const int *fds, int count) {
    struct ls_listener_config config = {.listening = fds,
                                        .listening_count = count,
                                        .refusals = &cluster->refusals,
                                        .context = cluster,
                                        .control = control_connection,
                                        .data = ls_control_data,
                                        .probe = ls_control_probe};
    ls_monitor_lock(&cluster->monitor); /* who is let in meanwhile is to find it */
    ls_status status = ls_listener_new(&config, &cluster->listener);
    ls_monitor_unlock(&cluster->monitor);
    return status;
}

bool ls_cluster_has_member(const struct ls_cluster *cluster, int rank) {
    return cluster->roster[rank] != 0;
}

bool ls_cluster_knows_survivor(const struct ls_cluster *cluster) {
    for (int rank = 0; rank < cluster->size; rank++)
        if (rank != cluster->rank && cluster->peers[rank].generation) return true;
    return false;
}

bool ls_cluster_data_over_grpc(const struct ls_cluster *cluster) {
    return cluster->config.settings->transport == LS_TRANSPORT_GRPC || ls_security_has_tls(&cluster->security);
}

static ls_status start_rpc(struct ls_cluster *cluster, const struct ls_rpc_tls *tls) {
    struct ls_rpc_config config = {.monitor = &cluster->monitor,
                                   .context = cluster,
                                   .message_max = LS_MESSAGE_MAX,
                                   .tls = tls,
                                   .silence_timeout = (double)LS_FIRST_HELLO_TIMEOUT / (double)LS_SECOND,
                                   .message = ls_control_message,
                                   .closed = ls_control_closed};
    if (ls_cluster_data_over_grpc(cluster)) {
        config.link_arrived = ls_control_link;
        config.link_changed = ls_control_link_changed;
    }
    return ls_rpc_new(&config, &cluster->rpc);
}

static void close_all(const int *fds, int count) {
    for (int i = 0; i < count; i++) (void)close(fds[i]);
}

/* gRPC takes whoever connects, and its port is dead for good once it has met the limit on descriptors: so that is put
 * as far away as this user may. */
static void raise_descriptors(void) {
    struct rlimit limit;
    if (getrlimit(RLIMIT_NOFILE, &limit) != 0) return;
    limit.rlim_cur = limit.rlim_max;
    (void)setrlimit(RLIMIT_NOFILE, &limit);
}

/* gRPC listens where this process has found that it can. */
static ls_status start_tls(struct ls_cluster *cluster, const int *fds, int count) {
    char addresses[LS_MAX_LISTEN][LS_ADDRESS_TEXT];
    const struct ls_security *security = &cluster->security;
    for (int i = 0; i < count; i++) ls_socket_describe_own(fds[i], addresses[i]);
    close_all(fds, count);
    raise_descriptors();
    struct ls_rpc_tls tls = {security->certificate, security->key, security->authority, addresses, count};
    return start_rpc(cluster, &tls);
}

static ls_status start_plain(struct ls_cluster *cluster, const int *fds, int count) {
    ls_status status = start_rpc(cluster, NULL);
    if (!status) return start_listener(cluster, fds, count);
    close_all(fds, count);
    return status;
}

ls_status ls_cluster_draw_incarnation(struct ls_cluster *cluster) {
    uint64_t drawn = 0;
    while (!drawn || drawn == cluster->incarnation)
        if (getrandom(&drawn, sizeof(drawn), 0) != (ssize_t)sizeof(drawn))
            return ls_fail(LS_INTERNAL, "no random numbers: %s", strerror(errno));
    cluster->incarnation = drawn;
    return LS_OK;
}

static ls_status start(struct ls_cluster *cluster) {
    int fds[LS_MAX_LISTEN], count = 0;
    cluster->wake = eventfd(0, EFD_CLOEXEC | EFD_NONBLOCK);
    if (cluster->wake < 0) return ls_fail(LS_RESOURCE_EXHAUSTED, "cannot make an eventfd: %s", strerror(errno));
    ls_status status = ls_cluster_draw_incarnation(cluster);
    if (status) return status;
    status = ls_socket_listen(cluster->config.tf_config, cluster->rank, cluster->config.log, fds, &count);
    if (status) return status;
    bool tls = ls_security_has_tls(&cluster->security);
    status = tls ? start_tls(cluster, fds, count) : start_plain(cluster, fds, count);
    if (!status) status = ls_liveness_start(cluster);
    if (!status && !cluster->rank) ls_security_warn(&cluster->security, cluster->config.tf_config, cluster->config.log);
    return status;
}

static ls_status read_security(struct ls_cluster *cluster) {
    const struct ls_task *own = cluster->peers[cluster->rank].task;
    char name[LS_CERTIFICATE_NAME];
    ls_certify_name(ls_task_type_name(own->type), own->index, name);
    return ls_security_read(cluster->config.settings, name, cluster->config.log, &cluster->security);
}

static ls_status read_elastic(struct ls_cluster *cluster, const char *text) {
    struct ls_elastic elastic;
    ls_status status = ls_elastic_parse(text, cluster->size, &elastic);
    if (status || !elastic.least) return status;
    cluster->least = elastic.least;
    cluster->scaled = elastic.scaled;
    (void)snprintf(cluster->elastic, sizeof(cluster->elastic), "%d%s", elastic.least, elastic.scaled ? ",scaled" : "");
    return LS_OK;
}

static ls_status fill(struct ls_cluster *cluster, const struct ls_cluster_config *config) {
    const struct ls_tf_config *tf = config->tf_config;
    cluster->config = *config;
    cluster->version = config->version ? config->version : ls_version();
    cluster->rank = tf->id_in_cluster;
    cluster->size = tf->num_workers;
    cluster->follows = -1;
    cluster->started = cluster->seeking_since = ls_now();
    cluster->wake = -1;
    cluster->refusals.log = config->log;
    read_host(cluster->host);
    cluster->peers = ls_alloc_array((size_t)cluster->size, sizeof(*cluster->peers));
    cluster->roster = ls_alloc_array((size_t)cluster->size, sizeof(*cluster->roster));
    cluster->present = ls_alloc_array((size_t)cluster->size, sizeof(*cluster->present));
    cluster->members = ls_alloc_array((size_t)cluster->size, sizeof(*cluster->members));
    cluster->proposal.roster = ls_alloc_array((size_t)cluster->size, sizeof(*cluster->proposal.roster));
    if (!cluster->peers || !cluster->roster || !cluster->present || !cluster->members || !cluster->proposal.roster)
        return ls_fail_memory("the peers", (size_t)cluster->size * sizeof(*cluster->peers));
    cluster->ledger.size = cluster->proposal.ledger.size = cluster->count = cluster->size;
    cluster->place = cluster->rank;
    for (int rank = 0; rank < cluster->size; rank++) {
        ls_peer_init(&cluster->peers[rank], ls_tf_config_member(tf, rank), rank);
        cluster->members[rank] = rank;
    }
    return config->elastic ? read_elastic(cluster, config->elastic) : LS_OK;
}

ls_status ls_cluster_new(const struct ls_cluster_config *config, struct ls_cluster **made) {
    ls_status status = check_config(config);
    if (status) return status;
    struct ls_cluster *cluster = ls_alloc(sizeof(*cluster));
    if (!cluster) return ls_fail_memory("a cluster", sizeof(*cluster));
    status = ls_monitor_init(&cluster->monitor);
    if (status) {
        ls_free(cluster);
        return status;
    }
    status = fill(cluster, config);
    if (!status) status = read_security(cluster);
    if (!status) status = start(cluster);
    if (status)
        ls_cluster_free(cluster);
    else
        *made = cluster;
    return status;
}

void ls_cluster_free(struct ls_cluster *cluster) {
    if (!cluster) return;
    ls_monitor_lock(&cluster->monitor);
    struct ls_listener *listener = ls_steal(cluster->listener);
    ls_monitor_unlock(&cluster->monitor);
    ls_listener_free(listener);
    ls_liveness_stop(cluster);
    ls_rpc_free(cluster->rpc);
    for (int rank = 0; cluster->peers && rank < cluster->size; rank++) ls_peer_release(&cluster->peers[rank]);
    ls_free(cluster->peers);
    ls_free(cluster->roster);
    ls_free(cluster->present);
    ls_free(cluster->members);
    ls_free(cluster->proposal.roster);
    ls_ledger_release(&cluster->ledger);
    ls_ledger_release(&cluster->proposal.ledger);
    ls_refusals_report(&cluster->refusals);
    ls_security_release(&cluster->security);
    if (cluster->wake >= 0) (void)close(cluster->wake);
    ls_monitor_destroy(&cluster->monitor);
    ls_free(cluster);
}

int ls_cluster_rank(const struct ls_cluster *cluster) {
    return cluster->place;
}

int ls_cluster_size(const struct ls_cluster *cluster) {
    return cluster->count;
}

static int count_local(const struct ls_cluster *cluster, int end) {
    int count = 0;
    for (int i = 0; i < end; i++)
        count += i == cluster->place || strcmp(cluster->peers[cluster->members[i]].host, cluster->host) == 0;
    return count;
}

int ls_cluster_local_rank(const struct ls_cluster *cluster) {
    return count_local(cluster, cluster->place);
}

int ls_cluster_local_size(const struct ls_cluster *cluster) {
    return count_local(cluster, cluster->count);
}

int ls_cluster_task(const struct ls_cluster *cluster, int rank) {
    return cluster->members[rank];
}

int ls_cluster_tasks(const struct ls_cluster *cluster) {
    return cluster->size;
}

bool ls_cluster_is_elastic(const struct ls_cluster *cluster) {
    return cluster->least > 0;
}

bool ls_cluster_is_scaled(const struct ls_cluster *cluster) {
    return cluster->scaled;
}

const char *ls_cluster_task_name(const struct ls_cluster *cluster, int rank) {
    return rank >= 0 && rank < cluster->count ? cluster->peers[cluster->members[rank]].name : "";
}

static void close_links(struct ls_link **links, int count) {
    for (int rank = 0; rank < count; rank++)
        if (links[rank]) links[rank]->ops->close(links[rank]);
}

/* What was proposed and taken may have failed since, and links may be another proposal's already. */
static ls_status check_attempt(const struct ls_cluster *cluster) {
    const struct ls_proposal *proposal = &cluster->proposal;
    if (cluster->phase >= LS_PHASE_MEMBER || (proposal->taken && !proposal->failed)) return LS_OK;
    return ls_fail(LS_UNAVAILABLE, "another attempt takes the place of this one");
}

ls_status ls_cluster_take_links(struct ls_cluster *cluster, struct ls_link **links) {
    int i = 0;
    ls_monitor_lock(&cluster->monitor);
    ls_status status = check_attempt(cluster);
    for (; i < cluster->count && !status; i++) {
        struct ls_peer *peer = &cluster->peers[cluster->members[i]];
        links[i] = NULL;
        if (i == cluster->place) continue;
        if (!peer->link) status = ls_fail(LS_FAILED_PRECONDITION, "the data links were taken before");
        links[i] = ls_steal(peer->link);
    }
    ls_monitor_unlock(&cluster->monitor);
    if (status) close_links(links, i);
    return status;
}
