/* The progress engine: moves every cursor as far as links and gates allow. Small and frequent moves are avoided: a
 * gated action waits until a grain of bytes is ready, or all. */
#include "collective/run/executor.h"

#include <errno.h>
#include <string.h>

#include "base/clock.h"
#include "base/deadlines.h"
#include "base/memory.h"
#include "collective/run/failure_frame.h"
#include "collective/run/wait.h"
#include "collective/schedule/fold.h"
#include "collective/schedule/schedules.h"

enum { GRAIN = 64 * 1024, PIECES = 8, FOLDED = 16 * 1024 }; /* bytes, but for PIECES */

static struct ls_action *action_at(const struct ls_executor *executor, int index) {
    return &executor->schedule->actions[index];
}

static size_t element_size(const struct ls_executor *executor) {
    return ls_dtype_size((ls_dtype)executor->call->frame.dtype);
}

/* The bytes of the action that a gate lets through. The action may count compressed bytes while the gate's does not;
 * only whole elements count. */
static size_t passed(const struct ls_executor *executor, const struct ls_action_gate *gate,
                     const struct ls_action *action) {
    const struct ls_action *other = action_at(executor, gate->action);
    size_t done = other->done > gate->offset ? other->done - gate->offset : 0;
    if (other->narrow == action->narrow) return done;
    return other->narrow ? done / LS_NARROW_ELEMENT * sizeof(float) : ls_narrow_size(done);
}

/* The bytes up to which a receive may go without overwriting bytes that its reader has yet to read. */
static size_t behind_reader(const struct ls_executor *executor, const struct ls_action *action) {
    size_t read = action_at(executor, action->reader)->done;
    return (action->narrow ? ls_narrow_size(read) : read) + action->ring;
}

/* The bytes that the action may do now: as many as its gates let through, less than a grain only at its end. grain is
 * 64 KiB, or the setting of the segment where that is less. A move of a few bytes would cost a system call or a call of
 * combine for each; so an action waits until a grain or its rest can go. The rest of a small action is all of it. */
static size_t ready(const struct ls_executor *executor, const struct ls_action *action) {
    size_t limit = action->size, grain = ls_smaller_size(executor->segment, GRAIN);
    for (int i = 0; i < action->gate_count; i++) {
        size_t done = passed(executor, &executor->schedule->gates[action->gates + i], action);
        if (done < limit) limit = done;
    }
    if (action->ring) limit = ls_smaller_size(limit, behind_reader(executor, action));
    size_t bytes = limit - action->done;
    return bytes < grain && limit < action->size ? 0 : bytes;
}

/* ---- computing ---- */

static void divide_action(const struct ls_executor *executor, const struct ls_action *action, void *data,
                          size_t bytes) {
    if (action->divide)
        ls_reduce_divide((ls_dtype)executor->call->frame.dtype, data, bytes / element_size(executor), action->divide);
}

/* Rounds the folded values from byte at on. */
static void narrow_result(const struct ls_executor *executor, const struct ls_action *action, void *data, size_t at,
                          size_t bytes) {
    const struct ls_conversion *conversion = executor->call->conversion;
    if (!action->narrow_to) return;
    conversion->narrow(action->narrow_to + ls_narrow_size(at), data, bytes / sizeof(float));
    if (action->to) conversion->widen(data, action->narrow_to + ls_narrow_size(at), bytes / sizeof(float));
}

/* The address of byte at of every source. */
static const void *const *find_sources(const struct ls_schedule *schedule, const struct ls_action *action, size_t at) {
    for (int i = action->sources; i < action->sources + action->source_count; i++) {
        size_t offset = schedule->narrow_sources[i] ? ls_narrow_size(at) : at;
        if (schedule->rings[i] >= 0) offset %= schedule->actions[schedule->rings[i]].ring;
        schedule->places[i] = (const unsigned char *)schedule->sources[i] + offset;
    }
    return schedule->places + action->sources;
}

/* Folds in pieces that stay in the first-level cache until they are done, and that no ring tears. A piece ends at a
 * multiple of FOLDED, even if done does not begin at one. The length of a ring, LS_WIRE_RING or half of it, is such a
 * multiple too, so no piece runs over a ring's end. The division and the rounding of a piece follow while it is in the
 * cache. */
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
        size = ls_smaller_size(end - at, FOLDED - at % FOLDED);
        fold.data = find_sources(schedule, action, at);
        ls_fold_range(&fold, to, 0, size);
        divide_action(executor, action, to, size);
        narrow_result(executor, action, to, at, size);
    }
}

/* A single source that is only to be sent rounded. */
static bool only_narrows(const struct ls_executor *executor, const struct ls_action *action) {
    return action->source_count == 1 && !action->to && !action->divide &&
           !executor->schedule->narrow_sources[action->sources] && executor->schedule->rings[action->sources] < 0;
}

static void narrow_source(const struct ls_executor *executor, const struct ls_action *action, size_t bytes) {
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
        (only_narrows(executor, action) ? narrow_source : fold)(executor, action, bytes);
    else
        memcpy(action->to + action->done, action->from + action->done, bytes);
    action->done += bytes;
    return true;
}

/* A later action may overtake the head, which waits for its gates; the head moves on over actions that are done. Gates
 * point to actions that were added before, so one pass carries bytes through a whole chain of computing actions. */
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

/* Collects what can go to the peer now: the rest of the frame, then ready bytes of one action after the other. The link
 * is a stream without headers between actions, and the peer reads in list order. So the walk stops at the first action
 * that is not ready to its end. At most four segments go into one call, so that receives get their turn. */
static int collect_pieces(const struct ls_executor *executor, const struct ls_executor_peer *peer,
                          struct iovec pieces[PIECES]) {
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

static void advance_sends(const struct ls_executor *executor, struct ls_executor_peer *peer, size_t sent) {
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

static bool send_to(struct ls_executor *executor, struct ls_executor_peer *peer) {
    struct iovec pieces[PIECES];
    if (!peer->link || peer->write_error || peer->write_blocked) return false;
    int count = collect_pieces(executor, peer, pieces);
    if (!count) return false;
    ssize_t sent = peer->link->ops->send(peer->link, pieces, count);
    if (sent > 0) {
        executor->moved += (size_t)sent;
        advance_sends(executor, peer, (size_t)sent);
    }
    if (sent < 0) {
        peer->write_error = errno ? errno : ECONNRESET;
        ls_wait_trouble(executor, peer, LS_OK);
    }
    peer->write_blocked = sent == 0;
    return sent > 0;
}

/* ---- receiving ---- */

/* Reads at most size bytes from the link. */
static size_t read_link(struct ls_executor *executor, struct ls_executor_peer *peer, void *to, size_t size) {
    if (!peer->link || peer->read_error || peer->read_blocked) return 0;
    ssize_t received = peer->link->ops->receive(peer->link, to, size);
    if (received < 0) {
        peer->read_error = errno ? errno : ECONNRESET;
        ls_wait_trouble(executor, peer, LS_OK);
    }
    peer->read_blocked = received == 0;
    if (received <= 0) return 0;
    executor->moved += (size_t)received;
    return (size_t)received;
}

/* LS_OK when it is no frame of a call, but the peer's message why it has given up. */
static ls_status differs(const struct ls_executor *executor, struct ls_executor_peer *peer,
                         const struct ls_frame *expected) {
    struct ls_frame got;
    int rank = expected->rank;
    ls_status status = ls_frame_decode(peer->inbox, &got);
    if (!status && ls_failure_frame_is_sent(executor, peer, &got)) return LS_OK;
    return status ? ls_fail_context(status, "from rank %d", rank)
                  : ls_frame_compare(expected, &got, executor->rank, rank, executor->algorithm_name);
}

/* Equal bytes need no decoding. */
static void check_frame(struct ls_executor *executor, struct ls_executor_peer *peer) {
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
    if (status) ls_wait_trouble(executor, peer, status);
}

/* The frame, and as much of this collective's payload as fits beside it: never a byte of the next collective. */
static bool receive_frame(struct ls_executor *executor, struct ls_executor_peer *peer) {
    size_t payload = peer->told ? peer->told : executor->schedule->receives[peer - executor->peers].bytes;
    size_t want = payload < LS_INBOX_SIZE - LS_FRAME_SIZE ? LS_FRAME_SIZE + payload : LS_INBOX_SIZE;
    if (peer->inbox_taken) return false;     /* it was refused */
    size_t more = want - peer->inbox_filled; /* none where a frame without payload was peeked at */
    size_t read = more ? read_link(executor, peer, peer->inbox + peer->inbox_filled, more) : 0;
    peer->inbox_filled += read;
    if (peer->inbox_filled >= LS_FRAME_SIZE && !peer->told) check_frame(executor, peer);
    if (peer->told && peer->inbox_filled >= LS_FRAME_SIZE + peer->told) ls_failure_frame_receive(executor, peer);
    return read > 0;
}

/* The next payload bytes: from the inbox first, then from the link. */
static size_t pull(struct ls_executor *executor, struct ls_executor_peer *peer, void *to, size_t size) {
    size_t kept = peer->inbox_filled - peer->inbox_taken;
    if (!kept) return read_link(executor, peer, to, size);
    if (kept > size) kept = size;
    memcpy(to, peer->inbox + peer->inbox_taken, kept);
    peer->inbox_taken += kept;
    return kept;
}

/* Bytes come in any portions; whole elements are added, the rest of one waits in front of the staging buffer. */
static size_t receive_add(struct ls_executor *executor, struct ls_executor_peer *peer, struct ls_action *action,
                          size_t room) {
    size_t element = element_size(executor);
    if (room <= peer->staged) return 0;
    size_t pulled = pull(executor, peer, executor->staging + peer->staged, room - peer->staged);
    size_t have = peer->staged + pulled, whole = have - have % element;
    executor->call->combine(action->to + action->done, executor->staging, action->from + action->done, whole / element);
    divide_action(executor, action, action->to + action->done, whole);
    action->done += whole;
    peer->staged = have - whole;
    if (whole) memmove(executor->staging, executor->staging + whole, peer->staged);
    return pulled;
}

/* One action is in progress a link. Its room is bounded by its gates, by its ring and by a segment; the rest stays in
 * the kernel's buffer, where TCP's window holds the sender back. A ring is filled up to its end at most in one call. */
static bool receive_from(struct ls_executor *executor, struct ls_executor_peer *peer) {
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
        if (action->ring) room = ls_smaller_size(room, action->ring - at);
        pulled = pull(executor, peer, action->to + at, room);
        action->done += pulled;
    }
    if (action->done == action->size) peer->receiving = action->next;
    return pulled > 0;
}

/* ---- links ---- */

static bool lacks_link(const struct ls_executor_peer *peer) {
    return ls_role_is_linked(peer->role) && !peer->link;
}

/* A partner whose link is not there yet is one from whom nothing has come. */
static bool take_link(struct ls_executor *executor, int rank) {
    struct ls_executor_peer *peer = &executor->peers[rank];
    ls_status status = executor->source->ops->take(executor->source, rank, &peer->link);
    if (status) {
        atomic_store(&executor->severed, true);
        ls_wait_trouble(executor, peer, status);
    }
    executor->unlinked -= peer->link != NULL;
    return peer->link != NULL;
}

static bool take_links(struct ls_executor *executor) {
    bool taken = false;
    executor->source->ops->clear(executor->source);
    for (int i = 0; i < executor->heeded_count && executor->unlinked && !executor->trouble.status; i++)
        if (lacks_link(&executor->peers[executor->heeded[i]])) taken |= take_link(executor, executor->heeded[i]);
    return taken;
}

/* ---- the whole ---- */

/* Sends come first, since peers wait for them, then receives, then what can be computed from them. Each rank begins
 * with the rank after it, so no peer is always the last one. */
static bool progress(struct ls_executor *executor) {
    bool moved = executor->unlinked && take_links(executor);
    for (int i = 0; i < executor->heeded_count; i++) moved |= send_to(executor, &executor->peers[executor->heeded[i]]);
    for (int i = 0; i < executor->heeded_count; i++)
        moved |= receive_from(executor, &executor->peers[executor->heeded[i]]);
    return compute_all(executor) || moved;
}

/* A rank is done when its own frame has left and the frame of every partner has come, even with no payload: that makes
 * a barrier out of an empty schedule, and lets every collective find a call that differs. A sink finds it alone, and
 * tells its sources when they next hear of it. */
static bool complete(const struct ls_executor *executor) {
    if (executor->computing >= 0) return false;
    for (int i = 0; i < executor->heeded_count; i++) {
        const struct ls_executor_peer *peer = &executor->peers[executor->heeded[i]];
        if (!ls_role_is_linked(peer->role)) continue;
        if (!peer->heard || peer->frame_sent < LS_FRAME_SIZE || peer->sending >= 0 || peer->receiving >= 0)
            return false;
    }
    return true;
}

/* Nothing goes to it. A companion's link is read only when poll() says that there is something. */
static void start_bystander(struct ls_executor_peer *peer) {
    peer->heard = peer->role == LS_ROLE_NONE;
    peer->read_blocked = !peer->heard;
    peer->frame_sent = LS_FRAME_SIZE;
    peer->sending = peer->receiving = -1;
}

static void start_linked(struct ls_executor *executor, struct ls_executor_peer *peer, int rank) {
    struct ls_frame frame = executor->call->frame;
    frame.bytes = executor->schedule->sends[rank].bytes;
    ls_frame_encode(&frame, peer->frame);
    peer->frame_sent = peer->role == LS_ROLE_SOURCE ? LS_FRAME_SIZE : 0;
    peer->sending = executor->schedule->sends[rank].head;
    peer->receiving = executor->schedule->receives[rank].head;
    peer->heard = peer->role == LS_ROLE_SINK;
    peer->read_blocked = false;
    executor->unlinked += !peer->link;
    if (peer->read_error || peer->write_error) /* of an earlier call, which could do without */
        ls_wait_trouble(executor, peer, LS_OK);
}

/* Fingerprints go along the edges of the schedule; among few ranks between all of them. */
static enum ls_role role_of(const struct ls_executor *executor, int rank) {
    const struct ls_schedule *schedule = executor->schedule;
    bool sends = schedule->sends[rank].head >= 0, receives = schedule->receives[rank].head >= 0;
    if (executor->call->one_way && sends != receives) return sends ? LS_ROLE_SINK : LS_ROLE_SOURCE;
    if (sends || receives) return LS_ROLE_PARTNER;
    if (executor->call->roles) return (enum ls_role)executor->call->roles[rank];
    return executor->size <= LS_MEET_ALL ? LS_ROLE_PARTNER : LS_ROLE_NONE;
}

static void start_peer(struct ls_executor *executor, int rank) {
    struct ls_executor_peer *peer = &executor->peers[rank];
    peer->role = role_of(executor, rank);
    peer->inbox_filled = peer->peeked;
    peer->inbox_taken = peer->staged = peer->told = peer->peeked = 0;
    peer->write_blocked = false;
    if (peer->role != LS_ROLE_NONE) executor->heeded[executor->heeded_count++] = rank;
    if (ls_role_is_linked(peer->role))
        start_linked(executor, peer, rank);
    else
        start_bystander(peer);
}

size_t ls_executor_awaits(const struct ls_executor *executor, const struct ls_executor_peer *peer) {
    if (!peer->heard || peer->receiving < 0) return 1;
    size_t room = ls_smaller_size(ready(executor, action_at(executor, peer->receiving)), GRAIN);
    return room > peer->staged ? room - peer->staged : 1;
}

/* Makes the next poll between two calls return at any byte. */
static void wake_at_any_byte(struct ls_executor *executor) {
    for (int i = 0; i < executor->heeded_count; i++) {
        struct ls_link *link = executor->peers[executor->heeded[i]].link;
        if (link && link->ops->wake_at) link->ops->wake_at(link, 1);
    }
}

static void start_clock(struct ls_executor *executor) {
    executor->patient = false;
    executor->started = ls_now();
    ls_flight_start(&executor->flight, executor->started);
    executor->deadline = ls_deadline_after(executor->started, executor->timeout);
    executor->next_report = ls_deadline_after(executor->started, executor->report_interval);
    executor->stall_at = executor->stalled ? executor->started + LS_STALL_TIMEOUT : LS_NEVER;
}

void ls_executor_begin(struct ls_executor *executor, struct ls_schedule *schedule, const struct ls_call *call) {
    executor->schedule = schedule;
    executor->call = call;
    executor->grace = LS_NEVER;
    executor->lost = -1;
    executor->left = 0;
    executor->trouble.status = LS_OK;
    executor->wait_started = 0;
    if (!call->resumed) start_clock(executor);
}

ls_status ls_executor_peek(struct ls_executor *executor, int rank, struct ls_frame *frame, bool *whole) {
    struct ls_executor_peer *peer = &executor->peers[rank];
    ls_status status = LS_OK;
    *whole = false;
    if (!peer->link) {
        executor->source->ops->clear(executor->source);
        status = executor->source->ops->take(executor->source, rank, &peer->link);
    }
    if (status || !peer->link) return status;
    ssize_t read = 0;
    if (peer->peeked < LS_FRAME_SIZE)
        read = peer->link->ops->receive(peer->link, peer->inbox + peer->peeked, LS_FRAME_SIZE - peer->peeked);
    if (read < 0) {
        atomic_store(&executor->severed, true);
        return ls_fail(LS_UNAVAILABLE, "lost the connection to rank %d", rank);
    }
    peer->peeked += (size_t)read;
    *whole = peer->peeked == LS_FRAME_SIZE;
    return *whole ? ls_frame_decode(peer->inbox, frame) : LS_OK;
}

/* Nothing in the loop blocks but ls_wait_for_links, and the verdict is asked in every turn: an abort or a deadline ends
 * the call within one turn of the loop, or one sleep of poll. */
ls_status ls_executor_run(struct ls_executor *executor, struct ls_schedule *schedule, const struct ls_call *call) {
    ls_executor_begin(executor, schedule, call);
    executor->computing = schedule->compute.head;
    executor->unlinked = executor->heeded_count = 0;
    for (int step = 1; step < executor->size; step++) start_peer(executor, (executor->rank + step) % executor->size);
    for (;;) {
        bool moved = progress(executor);
        if (complete(executor)) break;
        ls_status status = ls_wait_verdict(executor);
        if (status) return status;
        if (moved)
            ls_wait_moved(executor);
        else
            ls_wait_for_links(executor);
    }
    wake_at_any_byte(executor);
    return LS_OK;
}
