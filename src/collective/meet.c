/* Every worker counts its turns in its own control segment; who waits reads those of all others, and sleeps on a futex
 * in the first worker's. Who waits spins for a moment, but lets those run whom it waits for, and tells the kernel if it
 * has put more of them on one processor than on another. Who waits long looks, every few milliseconds, at the abort
 * flag, the clock and the links of those who have not come: during a call in shared memory nothing moves on them,
 * unless a rank has gone or makes another call. Who has come may be ahead, use its links for the next call, or end in
 * it: this meeting does not need it any more, and to give it up would leave behind those for whom it is over. */
#define _GNU_SOURCE
#include "collective/meet.h"

#include <limits.h>
#include <linux/futex.h>
#include <sched.h>
#include <sys/syscall.h>
#include <time.h>
#include <unistd.h>

#include "base/clock.h"

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

/* Somebody may be a turn ahead. */
static bool has_come(const struct ls_shared *shared, int index) {
    return atomic_load(&ls_shared_control(shared, index)->arrived) >= shared->turn;
}

static bool all_have_come(struct ls_shared *shared) {
    for (; shared->awaited < shared->size; shared->awaited++)
        if (!has_come(shared, shared->awaited)) return false;
    return true;
}

static bool is_over(struct ls_shared *shared) {
    if (!shared->blocks) return all_have_come(shared);
    return atomic_load_explicit(&ls_shared_control(shared, 0)->done, memory_order_acquire) >= shared->done;
}

/* What ends a turn is written before sleepers is read, and who is to sleep counts itself before it looks. */
static void wake(const struct ls_shared *shared) {
    struct ls_control *center = ls_shared_control(shared, 0);
    if (!atomic_load(&center->sleepers)) return;
    atomic_fetch_add(&center->wakes, 1);
    (void)syscall(SYS_futex, &center->wakes, FUTEX_WAKE, INT_MAX, NULL, NULL, 0);
}

static void come(struct ls_shared *shared) {
    struct ls_control *own = ls_shared_control(shared, shared->rank);
    shared->awaited = 0;
    atomic_store_explicit(&own->processor, sched_getcpu(), memory_order_relaxed);
    atomic_store(&own->arrived, ++shared->turn);
}

static void sleep_a_slice(struct ls_shared *shared) {
    struct ls_control *center = ls_shared_control(shared, 0);
    struct timespec slice = {.tv_nsec = SLICE};
    atomic_fetch_add(&center->sleepers, 1);
    uint32_t seen = atomic_load(&center->wakes);
    if (!is_over(shared)) (void)syscall(SYS_futex, &center->wakes, FUTEX_WAIT, seen, &slice, NULL, 0);
    atomic_fetch_sub(&center->sleepers, 1);
}

/* Who is waited for, in the executor's terms. */
static void note_presence(const struct ls_meeting_place *place, bool opening) {
    for (int i = 0; i < place->executor->size; i++) {
        struct ls_peer *peer = &place->executor->peers[i];
        peer->role = (enum ls_role)place->shared->roles[i];
        peer->receiving = peer->sending = -1;
        peer->frame_sent = LS_FRAME_SIZE;
    }
    for (int i = 0; i < place->shared->size; i++) {
        struct ls_peer *peer = &place->executor->peers[place->shared->members[i]];
        bool here = has_come(place->shared, i);
        peer->heard = here || !opening;
        peer->receiving = here ? -1 : 0;
    }
}

/* Whether the link of one who has not come has moved. What moved may have come after its arrival: look again. */
static bool missing_moved(const struct ls_meeting_place *place) {
    const struct ls_shared *shared = place->shared;
    struct pollfd *polls = place->executor->polls;
    for (int i = 0; i < shared->size; i++) {
        const struct ls_link *link = place->executor->peers[shared->members[i]].link;
        polls[i] = (struct pollfd){.fd = link ? link->ops->fd(link) : -1, .events = POLLIN};
    }
    if (poll(polls, (nfds_t)shared->size, 0) <= 0) return false;
    for (int i = 0; i < shared->size; i++)
        if (polls[i].revents && !has_come(shared, i)) return true;
    return false;
}

ls_status ls_meet_over_links(const struct ls_meeting_place *place) {
    struct ls_call call = *place->executor->call;
    call.resumed = true;
    call.roles = place->shared->roles;
    ls_schedule_reset(place->schedule, 1);
    ls_status status = ls_execute(place->executor, place->schedule, &call);
    return status ? status
                  : ls_fail(LS_INTERNAL, "'%s': the ranks differ in shared memory, but not over the links",
                            call.frame.name);
}

static ls_status wait_long(const struct ls_meeting_place *place, bool opening) {
    for (;;) {
        sleep_a_slice(place->shared);
        if (is_over(place->shared)) return LS_OK;
        note_presence(place, opening);
        ls_status status = ls_executor_verdict(place->executor);
        if (status) return status;
        if (missing_moved(place)) return ls_meet_over_links(place);
    }
}

/* Whether somebody who has not come was last seen on the processor of this thread. */
static bool is_in_the_way(const struct ls_shared *shared, int32_t here) {
    for (int i = 0; i < shared->size; i++) {
        struct ls_control *control = ls_shared_control(shared, i);
        if (atomic_load_explicit(&control->processor, memory_order_relaxed) == here &&
            atomic_load_explicit(&control->arrived, memory_order_relaxed) < shared->turn)
            return true;
    }
    return false;
}

/* Whether more workers than the share of a processor are on this one, and it is for this rank to go. */
static bool is_one_too_many(const struct ls_shared *shared, int32_t here) {
    int before = 0;
    for (int i = 0; i < shared->size; i++) {
        bool is_here = atomic_load_explicit(&ls_shared_control(shared, i)->processor, memory_order_relaxed) == here;
        if (is_here && i > shared->rank) return false;
        before += is_here;
    }
    return before > (shared->size + shared->processors - 1) / shared->processors;
}

/* To any other processor that this thread may use. The kernel would take tens of milliseconds to see that they are
 * unevenly loaded, for threads that yield to each other look as if each needed its caches. */
static void move(int32_t here) {
    cpu_set_t allowed, others;
    if (sched_getaffinity(0, sizeof(allowed), &allowed)) return;
    others = allowed;
    CPU_CLR((size_t)here, &others);
    if (!CPU_COUNT(&others) || sched_setaffinity(0, sizeof(others), &others)) return;
    (void)sched_setaffinity(0, sizeof(allowed), &allowed);
}

/* False: it is better to sleep. With processors to spare the kernel wakes a thread on a free one. */
static bool let_run(const struct ls_meeting_place *place, int64_t now) {
    struct ls_shared *shared = place->shared;
    struct ls_control *own = ls_shared_control(shared, shared->rank);
    int32_t here = atomic_load_explicit(&own->processor, memory_order_relaxed);
    if (!is_in_the_way(shared, here)) return true;
    if (now > shared->moved + STAY && is_one_too_many(shared, here)) {
        shared->moved = now;
        move(here);
        atomic_store_explicit(&own->processor, sched_getcpu(), memory_order_relaxed);
    } else if (place->crowded) {
        (void)sched_yield();
    } else {
        return false;
    }
    return true;
}

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

/* Of those who come at the same time one at least sees that all have come. */
ls_status ls_meet(const struct ls_meeting_place *place, bool opening) {
    come(place->shared);
    if (!all_have_come(place->shared)) return wait(place, opening);
    wake(place->shared);
    return LS_OK;
}

uint64_t ls_meet_take(const struct ls_meeting_place *place) {
    struct ls_shared *shared = place->shared;
    return atomic_fetch_add_explicit(&ls_shared_control(shared, 0)->taken, 1, memory_order_relaxed) - shared->taken;
}

/* Every worker has asked once in vain. Who has come owes no block. */
ls_status ls_meet_done(const struct ls_meeting_place *place, uint64_t blocks, uint64_t count) {
    struct ls_shared *shared = place->shared;
    shared->taken += count + (uint64_t)shared->size;
    shared->done += count;
    if (blocks && atomic_fetch_add(&ls_shared_control(shared, 0)->done, blocks) + blocks == shared->done) wake(shared);
    come(shared);
    shared->blocks = true;
    ls_status status = wait(place, false);
    shared->blocks = false;
    return status;
}
