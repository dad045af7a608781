/* The data connections of a proposal: what is kept of each, and the admission of those that arrive. A preface is
 * admitted that shows the number of this generation, a rank and an incarnation that are on its roster, this worker's
 * rank, and an attempt that was not seen before, all signed with the generation's key. The listener's thread admits,
 * and what it has admitted waits until the caller wants it (data_source.c). So no worker waits for another one's caller
 * to be dialled. */
#include "cluster/data_link.h"

#include <stdio.h>
#include <string.h>
#include <sys/eventfd.h>
#include <sys/socket.h>
#include <unistd.h>

#include "base/random.h"
#include "base/memory.h"
#include "base/point.h"
#include "base/status.h"
#include "cluster/auth_tls.h"
#include "cluster/auth_token.h"
#include "cluster/data_channel.h"
#include "cluster/net/address.h"
#include "collective/link/shm.h"
#include "collective/link/socket.h"
#include "resolver/cluster_view.h"

static bool is_server(const struct ls_cluster *cluster, int rank) {
    return ls_cluster_view_member(cluster->config.tf_config, rank)->type == LS_TASK_PS;
}

/* Two workers of a host share a segment for their calls (collective/shm). */
bool ls_data_link_may_share(const struct ls_cluster *cluster, int rank, uint32_t channel, int fd) {
    enum ls_transport transport = cluster->config.settings->transport;
    bool wanted = transport == LS_TRANSPORT_AUTO || transport == LS_TRANSPORT_SHM;
    bool server = is_server(cluster, rank) || is_server(cluster, cluster->rank);
    return wanted && (server || ls_data_channel_is_one_way(channel)) &&
           !ls_credentials_has_tls(&cluster->net.credentials) && ls_address_is_within_host(fd);
}

ls_status ls_data_link_make(int fd, struct ls_shm_link *shm, struct ls_link **link) {
    struct ls_link *socket = NULL;
    ls_status status = ls_tcp_link_new(fd, &socket);
    if (!status) *link = shm ? ls_shm_link_connect(shm, socket) : socket;
    return status;
}

static void set_link(struct ls_peer_data *data, struct ls_link *link) {
    if (data->link) data->link->ops->close(data->link);
    data->link = link;
}

void ls_data_link_end_opening(struct ls_peer_data *data) {
    if (data->fd >= 0) (void)close(data->fd);
    ls_shm_link_free(ls_steal(data->offered));
    data->fd = -1;
}

void ls_data_link_drop(struct ls_peer_data *data) {
    set_link(data, NULL);
    ls_data_link_end_opening(data);
    ls_dial_reset(&data->dial);
    data->admitted = 0;
    data->asked = 0;
    data->dial.why[0] = 0;
}

bool ls_data_link_draw(struct ls_cluster *cluster, uint8_t drawn[LS_PROOF_SIZE]) {
    return !ls_entropy_fill(drawn, LS_PROOF_SIZE) && ls_auth_token_key(cluster, drawn, cluster->proposal.key);
}

bool ls_data_link_is_open(const struct ls_cluster *cluster, uint64_t generation) {
    const struct ls_proposal *proposal = &cluster->proposal;
    return proposal->number == generation && !proposal->failed && cluster->phase >= LS_PHASE_FORMING &&
           cluster->phase < LS_PHASE_ENDED;
}

/* ---- admission ---- */

/* UNTIMELY: of a generation or a channel that this worker has not heard of yet, or will make no link for any more. It
 * comes again, if it is right. */
enum admission { ADMITTED, UNTIMELY, REFUSED };

/* NULL: the channel is not there, or no memory. */
static struct ls_peer_data *find_data(const struct ls_cluster *cluster, const struct ls_preface *preface) {
    const struct ls_data_channel *channel = ls_data_channel_find(cluster, preface->channel);
    bool inbound = ls_data_channel_is_one_way(preface->channel);
    return channel ? ls_data_channel_peer(channel, preface->rank, inbound) : NULL;
}

static enum admission admit(const struct ls_cluster *cluster, const struct ls_preface *preface) {
    const struct ls_proposal *proposal = &cluster->proposal;
    if (preface->protocol != LS_PROTOCOL_VERSION || preface->to != cluster->rank) return REFUSED;
    if (preface->rank >= cluster->size || preface->rank == cluster->rank) return REFUSED;
    if (preface->rank < cluster->rank && !ls_data_channel_is_one_way(preface->channel)) return REFUSED;
    bool ahead = cluster->phase < LS_PHASE_MEMBER && preface->generation > cluster->generation;
    if (!proposal->number || proposal->number != preface->generation) return ahead ? UNTIMELY : REFUSED;
    if (!ls_preface_is_signed(preface, proposal->key)) return ahead ? UNTIMELY : REFUSED;
    if (preface->incarnation != proposal->roster[preface->rank]) return REFUSED;
    struct ls_peer_data *data = find_data(cluster, preface);
    if (!data) return UNTIMELY;
    if (preface->attempt <= data->admitted) return REFUSED;
    data->admitted = preface->attempt;
    ls_reached("admit");
    return ls_data_link_is_open(cluster, preface->generation) ? ADMITTED : UNTIMELY;
}

/* The refused may be a stranger, a worker of another run or one that was stopped and has woken. */
static void report_refusal(struct ls_cluster *cluster, const char *who, int rank) {
    char text[128];
    (void)snprintf(text, sizeof(text), "it says it is rank %d's, for data, and is not from a process of this group",
                   rank);
    ls_refusals_note(&cluster->net.refusals, LS_REFUSED_DATA, who, text);
}

static bool certified(struct ls_cluster *cluster, const struct ls_rpc_caller *caller, int rank) {
    char text[LS_ERROR_SIZE];
    if (rank >= cluster->size) return false;
    const struct ls_task *task = ls_cluster_view_member(cluster->config.tf_config, rank);
    return ls_auth_tls_caller(cluster, caller, ls_cluster_view_type_name(task->type), task->index, text);
}

static void identify(const struct ls_cluster *cluster, int fd, struct ls_rpc_caller *caller) {
    caller->certificate = ls_relay_certificate(cluster->net.relay, fd);
    if (ls_credentials_has_tls(&cluster->net.credentials))
        ls_relay_describe(cluster->net.relay, fd, caller->address);
    else
        ls_address_describe(fd, caller->address);
}

static void take_in(const struct ls_cluster *cluster, const struct ls_preface *preface, struct ls_link *link) {
    set_link(find_data(cluster, preface), link);
    (void)eventfd_write(ls_data_channel_find(cluster, preface->channel)->wake, 1);
}

static struct ls_shm_link *accept_shm(const struct ls_cluster *cluster, int fd, const struct ls_preface *preface) {
    static const uint8_t none[LS_PREFACE_MEMORY];
    bool offered = memcmp(preface->memory, none, sizeof(none)) != 0;
    bool may = offered && ls_data_link_may_share(cluster, preface->rank, preface->channel, fd);
    return may ? ls_shm_link_accept(preface->memory) : NULL;
}

/* fd is the caller's where NULL is returned. */
static struct ls_link *answer(const struct ls_cluster *cluster, int fd, const struct ls_preface *preface) {
    struct ls_shm_link *shm = accept_shm(cluster, fd, preface);
    const uint8_t ack = shm ? LS_PREFACE_ACK_MEMORY : LS_PREFACE_ACK;
    struct ls_link *link = NULL;
    if (send(fd, &ack, 1, MSG_NOSIGNAL) != 1 || ls_data_link_make(fd, shm, &link)) ls_shm_link_free(shm);
    return link;
}

bool ls_data_link_arrived(void *context, int fd, const struct ls_preface *preface) {
    struct ls_cluster *cluster = context;
    struct ls_link *link = NULL;
    struct ls_rpc_caller caller;
    identify(cluster, fd, &caller);
    ls_monitor_lock(&cluster->monitor);
    enum admission admission = certified(cluster, &caller, preface->rank) ? admit(cluster, preface) : REFUSED;
    if (admission == ADMITTED) link = answer(cluster, fd, preface);
    if (link) take_in(cluster, preface, link);
    ls_monitor_unlock(&cluster->monitor);
    if (admission == REFUSED) report_refusal(cluster, caller.address, preface->rank);
    ls_free(caller.certificate);
    if (!link) (void)close(fd);
    return admission == ADMITTED;
}
