/* The data connections of a proposal: what is kept of each, and the admission of those that arrive. A preface is
 * admitted that shows the number of this generation, a rank and an incarnation that are on its roster, this worker's
 * rank, and an attempt that was not seen before, all signed with the generation's key. The listener's thread admits,
 * and what it has admitted waits until the caller wants it (data_source.c). So no worker waits for another one's caller
 * to be dialled. */
#include "cluster/data/data.h"

#include <stdio.h>
#include <string.h>
#include <sys/eventfd.h>
#include <sys/socket.h>
#include <unistd.h>

#include "base/memory.h"
#include "base/point.h"
#include "base/status.h"
#include "cluster/net/address.h"
#include "cluster/security/certificate.h"
#include "collective/link/tcp.h"
#include "resolver/cluster_view.h"

static bool is_server(const struct ls_data_links *links, int rank) {
    return ls_cluster_view_member(links->tf_config, rank)->type == LS_TASK_PS;
}

/* Two workers of a host share a segment for their calls (collective/shm). */
bool ls_data_link_may_share(const struct ls_data_links *links, int rank, uint32_t channel, int fd) {
    enum ls_transport transport = links->settings->transport;
    bool wanted = transport == LS_TRANSPORT_AUTO || transport == LS_TRANSPORT_SHM;
    bool server = is_server(links, rank) || is_server(links, links->rank);
    return wanted && (server || ls_data_channel_is_one_way(channel)) && !ls_credentials_has_tls(links->credentials) &&
           ls_address_is_within_host(fd);
}

ls_status ls_data_link_make(int fd, struct ls_shm_link *shm, struct ls_link **link) {
    struct ls_link *socket = NULL;
    ls_status status = ls_tcp_link_new(fd, &socket);
    if (!status) *link = shm ? ls_shm_link_connect(shm, socket) : socket;
    return status;
}

static void set_link(struct ls_data_connection *connection, struct ls_link *link) {
    if (connection->link) connection->link->ops->close(connection->link);
    connection->link = link;
}

void ls_data_link_end_opening(struct ls_data_connection *connection) {
    if (connection->fd >= 0) (void)close(connection->fd);
    ls_shm_link_free(ls_steal(connection->offered));
    connection->fd = -1;
}

void ls_data_link_drop(struct ls_data_connection *connection) {
    set_link(connection, NULL);
    ls_data_link_end_opening(connection);
    ls_dial_reset(&connection->dial);
    connection->admitted = 0;
    connection->asked = 0;
    connection->dial.why[0] = 0;
}

/* ---- admission ---- */

/* UNTIMELY: of a generation or a channel that this worker has not heard of yet, or will make no link for any more. It
 * comes again, if it is right. */
enum admission { ADMITTED, UNTIMELY, REFUSED };

/* NULL: the channel is not there, or no memory. */
static struct ls_data_connection *find_data_connection(const struct ls_data_links *links,
                                                       const struct ls_preface *preface) {
    const struct ls_data_channel *channel = ls_data_channel_find(links, preface->channel);
    bool inbound = ls_data_channel_is_one_way(preface->channel);
    return channel ? ls_data_channel_at(channel, preface->rank, inbound) : NULL;
}

static enum admission judge_preface(const struct ls_data_links *links, const struct ls_preface *preface) {
    const struct ls_data_attempt attempt = links->attempt(links->context);
    if (preface->protocol != LS_PROTOCOL_VERSION || preface->to != links->rank) return REFUSED;
    if (preface->rank >= links->size || preface->rank == links->rank) return REFUSED;
    if (preface->rank < links->rank && !ls_data_channel_is_one_way(preface->channel)) return REFUSED;
    bool ahead = preface->generation > attempt.before;
    if (!attempt.number || attempt.number != preface->generation) return ahead ? UNTIMELY : REFUSED;
    if (!ls_preface_is_signed(preface, attempt.key)) return ahead ? UNTIMELY : REFUSED;
    if (preface->incarnation != attempt.roster[preface->rank]) return REFUSED;
    struct ls_data_connection *connection = find_data_connection(links, preface);
    if (!connection) return UNTIMELY;
    if (preface->attempt <= connection->admitted) return REFUSED;
    connection->admitted = preface->attempt;
    ls_reached("admit");
    return attempt.open ? ADMITTED : UNTIMELY;
}

/* The refused may be a stranger, a worker of another run or one that was stopped and has woken. */
static void report_refusal(const struct ls_data_links *links, const char *who, int rank) {
    char text[128];
    (void)snprintf(text, sizeof(text), "it says it is rank %d's, for data, and is not from a process of this group",
                   rank);
    ls_refusals_note(links->refusals, LS_REFUSED_DATA, who, text);
}

static bool certified(const struct ls_data_links *links, const char *certificate, int rank) {
    if (rank >= links->size) return false;
    const struct ls_task *task = ls_cluster_view_member(links->tf_config, rank);
    return !ls_credentials_check(links->credentials, certificate, ls_cluster_view_type_name(task->type), task->index);
}

static void describe(const struct ls_data_links *links, int fd, char address[64]) {
    if (ls_credentials_has_tls(links->credentials))
        ls_relay_describe(links->relay, fd, false, address);
    else
        ls_address_describe(fd, false, address);
}

static void take_in(const struct ls_data_links *links, const struct ls_preface *preface, struct ls_link *link) {
    set_link(find_data_connection(links, preface), link);
    (void)eventfd_write(ls_data_channel_find(links, preface->channel)->wake, 1);
}

static struct ls_shm_link *accept_shm(const struct ls_data_links *links, int fd, const struct ls_preface *preface) {
    static const uint8_t none[LS_PREFACE_MEMORY];
    bool offered = memcmp(preface->memory, none, sizeof(none)) != 0;
    bool may = offered && ls_data_link_may_share(links, preface->rank, preface->channel, fd);
    return may ? ls_shm_link_accept(preface->memory) : NULL;
}

/* fd is the caller's where NULL is returned. */
static struct ls_link *answer(const struct ls_data_links *links, int fd, const struct ls_preface *preface) {
    struct ls_shm_link *shm = accept_shm(links, fd, preface);
    const uint8_t ack = shm ? LS_PREFACE_ACK_MEMORY : LS_PREFACE_ACK;
    struct ls_link *link = NULL;
    if (send(fd, &ack, 1, MSG_NOSIGNAL) != 1 || ls_data_link_make(fd, shm, &link)) ls_shm_link_free(shm);
    return link;
}

bool ls_data_link_arrived(struct ls_data_links *links, int fd, const struct ls_preface *preface) {
    struct ls_link *link = NULL;
    LS_CLEANUP(ls_free_pointer) char *certificate = ls_relay_certificate(links->relay, fd);
    char address[64];
    describe(links, fd, address);
    ls_monitor_lock(links->monitor);
    enum admission admission = certified(links, certificate, preface->rank) ? judge_preface(links, preface) : REFUSED;
    if (admission == ADMITTED) link = answer(links, fd, preface);
    if (link) take_in(links, preface, link);
    ls_monitor_unlock(links->monitor);
    if (admission == REFUSED) report_refusal(links, address, preface->rank);
    if (!link) (void)close(fd);
    return admission == ADMITTED;
}
