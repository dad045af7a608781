/* The barrier between the workers of a host. turn is the number of barriers that this worker has entered. Each worker
 * writes its turn to its own arrival; the barrier is over when that of every worker is >= turn, or, when blocks are
 * shared out, when done of the first control block reaches its goal.
 *  - Spin: a waiter reads the others' arrivals for SPIN. It yields if a missing worker was last seen on the waiter's
 *    processor, and moves its thread if the kernel has put too many workers on one processor.
 *  - Sleep: a waiter then sleeps on the futex wakes in the first control block, one SLICE at a time.
 *  - Look: after each slice the waiter checks the abort flag, the clock, the notices and the links of the missing
 *    workers. Nothing moves on those links during a call in shared memory, unless a rank has gone or makes another
 * call. The links of a worker that has arrived are not checked. It may be ahead, use its links for the next call, or
 * end in it; giving this barrier up would leave behind the workers for which it is over. tests/protocol/meeting.pml is
 * the model of a meeting. */
#define _GNU_SOURCE
#include "collective/shm/shm_barrier.h"

#include <limits.h>
#include <linux/futex.h>
#include <sched.h>
#include <sys/syscall.h>
#include <time.h>
#include <unistd.h>

#include "base/clock.h"
#include "collective/run/wait.h"
#include "collective/shm/notice.h"

#define SLICE (20 * LS_MILLISECOND)
#define SPIN  (LS_MILLISECOND / 20)
#define STAY  (20 * LS_MILLISECOND) /* on a processor, at least */
enum { TURNS = 50, CROWDED_TURNS = 5 };

_Static_assert(ATOMIC_LLONG_LOCK_FREE == 2 && ATOMIC_INT_LOCK_FREE == 2, "atomics must work between processes");

static inline void relax(void) {
#if defined(__x86_64__)
    __builtin_ia32_pause();
#endif
}

/* A worker may be a turn ahead. */
static bool has_come(const struct ls_shared *shared, int index) {
    return atomic_load_explicit(&ls_shared_arrival(shared, index)->turn, memory_order_acquire) >= shared->turn;
}

/* awaited is the first worker that has not been seen; those before it never leave a turn, so they are not read again. A
 * whole wait reads each worker's line once and the last one's until it comes. */
static bool all_have_come(struct ls_shared *shared) {
    for (; shared->awaited < shared->size; shared->awaited++)
        if (!has_come(shared, shared->awaited)) return false;
    return true;
}

static bool is_over(struct ls_shared *shared) {
    if (!shared->blocks) return all_have_come(shared);
    return atomic_load_explicit(&ls_shared_control(shared, 0)->done, memory_order_acquire) >= shared->done;
}

static void wake_all(struct ls_control *center) {
    atomic_fetch_add(&center->wakes, 1);
    (void)syscall(SYS_futex, &center->wakes, FUTEX_WAKE, INT_MAX, NULL, NULL, 0);
}

/* A worker that sees that all have come wakes the sleepers, where no other has. A worker's arrival is written before it
 * reads sleepers, as the fence sees to; a sleeper adds itself to sleepers before it reads the arrivals. So a sleeper
 * that misses an arrival is seen by the worker that comes last. */
static void wake(const struct ls_shared *shared) {
    struct ls_control *center = ls_shared_control(shared, 0);
    atomic_thread_fence(memory_order_seq_cst);
    if (!atomic_load_explicit(&center->sleepers, memory_order_relaxed)) return;
    if (atomic_load_explicit(&center->woken, memory_order_relaxed) >= shared->turn) return;
    wake_all(center);
    atomic_store_explicit(&center->woken, shared->turn, memory_order_relaxed);
}

static void note_processor(struct ls_control *own) {
    int32_t here = sched_getcpu();
    if (atomic_load_explicit(&own->processor, memory_order_relaxed) != here)
        atomic_store_explicit(&own->processor, here, memory_order_relaxed);
}

/* The store publishes all earlier writes of this worker. It waits for nothing: the others' lines come while it goes. */
static void come(struct ls_shared *shared) {
    shared->awaited = 0;
    note_processor(ls_shared_control(shared, shared->rank));
    atomic_store_explicit(&ls_shared_arrival(shared, shared->rank)->turn, ++shared->turn, memory_order_release);
}

static void sleep_a_slice(struct ls_shared *shared) {
    struct ls_control *center = ls_shared_control(shared, 0);
    struct timespec slice = {.tv_nsec = SLICE};
    atomic_fetch_add(&center->sleepers, 1);
    uint32_t seen = atomic_load(&center->wakes);
    if (!is_over(shared)) (void)syscall(SYS_futex, &center->wakes, FUTEX_WAIT, seen, &slice, NULL, 0);
    atomic_fetch_sub(&center->sleepers, 1);
}

/* Writes the missing workers to the executor's peers, from which the error of a timeout names them. */
static void note_presence(const struct ls_meeting_place *place, bool opening) {
    for (int i = 0; i < place->shared->executor->size; i++) {
        struct ls_executor_peer *peer = &place->shared->executor->peers[i];
        peer->role = (enum ls_role)place->shared->roles[i];
        peer->receiving = peer->sending = -1;
        peer->frame_sent = LS_FRAME_SIZE;
    }
    for (int i = 0; i < place->shared->size; i++) {
        struct ls_executor_peer *peer = &place->shared->executor->peers[place->shared->members[i]];
        bool here = has_come(place->shared, i);
        peer->heard = here || !opening;
        peer->receiving = here ? -1 : 0;
    }
}

static bool has_moved(struct ls_link *link, const struct pollfd *polled) {
    return link && link->ops->readable ? link->ops->readable(link) : polled->revents != 0;
}

/* True if the link of a worker that has not arrived has moved. The bytes may have come after the worker's arrival, so
 * arrived is read again after the poll. */
static bool missing_moved(const struct ls_meeting_place *place) {
    const struct ls_shared *shared = place->shared;
    struct pollfd *polls = place->shared->executor->polls;
    for (int i = 0; i < shared->size; i++) {
        struct ls_link *link = place->shared->executor->peers[shared->members[i]].link;
        polls[i] = (struct pollfd){.fd = -1};
        if (link && !link->ops->readable) (void)link->ops->poll(link, POLLIN, &polls[i]);
    }
    (void)poll(polls, (nfds_t)shared->size, 0);
    for (int i = 0; i < shared->size; i++) {
        struct ls_link *link = place->shared->executor->peers[shared->members[i]].link;
        if (has_moved(link, &polls[i]) && !has_come(shared, i)) return true;
    }
    return false;
}

/* Fingerprints go over the links that there are: one of them has ended, or brings the cause of its failure. Never
 * LS_OK.
 */
static ls_status meet_over_links(const struct ls_meeting_place *place) {
    struct ls_call call = *place->shared->executor->call;
    call.resumed = true;
    for (int i = 0; i < place->shared->size; i++) {
        int rank = place->shared->members[i];
        if (!place->shared->executor->peers[rank].link) place->shared->roles[rank] = LS_ROLE_NONE;
    }
    call.roles = place->shared->roles;
    ls_schedule_reset(place->shared->schedule, 1);
    ls_status status = ls_executor_run(place->shared->executor, place->shared->schedule, &call);
    return status ? status
                  : ls_fail(LS_INTERNAL, "'%s': the ranks differ in shared memory, but not over the links",
                            call.frame.name);
}

static ls_status look_at_missing(const struct ls_meeting_place *place) {
    ls_status status = LS_OK;
    for (int i = 0; i < place->shared->size && !status; i++)
        if (!has_come(place->shared, i)) status = ls_notice_look(place->shared, place->shared->executor, i);
    return status;
}

static ls_status wait_long(const struct ls_meeting_place *place, bool opening) {
    for (;;) {
        sleep_a_slice(place->shared);
        if (is_over(place->shared)) return LS_OK;
        note_presence(place, opening);
        ls_status status = ls_wait_verdict(place->shared->executor);
        if (!status) status = look_at_missing(place);
        if (status) return status;
        /* its last act may have been the end of this call, for which another one has gone on */
        if (missing_moved(place)) return is_over(place->shared) ? LS_OK : meet_over_links(place);
    }
}

/* True if a worker that has not arrived was last seen on the processor of this thread. */
static bool is_in_the_way(const struct ls_shared *shared, int32_t here) {
    for (int i = 0; i < shared->size; i++) {
        struct ls_control *control = ls_shared_control(shared, i);
        if (atomic_load_explicit(&control->processor, memory_order_relaxed) == here && !has_come(shared, i))
            return true;
    }
    return false;
}

/* True if this processor runs more workers than its share, and this rank is the last of them. */
static bool is_one_too_many(const struct ls_shared *shared, int32_t here) {
    int before = 0;
    for (int i = 0; i < shared->size; i++) {
        bool is_here = atomic_load_explicit(&ls_shared_control(shared, i)->processor, memory_order_relaxed) == here;
        if (is_here && i > shared->rank) return false;
        before += is_here;
    }
    return before > (shared->size + shared->processors - 1) / shared->processors;
}

/* Moves this thread to any other processor that it may use. The kernel would take tens of milliseconds to see the
 * uneven load: threads that yield to each other look as if each needed its caches. */
static void move_off_core(int32_t here) {
    cpu_set_t allowed, others;
    if (sched_getaffinity(0, sizeof(allowed), &allowed)) return;
    others = allowed;
    CPU_CLR((size_t)here, &others);
    if (!CPU_COUNT(&others) || sched_setaffinity(0, sizeof(others), &others)) return;
    (void)sched_setaffinity(0, sizeof(allowed), &allowed);
}

/* Gives way to a missing worker on this processor; false if sleeping is better. With processors to spare the kernel
 * wakes a thread on a free one. */
static bool let_run(const struct ls_meeting_place *place, int64_t now) {
    struct ls_shared *shared = place->shared;
    struct ls_control *own = ls_shared_control(shared, shared->rank);
    int32_t here = atomic_load_explicit(&own->processor, memory_order_relaxed);
    if (!is_in_the_way(shared, here)) return true;
    if (now > shared->moved + STAY && is_one_too_many(shared, here)) {
        shared->moved = now;
        move_off_core(here);
        note_processor(own);
    } else if (place->crowded) {
        (void)sched_yield();
    } else {
        return false;
    }
    return true;
}

/* The clock is read once in TURNS looks, since a look at a cached line is far cheaper. Spinning for about as long as a
 * sleep and its wake take costs at most twice the best choice (Karlin et al. 1991, competitive spinning); SPIN is 50
 * microseconds. A crowded host looks only 5 times between two chances to give way. */
static bool wait_briefly(const struct ls_meeting_place *place) {
    int turns = place->crowded ? CROWDED_TURNS : TURNS;
    int64_t end = 0, now;
    do {
        for (int i = 0; i < turns; i++) {
            if (is_over(place->shared)) return true;
            relax();
        }
        now = ls_now();
        if (!end) end = now + SPIN;
    } while (now < end && let_run(place, now));
    return is_over(place->shared);
}

static ls_status wait(const struct ls_meeting_place *place, bool opening) {
    return wait_briefly(place) ? LS_OK : wait_long(place, opening);
}

ls_status ls_shm_barrier(const struct ls_meeting_place *place, bool opening) {
    come(place->shared);
    ls_status status = wait(place, opening);
    if (!status) wake(place->shared);
    return status;
}

/* taken counts all calls of a group and is never set back, so nobody needs to meet for a reset. shared->taken is its
 * value before this call, equal on all workers. The order may be relaxed: the meeting before has published the leaves,
 * and the numbers themselves publish nothing. */
uint64_t ls_shm_barrier_take(const struct ls_meeting_place *place) {
    struct ls_shared *shared = place->shared;
    return atomic_fetch_add_explicit(&ls_shared_control(shared, 0)->taken, 1, memory_order_relaxed) - shared->taken;
}

/* Every worker has taken a block once in vain. A worker that arrives owes no block. Hence taken grows by count + size a
 * call. The addition to done publishes a worker's results to those who read it with acquire order. The worker whose
 * addition reaches the goal, shared->done, wakes the sleepers. */
ls_status ls_shm_barrier_done(const struct ls_meeting_place *place, uint64_t blocks, uint64_t count) {
    struct ls_shared *shared = place->shared;
    shared->taken += count + (uint64_t)shared->size;
    shared->done += count;
    struct ls_control *center = ls_shared_control(shared, 0);
    bool last = blocks && atomic_fetch_add(&center->done, blocks) + blocks == shared->done;
    if (last && atomic_load(&center->sleepers)) wake_all(center);
    come(shared);
    shared->blocks = true;
    ls_status status = wait(place, false);
    shared->blocks = false;
    return status;
}
