/* Channels in a list, few of them: the newest first, number 0 last. */
#include "cluster/data_channel.h"

#include <errno.h>
#include <string.h>
#include <sys/eventfd.h>
#include <unistd.h>

#include "base/new.h"
#include "cluster/auth_tls.h"
#include "cluster/data_link.h"
#include "resolver/cluster_view.h"

static int count_places(const struct ls_cluster *cluster, uint32_t number) {
    return cluster->size * (ls_data_channel_is_one_way(number) ? 2 : 1);
}

static void drop_connections(const struct ls_data_channel *channel) {
    int count = count_places(channel->cluster, channel->number);
    for (int i = 0; i < count; i++)
        if (channel->peers[i]) ls_data_link_drop(channel->peers[i]);
}

static void free_channel(struct ls_data_channel *channel) {
    if (channel->wake >= 0) (void)close(channel->wake);
    for (int i = 0; channel->peers && i < channel->places; i++) ls_free(channel->peers[i]);
    ls_free(channel->peers);
    ls_free(channel);
}

static ls_status make_channel(struct ls_cluster *cluster, uint32_t number, struct ls_data_channel **made) {
    int count = count_places(cluster, number);
    LS_NEW(struct ls_data_channel, channel, "a channel");
    channel->cluster = cluster;
    channel->number = number;
    channel->places = count;
    channel->wake = eventfd(0, EFD_CLOEXEC | EFD_NONBLOCK);
    int error = errno;
    channel->peers = ls_alloc_array((size_t)count, sizeof(struct ls_peer_data *));
    if (channel->wake >= 0 && channel->peers) {
        *made = channel;
        return LS_OK;
    }
    ls_status status = channel->wake < 0 ? ls_fail(LS_RESOURCE_EXHAUSTED, "cannot make an eventfd: %s", strerror(error))
                                         : ls_fail_memory("a channel", (size_t)count * sizeof(struct ls_peer_data *));
    free_channel(channel);
    return status;
}

ls_status ls_data_channel_open(struct ls_cluster *cluster, uint32_t number, struct ls_data_channel **made) {
    struct ls_data_channel *channel = NULL;
    ls_status status = make_channel(cluster, number, &channel);
    if (status) return status;
    ls_monitor_lock(&cluster->monitor);
    bool taken = ls_data_channel_find(cluster, number) != NULL;
    if (!taken) {
        channel->next = cluster->net.channels;
        cluster->net.channels = channel;
    }
    ls_monitor_unlock(&cluster->monitor);
    if (taken) {
        free_channel(channel);
        return ls_fail(LS_ALREADY_EXISTS, "data channel %u is open", (unsigned)number);
    }
    *made = channel;
    return LS_OK;
}

static void unlist(const struct ls_data_channel *channel) {
    struct ls_data_channel **at = &channel->cluster->net.channels;
    while (*at != channel) at = &(*at)->next;
    *at = channel->next;
}

void ls_data_channel_close(struct ls_data_channel *channel) {
    if (channel->cluster && !channel->number) return;
    if (channel->cluster) {
        struct ls_monitor *monitor = &channel->cluster->monitor;
        ls_monitor_lock(monitor);
        drop_connections(channel);
        unlist(channel);
        ls_monitor_unlock(monitor);
    }
    free_channel(channel);
}

void ls_data_channel_end(struct ls_cluster *cluster) {
    struct ls_data_channel *channel = ls_steal(cluster->net.channels);
    while (channel) {
        struct ls_data_channel *next = channel->next;
        drop_connections(channel);
        channel->cluster = NULL;
        if (!channel->number) free_channel(channel);
        channel = next;
    }
}

struct ls_data_channel *ls_data_channel_find(const struct ls_cluster *cluster, uint32_t number) {
    struct ls_data_channel *channel = cluster->net.channels;
    while (channel && channel->number != number) channel = channel->next;
    return channel;
}

struct ls_peer_data *ls_data_channel_peer(const struct ls_data_channel *channel, int rank, bool inbound) {
    const struct ls_cluster *cluster = channel->cluster;
    struct ls_peer_data **place = &channel->peers[rank + (inbound ? cluster->size : 0)];
    if (*place || !(*place = ls_alloc(sizeof(**place)))) return *place;
    const struct ls_task *task = ls_cluster_view_member(cluster->config.tf_config, rank);
    char name[LS_CERTIFICATE_NAME];
    (*place)->fd = -1;
    ls_dial_init(&(*place)->dial);
    ls_auth_tls_name(ls_cluster_view_type_name(task->type), task->index, name);
    ls_dial_secure(&(*place)->dial, cluster->net.credentials.identity, cluster->net.relay, name);
    return *place;
}

void ls_data_channel_drop(struct ls_cluster *cluster) {
    for (const struct ls_data_channel *channel = cluster->net.channels; channel; channel = channel->next)
        drop_connections(channel);
}
