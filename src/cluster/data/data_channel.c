/* Channels in a list, few of them: the newest first, number 0 last. */
#include "cluster/data/data.h"

#include <errno.h>
#include <string.h>
#include <sys/eventfd.h>
#include <unistd.h>

#include "base/new.h"
#include "resolver/cluster_view.h"

static int count_places(const struct ls_data_links *links, uint32_t number) {
    return links->size * (ls_data_channel_is_one_way(number) ? 2 : 1);
}

static void drop_connections(const struct ls_data_channel *channel) {
    int count = count_places(channel->links, channel->number);
    for (int i = 0; i < count; i++)
        if (channel->at[i]) ls_data_link_drop(channel->at[i]);
}

static void free_channel(struct ls_data_channel *channel) {
    if (channel->wake >= 0) (void)close(channel->wake);
    for (int i = 0; channel->at && i < channel->places; i++) ls_free(channel->at[i]);
    ls_free(channel->at);
    ls_free(channel);
}

static ls_status make_channel(struct ls_data_links *links, uint32_t number, struct ls_data_channel **made) {
    int count = count_places(links, number);
    LS_NEW(struct ls_data_channel, channel, "a channel");
    channel->links = links;
    channel->number = number;
    channel->places = count;
    channel->wake = eventfd(0, EFD_CLOEXEC | EFD_NONBLOCK);
    ls_status status =
        channel->wake < 0 ? ls_fail(LS_RESOURCE_EXHAUSTED, "cannot make an eventfd: %s", strerror(errno)) : LS_OK;
    channel->at = ls_alloc_array((size_t)count, sizeof(struct ls_data_connection *));
    if (!status && !channel->at)
        status = ls_fail_memory("a channel", (size_t)count * sizeof(struct ls_data_connection *));
    return LS_HAND_OVER(status, made, channel, free_channel(channel));
}

ls_status ls_data_channel_open(struct ls_data_links *links, uint32_t number, struct ls_data_channel **made) {
    struct ls_data_channel *channel = NULL;
    ls_status status = make_channel(links, number, &channel);
    if (status) return status;
    ls_monitor_lock(links->monitor);
    bool taken = ls_data_channel_find(links, number) != NULL;
    if (!taken) {
        channel->next = links->channels;
        links->channels = channel;
    }
    ls_monitor_unlock(links->monitor);
    if (taken) status = ls_fail(LS_ALREADY_EXISTS, "data channel %u is open", (unsigned)number);
    return LS_HAND_OVER(status, made, channel, free_channel(channel));
}

static void unlist(const struct ls_data_channel *channel) {
    struct ls_data_channel **at = &channel->links->channels;
    while (*at != channel) at = &(*at)->next;
    *at = channel->next;
}

void ls_data_channel_close(struct ls_data_channel *channel) {
    if (channel->links && !channel->number) return;
    if (channel->links) {
        struct ls_monitor *monitor = channel->links->monitor;
        ls_monitor_lock(monitor);
        drop_connections(channel);
        unlist(channel);
        ls_monitor_unlock(monitor);
    }
    free_channel(channel);
}

void ls_data_channel_end(struct ls_data_links *links) {
    struct ls_data_channel *channel = ls_steal(links->channels);
    while (channel) {
        struct ls_data_channel *next = channel->next;
        drop_connections(channel);
        channel->links = NULL;
        if (!channel->number) free_channel(channel);
        channel = next;
    }
}

struct ls_data_channel *ls_data_channel_find(const struct ls_data_links *links, uint32_t number) {
    struct ls_data_channel *channel = links->channels;
    while (channel && channel->number != number) channel = channel->next;
    return channel;
}

struct ls_data_connection *ls_data_channel_at(const struct ls_data_channel *channel, int rank, bool inbound) {
    const struct ls_data_links *links = channel->links;
    struct ls_data_connection **place = &channel->at[rank + (inbound ? links->size : 0)];
    if (*place || !(*place = ls_alloc(sizeof(**place)))) return *place;
    (*place)->fd = -1;
    ls_dial_init(&(*place)->dial, links->credentials->identity, links->relay,
                 ls_cluster_view_member(links->tf_config, rank));
    return *place;
}

void ls_data_channel_drop(struct ls_data_links *links) {
    for (const struct ls_data_channel *channel = links->channels; channel; channel = channel->next)
        drop_connections(channel);
}
