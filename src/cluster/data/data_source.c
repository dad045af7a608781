/* The source of the data links of one channel in a generation: the caller's thread dials, while it waits for a link, by
 * one small state machine a peer (resolve, connect, preface, answer). */
#include "cluster/data/data.h"

#include <stdio.h>
#include <sys/eventfd.h>
#include <sys/socket.h>

#include "base/clock.h"
#include "base/deadlines.h"
#include "base/new.h"
#include "base/point.h"
#include "resolver/cluster_view.h"

/* ---- opening ---- */

static void fail_opening(struct ls_data_connection *connection, const char *why) {
    ls_data_link_end_opening(connection);
    ls_dial_fail(&connection->dial, why);
}

/* ---- the source of a generation ---- */

struct data_source {
    struct ls_link_source source; /* first */
    struct ls_data_links *links;  /* borrowed; not used when the source is closed: it may be gone then */
    struct ls_data_channel *channel;
    bool own; /* the channel ends with it */
    uint64_t generation;
    int count;
    int ranks[]; /* [count] of the cluster */
};

static struct data_source *source_of(struct ls_link_source *source) {
    return (struct data_source *)(void *)source;
}

/* One connection: with whom, and what is kept of it. */
struct end {
    struct ls_data_links *links;
    uint32_t channel;
    int rank;
    const struct ls_task *task;
    struct ls_data_connection *connection; /* NULL: there is no memory */
    bool dials;                            /* this worker does */
};

/* In a one-way channel places from count on are the connections from each rank. With the monitor held. */
static struct end end_of(const struct data_source *source, int place) {
    struct ls_data_links *links = source->links;
    bool one_way = ls_data_channel_is_one_way(source->channel->number), inbound = place >= source->count;
    int rank = source->ranks[place % source->count];
    return (struct end){.links = links,
                        .channel = source->channel->number,
                        .rank = rank,
                        .task = ls_cluster_view_member(links->tf_config, rank),
                        .connection = ls_data_channel_at(source->channel, rank, inbound),
                        .dials = one_way ? !inbound : rank < links->rank};
}

/* ---- dialling ---- */

static void open_link(const struct end *end, int fd) {
    const struct ls_data_links *links = end->links;
    const struct ls_data_attempt attempt = links->attempt(links->context);
    uint8_t bytes[LS_PREFACE_SIZE];
    struct ls_preface preface = {.protocol = LS_PROTOCOL_VERSION,
                                 .rank = links->rank,
                                 .to = end->rank,
                                 .generation = attempt.number,
                                 .incarnation = attempt.incarnation,
                                 .attempt = ++end->connection->attempts,
                                 .channel = end->channel};
    if (ls_data_link_may_share(links, end->rank, end->channel, fd))
        end->connection->offered = ls_shm_link_offer(preface.memory);
    (void)ls_preface_sign(&preface, attempt.key); /* one without a proof is refused */
    ls_preface_encode(&preface, bytes);
    end->connection->deadline = ls_now() + LS_HELLO_TIMEOUT;
    end->connection->fd = fd;
    if (send(fd, bytes, sizeof(bytes), MSG_NOSIGNAL) != LS_PREFACE_SIZE)
        fail_opening(end->connection, "its data connection was closed");
    ls_reached("dial");
}

enum answer { ANSWER_NONE, ANSWER_YES, ANSWER_MEMORY, ANSWER_NO };

static enum answer read_byte(const struct ls_data_connection *connection) {
    uint8_t answer = 0;
    ssize_t size = recv(connection->fd, &answer, 1, MSG_DONTWAIT);
    if (size < 0) return ANSWER_NONE;
    if (size == 1 && answer == LS_PREFACE_ACK_MEMORY && connection->offered) return ANSWER_MEMORY;
    return size == 1 && answer == LS_PREFACE_ACK ? ANSWER_YES : ANSWER_NO;
}

static void accept_link(struct ls_data_connection *connection, bool shares) {
    struct ls_link *link = NULL;
    struct ls_shm_link *shm = ls_steal(connection->offered), *used = shares ? shm : NULL;
    if (ls_data_link_make(connection->fd, used, &link))
        fail_opening(connection, ls_error());
    else
        connection->fd = -1;
    if (!used || !link) ls_shm_link_free(shm);
    connection->link = link;
}

static void read_link_answer(struct ls_data_connection *connection) {
    enum answer answer = read_byte(connection);
    if (answer == ANSWER_YES || answer == ANSWER_MEMORY)
        accept_link(connection, answer == ANSWER_MEMORY);
    else if (answer == ANSWER_NO)
        fail_opening(connection, "its data connection was refused");
    else if (ls_now() >= connection->deadline)
        fail_opening(connection, "its data connection gets no answer");
}

static void dial_on(const struct end *end) {
    if (end->connection->fd >= 0) {
        read_link_answer(end->connection);
        return;
    }
    int fd = ls_moved_dial(end->links->moved, end->rank, &end->connection->dial);
    if (fd >= 0) open_link(end, fd);
}

/* ---- the functions of a source ---- */

/* The control plane holds the other one for alive, and it cannot be reached. */
static ls_status give_up_dial(const struct end *end) {
    const struct ls_task *own = ls_cluster_view_member(end->links->tf_config, end->links->rank);
    if (!end->connection->dial.why[0] || ls_now() - end->connection->asked < LS_LINK_TIMEOUT) return LS_OK;
    return ls_fail(LS_UNAVAILABLE, "%s (%s) (rank %d) and %s (%s) (rank %d) are cut off from each other: %s for %.0f s",
                   own->name, own->address, end->links->rank, end->task->name, end->task->address, end->rank,
                   end->connection->dial.why, ls_seconds_since(end->connection->asked));
}

static ls_status find_link(const struct end *end, struct ls_link **link) {
    if (!end->connection->asked) end->connection->asked = ls_now();
    if (!end->connection->link && end->dials) dial_on(end);
    *link = ls_steal(end->connection->link);
    return *link || !end->dials ? LS_OK : give_up_dial(end);
}

static void clear_news(struct ls_link_source *base) {
    eventfd_t events;
    (void)eventfd_read(source_of(base)->channel->wake, &events);
}

static bool is_open(const struct data_source *source) {
    const struct ls_data_attempt attempt = source->links->attempt(source->links->context);
    return attempt.open && attempt.number == source->generation;
}

static ls_status take_link(struct ls_link_source *base, int place, struct ls_link **link) {
    const struct data_source *source = source_of(base);
    struct ls_data_links *links = source->links;
    ls_status status = LS_OK;
    *link = NULL;
    LS_HOLD(links->monitor);
    const struct end end = end_of(source, place);
    if (!end.connection)
        status = ls_fail_memory("a connection", sizeof(*end.connection));
    else if (is_open(source))
        status = find_link(&end, link);
    return status;
}

static int64_t poll_link(struct ls_link_source *base, int place, struct pollfd *slot) {
    const struct data_source *source = source_of(base);
    struct ls_data_links *links = source->links;
    int64_t until = LS_NEVER;
    *slot = (struct pollfd){.fd = source->channel->wake, .events = POLLIN};
    LS_HOLD(links->monitor);
    const struct end end = end_of(source, place);
    if (!end.connection) {
        until = ls_now(); /* take says that there is no memory */
    } else if (!end.dials || !is_open(source)) {
        until = LS_NEVER; /* the listener's thread wakes this one, or the abort flag */
    } else if (end.connection->fd < 0) {
        until = ls_dial_poll(&end.connection->dial, slot);
    } else {
        until = end.connection->deadline;
        slot->fd = end.connection->fd;
    }
    return until;
}

static void describe_link(struct ls_link_source *base, int place, char *text, size_t size) {
    const struct data_source *source = source_of(base);
    LS_HOLD(source->links->monitor);
    const struct end end = end_of(source, place);
    const char *why = end.connection && end.connection->dial.why[0] ? end.connection->dial.why : "no answer yet";
    (void)snprintf(text, size, "%s (%s): %s", end.task->name, end.task->address,
                   end.dials ? why : "it has not connected to this worker yet");
}

static void close_source(struct ls_link_source *base) {
    struct data_source *source = source_of(base);
    if (source->own) ls_data_channel_close(source->channel);
    ls_free(source);
}

static const struct ls_link_source_ops source_ops = {clear_news, take_link, poll_link, describe_link, close_source};

/* Number 0 is opened once a process, and stays. */
static ls_status open_channel(struct ls_data_links *links, uint32_t number, struct ls_data_channel **channel) {
    if (number) return ls_data_channel_open(links, number, channel);
    LS_HOLD(links->monitor);
    *channel = ls_data_channel_find(links, 0);
    return LS_OK;
}

/* A proposal that was taken may have failed since, and another one may stand in its place. */
static ls_status start_source(struct data_source *source) {
    const struct ls_data_links *links = source->links;
    LS_HOLD(links->monitor);
    const struct ls_data_attempt attempt = links->attempt(links->context);
    source->generation = attempt.number;
    return attempt.stands ? LS_OK : ls_fail(LS_UNAVAILABLE, "another attempt takes the place of this one");
}

ls_status ls_data_source_new(struct ls_data_links *links, uint32_t channel, const int *ranks, int count,
                             struct ls_link_source **made) {
    *made = NULL;
    if (count == 1) return LS_OK;
    size_t size = sizeof(struct data_source) + (size_t)count * sizeof(int);
    struct data_source *source = ls_alloc(size);
    if (!source) return ls_fail_memory("a source of links", size);
    source->source = (struct ls_link_source){&source_ops, "tcp"};
    source->links = links;
    source->count = count;
    source->own = channel != 0;
    for (int i = 0; i < count; i++) source->ranks[i] = ranks[i];
    ls_status status = start_source(source);
    if (!status) status = open_channel(links, channel, &source->channel);
    return LS_HAND_OVER(status, made, &source->source, ls_free(source));
}
