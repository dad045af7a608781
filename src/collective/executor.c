/* The progress engine: moves every cursor as far as links and gates allow. Small and frequent moves are avoided: a
 * gated action waits until a grain of bytes is ready, or all. */
#include "collective/executor.h"

#include <errno.h>
#include <string.h>

#include "base/clock.h"
#include "base/dtype.h"
#include "collective/fold.h"

enum { GRAIN = 64 * 1024, PIECES = 8, FOLDED = 16 * 1024 }; /* bytes, but for PIECES */

static struct ls_action *action_at(const struct ls_executor *executor, int index) {
    return &executor->schedule->actions[index];
}

static size_t element_size(const struct ls_executor *executor) {
    return ls_dtype_size((ls_dtype)executor->call->frame.dtype);
}

/* How far a gate has come for the action, which may count compressed bytes where the other does not; of an element that
 * is not whole nothing. */
static size_t passed(const struct ls_executor *executor, const struct ls_action_gate *gate,
                     const struct ls_action *action) {
    const struct ls_action *other = action_at(executor, gate->action);
    size_t done = other->done > gate->offset ? other->done - gate->offset : 0;
    if (other->narrow == action->narrow) return done;
    return other->narrow ? done / LS_NARROW_ELEMENT * sizeof(float) : ls_narrow_size(done);
}

static size_t least(size_t a, size_t b) {
    return a < b ? a : b;
}

/* How far a receive may go without overwriting what its reader has yet to read. */
static size_t behind_reader(const struct ls_executor *executor, const struct ls_action *action) {
    size_t read = action_at(executor, action->reader)->done;
    return (action->narrow ? ls_narrow_size(read) : read) + action->ring;
}

/* Bytes that the action may do now: what its gates let through, less than a grain only at its end. */
static size_t ready(const struct ls_executor *executor, const struct ls_action *action) {
    size_t limit = action->size, grain = least(executor->segment, GRAIN);
    for (int i = 0; i < action->gate_count; i++) {
        size_t done = passed(executor, &executor->schedule->gates[action->gates + i], action);
        if (done < limit) limit = done;
    }
    if (action->ring) limit = least(limit, behind_reader(executor, action));
    size_t bytes = limit - action->done;
    return bytes < grain && limit < action->size ? 0 : bytes;
}

/* ---- computing ---- */

static void divide(const struct ls_executor *executor, const struct ls_action *action, void *data, size_t bytes) {
    if (action->divide)
        ls_divide((ls_dtype)executor->call->frame.dtype, data, bytes / element_size(executor), action->divide);
}

/* Rounds what was folded for byte at. */
static void settle(const struct ls_executor *executor, const struct ls_action *action, void *data, size_t at,
                   size_t bytes) {
    const struct ls_conversion *conversion = executor->call->conversion;
    if (!action->narrow_to) return;
    conversion->narrow(action->narrow_to + ls_narrow_size(at), data, bytes / sizeof(float));
    if (action->to) conversion->widen(data, action->narrow_to + ls_narrow_size(at), bytes / sizeof(float));
}

/* Where byte at of every source lies. */
static const void *const *find_sources(const struct ls_schedule *schedule, const struct ls_action *action, size_t at) {
    for (int i = action->sources; i < action->sources + action->source_count; i++) {
        size_t offset = schedule->narrow_sources[i] ? ls_narrow_size(at) : at;
        if (schedule->rings[i] >= 0) offset %= schedule->actions[schedule->rings[i]].ring;
        schedule->places[i] = (const unsigned char *)schedule->sources[i] + offset;
    }
    return schedule->places + action->sources;
}

/* In pieces that stay in the first-level cache until they are done, and that no ring tears. */
static void fold(const struct ls_executor *executor, const struct ls_action *action, size_t bytes) {
    unsigned char piece[FOLDED] __attribute__((aligned(64)));
    const struct ls_schedule *schedule = executor->schedule;
    struct ls_fold fold = {.combine = executor->call->combine,
                           .element = element_size(executor),
                           .n = schedule->leaves,
                           .count = action->source_count,
                           .covers = schedule->covers + action->sources,
                           .narrow = executor->call->conversion ? schedule->narrow_sources + action->sources : NULL,
                           .conversion = executor->call->conversion};
    for (size_t at = action->done, end = at + bytes, size; at < end; at += size) {
        unsigned char *to = action->to ? action->to + at : piece;
        size = least(end - at, FOLDED - at % FOLDED);
        fold.data = find_sources(schedule, action, at);
        ls_fold_range(&fold, to, 0, size);
        divide(executor, action, to, size);
        settle(executor, action, to, at, size);
    }
}

/* A single source that is only to be sent rounded. */
static bool only_narrows(const struct ls_executor *executor, const struct ls_action *action) {
    return action->source_count == 1 && !action->to && !action->divide &&
           !executor->schedule->narrow_sources[action->sources] && executor->schedule->rings[action->sources] < 0;
}

static void narrow(const struct ls_executor *executor, const struct ls_action *action, size_t bytes) {
    const unsigned char *from = executor->schedule->sources[action->sources];
    executor->call->conversion->narrow(action->narrow_to + ls_narrow_size(action->done), from + action->done,
                                       bytes / sizeof(float));
}

/* At most a segment, so that the links do not wait long. */
static bool compute(struct ls_executor *executor, struct ls_action *action) {
    size_t bytes = ready(executor, action);
    if (bytes > executor->segment) bytes = executor->segment;
    if (action->kind == LS_ACTION_FOLD) bytes -= bytes % element_size(executor);
    if (!bytes) return false;
    if (action->kind == LS_ACTION_FOLD)
        (only_narrows(executor, action) ? narrow : fold)(executor, action, bytes);
    else
        memcpy(action->to + action->done, action->from + action->done, bytes);
    action->done += bytes;
    return true;
}

static bool compute_all(struct ls_executor *executor) {
    bool moved = false;
    for (int i = executor->computing; i >= 0; i = action_at(executor, i)->next)
        moved |= compute(executor, action_at(executor, i));
    while (executor->computing >= 0) {
        const struct ls_action *head = action_at(executor, executor->computing);
        if (head->done < head->size) break;
        executor->computing = head->next;
    }
    return moved;
}

/* ---- sending ---- */

/* Collects what can go to the peer now: the rest of the frame, then ready bytes of one action after the other. */
static int collect(const struct ls_executor *executor, const struct ls_peer *peer, struct iovec pieces[PIECES]) {
    int count = 0;
    size_t left = 4 * executor->segment;
    if (peer->frame_sent < LS_FRAME_SIZE)
        pieces[count++] =
            (struct iovec){(void *)(uintptr_t)(peer->frame + peer->frame_sent), LS_FRAME_SIZE - peer->frame_sent};
    for (int i = peer->sending; i >= 0 && count < PIECES && left;) {
        const struct ls_action *action = action_at(executor, i);
        size_t bytes = ready(executor, action);
        if (bytes > left) bytes = left;
        if (bytes) pieces[count++] = (struct iovec){(void *)(uintptr_t)(action->from + action->done), bytes};
        left -= bytes;
        i = action->done + bytes == action->size ? action->next : -1;
    }
    return count;
}

static void advance_sends(const struct ls_executor *executor, struct ls_peer *peer, size_t sent) {
    size_t rest = LS_FRAME_SIZE - peer->frame_sent, part = sent < rest ? sent : rest;
    peer->frame_sent += part;
    sent -= part;
    while (sent) {
        struct ls_action *action = action_at(executor, peer->sending);
        rest = action->size - action->done;
        part = sent < rest ? sent : rest;
        action->done += part;
        sent -= part;
        if (action->done == action->size) peer->sending = action->next;
    }
}

static bool send_to(struct ls_executor *executor, struct ls_peer *peer) {
    struct iovec pieces[PIECES];
    if (peer->write_error || peer->write_blocked) return false;
    int count = collect(executor, peer, pieces);
    if (!count) return false;
    ssize_t sent = peer->link->ops->send(peer->link, pieces, count);
    if (sent > 0) {
        executor->moved += (size_t)sent;
        advance_sends(executor, peer, (size_t)sent);
    }
    if (sent < 0) {
        peer->write_error = errno ? errno : ECONNRESET;
        ls_executor_trouble(executor, peer, LS_OK);
    }
    peer->write_blocked = sent == 0;
    return sent > 0;
}

/* ---- receiving ---- */

/* Reads at most size bytes from the link. */
static size_t read_link(struct ls_executor *executor, struct ls_peer *peer, void *to, size_t size) {
    if (peer->read_error || peer->read_blocked) return 0;
    ssize_t received = peer->link->ops->receive(peer->link, to, size);
    if (received < 0) {
        peer->read_error = errno ? errno : ECONNRESET;
        ls_executor_trouble(executor, peer, LS_OK);
    }
    peer->read_blocked = received == 0;
    if (received <= 0) return 0;
    executor->moved += (size_t)received;
    return (size_t)received;
}

/* LS_OK when it is no frame of a call, but the peer's message why it has given up. */
static ls_status differs(const struct ls_executor *executor, struct ls_peer *peer, const struct ls_frame *expected) {
    struct ls_frame got;
    int rank = expected->rank;
    ls_status status = ls_frame_decode(peer->inbox, &got);
    if (!status && ls_executor_is_told(executor, peer, &got)) return LS_OK;
    return status ? ls_fail_context(status, "from rank %d", rank)
                  : ls_frame_compare(expected, &got, executor->rank, rank);
}

/* Equal bytes need no decoding. */
static void check_frame(struct ls_executor *executor, struct ls_peer *peer) {
    int rank = (int)(peer - executor->peers);
    unsigned char bytes[LS_FRAME_SIZE];
    struct ls_frame expected = executor->call->frame;
    expected.rank = rank;
    expected.bytes = executor->schedule->receives[rank].bytes;
    if (executor->call->counts) expected.count = executor->call->counts[rank];
    ls_frame_encode(&expected, bytes);
    ls_status status = LS_OK;
    if (memcmp(bytes, peer->inbox, sizeof(bytes)) != 0) {
        status = differs(executor, peer, &expected);
        if (peer->told) return;
    }
    peer->heard = !status;
    peer->inbox_taken = LS_FRAME_SIZE;
    if (status) ls_executor_trouble(executor, peer, status);
}

/* The frame, and as much of this collective's payload as fits beside it: never a byte of the next collective. */
static bool receive_frame(struct ls_executor *executor, struct ls_peer *peer) {
    size_t payload = peer->told ? peer->told : executor->schedule->receives[peer - executor->peers].bytes;
    size_t want = payload < LS_INBOX_SIZE - LS_FRAME_SIZE ? LS_FRAME_SIZE + payload : LS_INBOX_SIZE;
    if (peer->inbox_taken) return false; /* it was refused */
    size_t read = read_link(executor, peer, peer->inbox + peer->inbox_filled, want - peer->inbox_filled);
    peer->inbox_filled += read;
    if (peer->inbox_filled >= LS_FRAME_SIZE && !peer->told) check_frame(executor, peer);
    if (peer->told && peer->inbox_filled >= LS_FRAME_SIZE + peer->told) ls_executor_hear(executor, peer);
    return read > 0;
}

/* The next payload bytes: from the inbox first, then from the link. */
static size_t pull(struct ls_executor *executor, struct ls_peer *peer, void *to, size_t size) {
    size_t kept = peer->inbox_filled - peer->inbox_taken;
    if (!kept) return read_link(executor, peer, to, size);
    if (kept > size) kept = size;
    memcpy(to, peer->inbox + peer->inbox_taken, kept);
    peer->inbox_taken += kept;
    return kept;
}

/* Bytes come in any portions; whole elements are added, the rest of one waits in front of the staging buffer. */
static size_t receive_add(struct ls_executor *executor, struct ls_peer *peer, struct ls_action *action, size_t room) {
    size_t element = element_size(executor);
    if (room <= peer->staged) return 0;
    size_t pulled = pull(executor, peer, executor->staging + peer->staged, room - peer->staged);
    size_t have = peer->staged + pulled, whole = have - have % element;
    executor->call->combine(action->to + action->done, executor->staging, action->from + action->done, whole / element);
    divide(executor, action, action->to + action->done, whole);
    action->done += whole;
    peer->staged = have - whole;
    if (whole) memmove(executor->staging, executor->staging + whole, peer->staged);
    return pulled;
}

static bool receive_from(struct ls_executor *executor, struct ls_peer *peer) {
    if (!peer->heard && receive_frame(executor, peer) && !peer->heard) return true;
    if (!peer->heard || peer->receiving < 0) return false;
    struct ls_action *action = action_at(executor, peer->receiving);
    size_t room = ready(executor, action);
    if (room > executor->segment) room = executor->segment;
    if (!room) return false;
    size_t pulled;
    if (action->kind == LS_ACTION_RECEIVE_ADD) {
        pulled = receive_add(executor, peer, action, room);
    } else {
        size_t at = action->ring ? action->done % action->ring : action->done;
        if (action->ring) room = least(room, action->ring - at);
        pulled = pull(executor, peer, action->to + at, room);
        action->done += pulled;
    }
    if (action->done == action->size) peer->receiving = action->next;
    return pulled > 0;
}

/* ---- the whole ---- */

static bool progress(struct ls_executor *executor) {
    bool moved = false;
    for (int step = 1; step < executor->size; step++)
        moved |= send_to(executor, &executor->peers[(executor->rank + step) % executor->size]);
    for (int step = 1; step < executor->size; step++)
        moved |= receive_from(executor, &executor->peers[(executor->rank + step) % executor->size]);
    return compute_all(executor) || moved;
}

static bool complete(const struct ls_executor *executor) {
    if (executor->computing >= 0) return false;
    for (int i = 0; i < executor->size; i++) {
        const struct ls_peer *peer = &executor->peers[i];
        if (i == executor->rank || peer->role != LS_ROLE_PARTNER) continue;
        if (!peer->heard || peer->frame_sent < LS_FRAME_SIZE || peer->sending >= 0 || peer->receiving >= 0)
            return false;
        if (peer->link->ops->flushed && !peer->write_error && !peer->link->ops->flushed(peer->link)) return false;
    }
    return true;
}

/* Nothing goes to it. A companion's link is read only when poll() says that there is something. */
static void start_bystander(struct ls_peer *peer) {
    peer->heard = peer->role == LS_ROLE_NONE;
    peer->read_blocked = !peer->heard;
    peer->frame_sent = LS_FRAME_SIZE;
    peer->sending = peer->receiving = -1;
}

static void start_peer(struct ls_executor *executor, int rank) {
    struct ls_peer *peer = &executor->peers[rank];
    struct ls_frame frame = executor->call->frame;
    frame.bytes = executor->schedule->sends[rank].bytes;
    ls_frame_encode(&frame, peer->frame);
    peer->role = executor->call->roles ? (enum ls_role)executor->call->roles[rank] : LS_ROLE_PARTNER;
    peer->frame_sent = peer->inbox_filled = peer->inbox_taken = peer->staged = peer->told = 0;
    peer->sending = executor->schedule->sends[rank].head;
    peer->receiving = executor->schedule->receives[rank].head;
    peer->heard = peer->read_blocked = peer->write_blocked = false;
    if (peer->role != LS_ROLE_PARTNER)
        start_bystander(peer);
    else if (peer->read_error || peer->write_error) /* of an earlier call, which could do without */
        ls_executor_trouble(executor, peer, LS_OK);
}

size_t ls_executor_awaits(const struct ls_executor *executor, const struct ls_peer *peer) {
    if (!peer->heard || peer->receiving < 0) return 1;
    size_t room = least(ready(executor, action_at(executor, peer->receiving)), GRAIN);
    return room > peer->staged ? room - peer->staged : 1;
}

/* For whoever looks at the links between two calls. */
static void wake_at_any_byte(struct ls_executor *executor) {
    for (int i = 0; i < executor->size; i++) {
        struct ls_link *link = executor->peers[i].link;
        if (link && link->ops->wake_at) link->ops->wake_at(link, 1);
    }
}

static void start_clock(struct ls_executor *executor) {
    executor->patient = false;
    executor->started = ls_now();
    ls_flight_start(&executor->flight, executor->started);
    executor->deadline = ls_deadline_after(executor->started, executor->timeout);
    executor->next_report = ls_deadline_after(executor->started, executor->report_interval);
}

void ls_executor_begin(struct ls_executor *executor, struct ls_schedule *schedule, const struct ls_call *call) {
    executor->schedule = schedule;
    executor->call = call;
    executor->grace = LS_NEVER;
    executor->lost = -1;
    executor->trouble = LS_OK;
    executor->wait_started = 0;
    if (!call->resumed) start_clock(executor);
}

ls_status ls_execute(struct ls_executor *executor, struct ls_schedule *schedule, const struct ls_call *call) {
    ls_executor_begin(executor, schedule, call);
    executor->computing = schedule->compute.head;
    for (int i = 0; i < executor->size; i++)
        if (i != executor->rank) start_peer(executor, i);
    for (;;) {
        bool moved = progress(executor);
        if (complete(executor)) break;
        ls_status status = ls_executor_verdict(executor);
        if (status) return status;
        if (moved)
            ls_executor_moved(executor);
        else
            ls_executor_wait(executor);
    }
    wake_at_any_byte(executor);
    return LS_OK;
}
