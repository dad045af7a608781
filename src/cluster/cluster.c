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
#include "base/digest.h"
#include "base/new.h"
#include "cluster/auth_tls.h"
#include "cluster/net/address.h"
#include "cluster/cluster_private.h"
#include "cluster/heartbeat.h"
#include "cluster/exchange.h"
#include "cluster/peer.h"
#include "cluster/star.h"
#include "cluster/servers.h"
#include "cluster/rpc/rpc_stream.h"
#include "cluster/security/certificate.h"
#include "resolver/tf_config.h"

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
    const struct ls_cluster_view *tf = config->tf_config;
    int tasks = tf->num_workers + tf->num_servers, own = ls_cluster_view_rank(tf);
    if (own < 0 || own >= tasks || !tf->num_workers)
        return ls_fail(LS_INVALID_ARGUMENT, "only chief, worker and ps tasks of a cluster with workers can join it");
    for (int rank = 0; rank < tasks; rank++)
        if (!ls_cluster_view_member(tf, rank)) return ls_fail(LS_INTERNAL, "TF_CONFIG has no task of rank %d", rank);
    return LS_OK;
}

static void control_connection(void *context, int fd) {
    struct ls_cluster *cluster = context;
    LS_HOLD(&cluster->monitor);
    ls_rpc_serve(cluster->net.rpc, fd);
}

static bool data_connection(void *context, int fd, const struct ls_preface *preface) {
    struct ls_cluster *cluster = context;
    return ls_data_link_arrived(&cluster->net.data, fd, preface);
}

static void asked_for_addresses(void *context, int fd) {
    const struct ls_cluster *cluster = context;
    cluster->config.meet(cluster->config.rendezvous, fd, cluster->net.relay);
}

static void identify(void *context, int fd, struct ls_rpc_caller *caller) {
    const struct ls_cluster *cluster = context;
    ls_relay_describe(cluster->net.relay, fd, false, caller->address);
    caller->certificate = ls_relay_certificate(cluster->net.relay, fd);
}

/* Twice over what this worker's own Hello takes, and room for one of another, larger cluster: it is to be told so. */
static size_t hello_most(const struct ls_cluster *cluster) {
    return 65536 + 2 * strlen(cluster->config.tf_config->canonical);
}

static ls_status start_listener(struct ls_cluster *cluster, const int *fds, int count) {
    struct ls_listener_config config = {.listening = fds,
                                        .listening_count = count,
                                        .refusals = &cluster->net.refusals,
                                        .relay = cluster->net.relay,
                                        .identity = cluster->net.credentials.identity,
                                        .hello_most = hello_most(cluster),
                                        .context = cluster,
                                        .control = control_connection,
                                        .data = data_connection,
                                        .probe = ls_probe_server_answer,
                                        .meet = cluster->config.rendezvous ? asked_for_addresses : NULL,
                                        .differed = ls_auth_tls_differed};
    LS_HOLD(&cluster->monitor); /* who is let in meanwhile is to find it */
    return ls_listener_new(&config, &cluster->net.listener);
}

#define LONGEST_CLUSTER 16384 /* bytes of TF_CONFIG's tasks that a Hello has: some 500 workers */
#define SPARE_STREAMS   1024  /* of strangers, and of those that are just ending */

static ls_status start_rpc(struct ls_cluster *cluster) {
    struct ls_rpc_config config = {.monitor = &cluster->monitor,
                                   .context = cluster,
                                   .message_max = LS_MESSAGE_MAX,
                                   .streams_most = SPARE_STREAMS + 2 * cluster->size,
                                   .identify = identify,
                                   .silence_timeout = (double)LS_FIRST_HELLO_TIMEOUT / (double)LS_SECOND,
                                   .message = ls_control_message,
                                   .closed = ls_control_closed};
    return ls_rpc_new(&config, &cluster->net.rpc);
}

static ls_status start_port(struct ls_cluster *cluster, const int *fds, int count) {
    ls_status status = ls_relay_new(&cluster->net.refusals, &cluster->net.relay);
    cluster->net.data.relay = cluster->net.relay;
    if (!status) status = start_rpc(cluster);
    if (!status) return start_listener(cluster, fds, count);
    ls_address_close(fds, count);
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

#define DESCRIPTORS_A_PEER 5
#define OWN_DESCRIPTORS    256 /* of the program, its data and its links */

/* One of the lowest ranks holds DESCRIPTORS_A_PEER descriptors for each other worker: two streams, and what watches
 * over them. The usual limit of 1,024 is enough for 200 workers, so the soft limit is raised towards the hard one. */
static void raise_descriptor_limit(const struct ls_cluster *cluster) {
    struct rlimit limit;
    rlim_t needed = OWN_DESCRIPTORS + (rlim_t)cluster->size * DESCRIPTORS_A_PEER;
    if (getrlimit(RLIMIT_NOFILE, &limit) || limit.rlim_cur >= needed) return;
    limit.rlim_cur = limit.rlim_max < needed ? limit.rlim_max : needed;
    bool enough = !setrlimit(RLIMIT_NOFILE, &limit) && limit.rlim_cur >= needed;
    if (!enough && cluster->rank < cluster->net.star.window)
        ls_log_warning(cluster->config.log,
                       "this worker may need %llu descriptors, and may have %llu: raise the limit (ulimit -n)",
                       (unsigned long long)needed, (unsigned long long)limit.rlim_cur);
}

/* One line where neither token nor TLS guards a cluster of several hosts. */
static void warn_unprotected(const struct ls_cluster *cluster) {
    const struct ls_credentials *credentials = &cluster->net.credentials;
    if (credentials->token_size || credentials->certificate) return;
    for (int rank = 0; rank < cluster->workers; rank++) {
        const char *host = ls_cluster_view_member(cluster->config.tf_config, rank)->host;
        if (ls_tf_config_address_is_loopback(host) || ls_tf_config_address_is_nowhere(host)) continue;
        ls_log_warning(cluster->config.log,
                       "whoever reaches this cluster's ports can join it or listen: set LOCKSTEP_TOKEN_FILE, or "
                       "LOCKSTEP_TLS_* (lockstep certs), unless the network is trusted");
        return;
    }
}

static ls_status start_cluster(struct ls_cluster *cluster) {
    int fds[LS_MAX_LISTEN], count = 0;
    raise_descriptor_limit(cluster);
    cluster->net.wake = eventfd(0, EFD_CLOEXEC | EFD_NONBLOCK);
    if (cluster->net.wake < 0) return ls_fail(LS_RESOURCE_EXHAUSTED, "cannot make an eventfd: %s", strerror(errno));
    ls_status status = ls_cluster_draw_incarnation(cluster);
    if (status) return status;
    struct ls_task own = *cluster->peers[cluster->rank]->task;
    const char *host;
    (void)ls_moved_place(&cluster->net.moved, cluster->rank, &host, &own.port);
    own.host = (char *)host;
    status = ls_address_listen(cluster->config.tf_config, &own, cluster->config.log, fds, &count);
    if (status) return status;
    ls_heartbeat_prepare(cluster);
    status = start_port(cluster, fds, count);
    if (!status) status = ls_heartbeat_start(cluster);
    if (!status && !cluster->rank) warn_unprotected(cluster);
    return status;
}

static ls_status read_security(struct ls_cluster *cluster) {
    const struct ls_task *own = cluster->peers[cluster->rank]->task;
    char name[LS_CERTIFICATE_NAME];
    ls_certificate_name(ls_cluster_view_type_name(own->type), own->index, name);
    return ls_credentials_read(cluster->config.settings, name, cluster->config.log, &cluster->net.credentials);
}

static ls_status read_elastic(struct ls_cluster *cluster, const char *text) {
    struct ls_elastic elastic;
    int64_t start = cluster->config.settings->elastic_start;
    ls_status status = ls_quorum_parse_elastic(text, cluster->workers, &elastic);
    if (status || !elastic.least) return status;
    cluster->elastic.least = elastic.least;
    cluster->elastic.scaled = elastic.scaled;
    if (start > cluster->workers || (start && start < elastic.least))
        return ls_fail(LS_INVALID_ARGUMENT,
                       "LOCKSTEP_ELASTIC_START='%lld' is not from %d to %d, MIN and MAX of LOCKSTEP_ELASTIC",
                       (long long)start, elastic.least, cluster->workers);
    cluster->elastic.start = start ? (int)start : cluster->workers;
    (void)snprintf(cluster->terms.elastic, sizeof(cluster->terms.elastic), "%d%s", elastic.least,
                   elastic.scaled ? ",scaled" : "");
    return LS_OK;
}

/* The tasks of thousands of workers in each Hello would be gigabytes at the lowest ranks. Their counts come first in
 * the text, and are said in any case. */
static ls_status fill_terms(struct ls_cluster *cluster) {
    const char *text = cluster->config.tf_config->canonical;
    const char *tasks = strstr(text, "]=");
    char hex[65];
    cluster->terms.cluster = text;
    if (strlen(text) <= LONGEST_CLUSTER || !tasks) return LS_OK;
    while (tasks > text && tasks[-1] != '\n') tasks--;
    ls_status status = ls_digest_sha256(text, strlen(text), hex);
    (void)snprintf(cluster->terms.digest, sizeof(cluster->terms.digest), "%.*scluster.sha256=%s\n", (int)(tasks - text),
                   text, hex);
    cluster->terms.cluster = cluster->terms.digest;
    return status;
}

static struct ls_data_attempt present_attempt(const void *context) {
    const struct ls_cluster *cluster = context;
    const struct ls_proposal *proposal = &cluster->proposal;
    return (struct ls_data_attempt){
        .number = proposal->number,
        .before = cluster->phase < LS_PHASE_MEMBER ? cluster->generation : UINT64_MAX,
        .incarnation = cluster->incarnation,
        .roster = proposal->roster,
        .key = proposal->key,
        .open = !proposal->failed && cluster->phase >= LS_PHASE_FORMING && cluster->phase < LS_PHASE_ENDED,
        .stands = cluster->phase >= LS_PHASE_MEMBER || (proposal->taken && !proposal->failed)};
}

static ls_status open_data(struct ls_cluster *cluster) {
    struct ls_connections *net = &cluster->net;
    struct ls_data_channel *channel;
    cluster->net.data = (struct ls_data_links){.monitor = &cluster->monitor,
                                               .tf_config = cluster->config.tf_config,
                                               .settings = cluster->config.settings,
                                               .credentials = &net->credentials,
                                               .refusals = &net->refusals,
                                               .moved = &net->moved,
                                               .rank = cluster->rank,
                                               .size = cluster->size,
                                               .attempt = present_attempt,
                                               .context = cluster};
    return ls_data_channel_open(&cluster->net.data, 0, &channel);
}

static ls_status take_config(struct ls_cluster *cluster, const struct ls_cluster_config *config) {
    const struct ls_cluster_view *tf = config->tf_config;
    cluster->config = *config;
    cluster->terms.version = config->version ? config->version : ls_version();
    cluster->rank = ls_cluster_view_rank(tf);
    cluster->workers = tf->num_workers;
    cluster->size = tf->num_workers + tf->num_servers;
    cluster->next.follows = cluster->end.refusal.stranger = -1;
    (void)snprintf(cluster->terms.options, sizeof(cluster->terms.options), "%s",
                   config->options ? config->options : "");
    cluster->next.started = cluster->next.seeking_since = ls_now();
    cluster->net.moved = (struct ls_moved){.settings = config->settings, .tf_config = tf, .size = cluster->size};
    cluster->net.refusals.log = config->log;
    cluster->net.refusals.activity = config->activity;
    read_host(cluster->terms.host);
    cluster->peers = ls_alloc_array((size_t)cluster->size, sizeof(*cluster->peers));
    cluster->roster = ls_alloc_array(4 * (size_t)cluster->size, sizeof(*cluster->roster));
    cluster->group.members = ls_alloc_array((size_t)cluster->size, sizeof(*cluster->group.members));
    if (!cluster->peers || !cluster->roster || !cluster->group.members)
        return ls_fail_memory("the ranks", (size_t)cluster->size * sizeof(*cluster->roster));
    cluster->next.present = cluster->roster + cluster->size;
    cluster->proposal.roster = cluster->next.present + cluster->size;
    cluster->proposal.hosts = cluster->proposal.roster + cluster->size;
    cluster->elastic.ledger.size = cluster->proposal.ledger.size = cluster->size;
    cluster->proposal.ledger.voters = cluster->group.size = cluster->workers;
    cluster->group.rank = cluster->rank;
    for (int rank = 0; rank < cluster->size; rank++) cluster->group.members[rank] = rank;
    if (!ls_peer_meet(cluster, cluster->rank)) return ls_fail_memory("a peer", sizeof(struct ls_peer));
    ls_star_reset(cluster);
    ls_status status = fill_terms(cluster);
    if (!status && config->elastic && !ls_servers_has(cluster, cluster->rank))
        status = read_elastic(cluster, config->elastic);
    return status ? status : open_data(cluster);
}

ls_status ls_cluster_new(const struct ls_cluster_config *config, struct ls_cluster **made) {
    ls_status status = check_config(config);
    if (status) return status;
    LS_NEW(struct ls_cluster, cluster, "a cluster");
    cluster->net.wake = -1;
    status = ls_monitor_init(&cluster->monitor);
    if (!status) status = take_config(cluster, config);
    if (!status) status = ls_moved_open(&cluster->net.moved);
    if (!status) status = read_security(cluster);
    if (!status) status = start_cluster(cluster);
    return LS_HAND_OVER(status, made, cluster, ls_cluster_free(cluster));
}

void ls_cluster_free(struct ls_cluster *cluster) {
    if (!cluster) return;
    ls_monitor_lock(&cluster->monitor);
    struct ls_listener *listener = ls_steal(cluster->net.listener);
    ls_monitor_unlock(&cluster->monitor);
    ls_listener_free(listener);
    ls_heartbeat_stop(cluster);
    ls_rpc_free(cluster->net.rpc);
    ls_relay_free(cluster->net.relay);
    ls_data_channel_end(&cluster->net.data);
    ls_peer_free_all(cluster);
    ls_moved_release(&cluster->net.moved);
    ls_free(cluster->roster);
    ls_free(cluster->group.members);
    ls_exchange_release(cluster);
    ls_quorum_release(&cluster->elastic.ledger);
    ls_closed_release(&cluster->elastic.closed);
    ls_closed_release(&cluster->elastic.ended);
    ls_quorum_release(&cluster->proposal.ledger);
    ls_refusals_report(&cluster->net.refusals);
    ls_credentials_release(&cluster->net.credentials);
    if (cluster->net.wake >= 0) (void)close(cluster->net.wake);
    ls_monitor_destroy(&cluster->monitor);
    ls_free(cluster);
}

const struct ls_membership *ls_cluster_group(const struct ls_cluster *cluster) {
    return &cluster->group;
}

static int count_local(const struct ls_cluster *cluster, int end) {
    int count = 0;
    for (int i = 0; i < end; i++)
        count += cluster->proposal.hosts[cluster->group.members[i]] == cluster->proposal.hosts[cluster->rank];
    return count;
}

bool ls_cluster_has_convened(const struct ls_cluster *cluster) {
    return ls_star_coordinates(cluster);
}

bool ls_cluster_has_lost_server(struct ls_cluster *cluster) {
    LS_HOLD(&cluster->monitor);
    return cluster->failure.lost && ls_servers_has(cluster, cluster->failure.root);
}

bool ls_cluster_has_entered(struct ls_cluster *cluster) {
    LS_HOLD(&cluster->monitor);
    return cluster->generation;
}

bool ls_cluster_has_worker(struct ls_cluster *cluster) {
    LS_HOLD(&cluster->monitor);
    for (const struct ls_peer *peer = cluster->first_peer; peer; peer = peer->next)
        if (!ls_servers_has(cluster, peer->rank) && (peer->accepted || peer->in)) return true;
    return false;
}

bool ls_cluster_is_first(struct ls_cluster *cluster) {
    LS_HOLD(&cluster->monitor);
    for (const struct ls_peer *peer = cluster->first_peer; peer; peer = peer->next)
        if (peer->rank < cluster->rank && ls_peer_is_member(cluster, peer->rank) && peer->accepted &&
            !(cluster->failure.lost && cluster->failure.root == peer->rank)) /* another one may have told of it */
            return false;
    return true;
}

int ls_cluster_local_rank(const struct ls_cluster *cluster) {
    return count_local(cluster, cluster->group.rank);
}

int ls_cluster_local_size(const struct ls_cluster *cluster) {
    return count_local(cluster, cluster->group.size);
}

uint64_t ls_cluster_host(const struct ls_cluster *cluster, int rank) {
    return cluster->proposal.hosts[cluster->group.members[rank]];
}

void ls_cluster_await_servers(struct ls_cluster *cluster, bool all) {
    LS_HOLD(&cluster->monitor);
    cluster->next.all_servers = all;
}

bool ls_cluster_is_elastic(const struct ls_cluster *cluster) {
    return cluster->elastic.least > 0;
}

bool ls_cluster_is_scaled(const struct ls_cluster *cluster) {
    return cluster->elastic.scaled;
}

const char *ls_cluster_task_name(const struct ls_cluster *cluster, int rank) {
    if (rank < 0 || rank >= cluster->group.size + cluster->group.servers) return "";
    return ls_cluster_view_member(cluster->config.tf_config, cluster->group.members[rank])->name;
}

ls_status ls_cluster_links(struct ls_cluster *cluster, uint32_t channel, const int *members, int count,
                           struct ls_link_source **source) {
    LS_CLEANUP(ls_free_pointer) LS_NEW_ARRAY(int, ranks, (size_t)count, "a source of links");
    for (int i = 0; i < count; i++) ranks[i] = cluster->group.members[members ? members[i] : i];
    return ls_data_source_new(&cluster->net.data, channel, ranks, count, source);
}
