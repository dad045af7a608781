/* This worker's messages to others, and the word to its own threads that something has changed. With the monitor held.
 */
#include "cluster/outbox.h"

#include <sys/eventfd.h>

#include "base/memory.h"
#include "cluster/peer.h"

void ls_outbox_notify(struct ls_cluster *cluster) {
    ls_monitor_broadcast(&cluster->monitor);
    if (cluster->phase < LS_PHASE_MEMBER) (void)eventfd_write(cluster->net.wake, 1);
}

struct ls_message ls_outbox_message(const struct ls_cluster *cluster, enum ls_message_kind kind) {
    return (struct ls_message){.kind = kind, .incarnation = cluster->incarnation, .generation = cluster->generation};
}

void ls_outbox_send(struct ls_rpc_stream *stream, const struct ls_message *message) {
    LS_CLEANUP(ls_free_pointer) void *data = NULL;
    size_t size;
    if (stream && ls_message_encode(message, &data, &size) == LS_OK) (void)ls_rpc_stream_send(stream, data, size);
}

void ls_outbox_send_all(const struct ls_cluster *cluster, const struct ls_message *message, const uint64_t *roster) {
    LS_CLEANUP(ls_free_pointer) void *data = NULL;
    size_t size;
    if (ls_message_encode(message, &data, &size)) return;
    for (const struct ls_peer *peer = cluster->first_peer; peer; peer = peer->next)
        if (peer->out && (roster ? roster[peer->rank] : peer->accepted))
            (void)ls_rpc_stream_send(peer->out, data, size);
}
