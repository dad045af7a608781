/* One other worker: what is known of its process, its streams and its shares. */
#include <stdio.h>
#include <string.h>
#include <unistd.h>

#include "base/memory.h"
#include "cluster/state.h"

void ls_peer_init(struct ls_peer *peer, const struct ls_task *task, int rank) {
    peer->rank = rank;
    peer->task = task;
    peer->data_fd = -1;
    (void)snprintf(peer->name, sizeof(peer->name), "%s:%d", ls_task_type_name(task->type), task->index);
    (void)snprintf(peer->where, sizeof(peer->where), "%s (%s)", peer->name, task->address);
    ls_dial_init(&peer->control);
    ls_dial_init(&peer->data);
}

void ls_stored_share_free(struct ls_stored_share *share) {
    if (!share) return;
    ls_free(share->name);
    ls_free(share->bytes.data);
    ls_free(share);
}

void ls_peer_set_link(struct ls_peer *peer, struct ls_link *link) {
    if (peer->link) peer->link->ops->close(peer->link);
    peer->link = link;
}

void ls_peer_end_data(struct ls_peer *peer) {
    if (peer->data_fd >= 0) (void)close(peer->data_fd);
    if (peer->data_link) peer->data_link->ops->close(peer->data_link);
    peer->data_fd = -1;
    peer->data_link = NULL;
}

void ls_peer_renew(struct ls_peer *peer) {
    peer->left = peer->finished = peer->agreed = false;
    peer->last_share = 0;
    while (peer->shares) {
        struct ls_stored_share *share = peer->shares;
        peer->shares = share->next;
        ls_stored_share_free(share);
    }
}

static void forget(struct ls_peer *peer) {
    ls_peer_set_link(peer, NULL);
    peer->silent = peer->reported = false;
    peer->generation = 0;
    peer->silence = 0;
    peer->rival_since = 0;
    ls_ledger_release(&peer->ledger);
    ls_peer_renew(peer);
}

void ls_peer_release(struct ls_peer *peer) {
    forget(peer);
    ls_peer_end_data(peer);
    ls_dial_reset(&peer->control);
    ls_dial_reset(&peer->data);
}

void ls_peer_adopt(struct ls_peer *peer, uint64_t incarnation) {
    if (peer->incarnation == incarnation) return;
    forget(peer);
    peer->incarnation = incarnation;
}

void ls_peer_sever(struct ls_peer *peer, const char *why) {
    if (peer->in) ls_rpc_drop(peer->in);
    if (peer->out) ls_rpc_drop(peer->out);
    peer->in = peer->out = NULL;
    peer->accepted = false;
    peer->attempt_over = true;
    (void)snprintf(peer->why, sizeof(peer->why), "%s", why);
    ls_peer_adopt(peer, 0);
}

bool ls_peer_connected(const struct ls_peer *peer) {
    return peer->accepted && peer->in;
}

bool ls_peer_complete(const struct ls_peer *peer) {
    return ls_peer_connected(peer) && peer->link;
}

const char *ls_peer_reason(const struct ls_peer *peer) {
    if (!peer->accepted) return peer->control.why[0] ? peer->control.why : "no answer yet";
    if (!peer->in) return "reached, but it has not connected to this worker yet";
    return peer->data.why[0] ? peer->data.why : "its data connection is not made yet";
}

struct ls_stored_share *ls_peer_find_share(const struct ls_peer *peer, uint64_t sequence) {
    struct ls_stored_share *share = peer->shares;
    while (share && share->sequence != sequence) share = share->next;
    return share;
}

struct ls_stored_share *ls_peer_take_share(struct ls_peer *peer, uint64_t sequence) {
    for (struct ls_stored_share **at = &peer->shares; *at; at = &(*at)->next) {
        struct ls_stored_share *share = *at;
        if (share->sequence != sequence) continue;
        *at = share->next;
        return share;
    }
    return NULL;
}
