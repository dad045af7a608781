/* A barrier of a counter and a futex in rank 0's control segment. Who waits long looks, every few milliseconds, at the
 * abort flag, the clock and the links: during a call in shared memory nothing moves on those, unless a rank has gone
 * or makes another call. (A rank may be ahead and use its links already; then the meeting is over, which is looked at
 * once more.) */
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
enum { ROUNDS = 20, TURNS = 30, CROWDED_ROUNDS = 4 }; /* about 20 microseconds when nobody yields to another */

_Static_assert(ATOMIC_LLONG_LOCK_FREE == 2 && ATOMIC_INT_LOCK_FREE == 2, "atomics must work between processes");

static inline void relax(void) {
#if defined(__x86_64__)
    __builtin_ia32_pause();
#endif
}

static bool is_over(const struct ls_shared *shared) {
    return atomic_load_explicit(&ls_shared_control(shared, 0)->generation, memory_order_acquire) ==
           (uint32_t)shared->turn;
}

static void arrive(struct ls_shared *shared) {
    struct ls_control *center = ls_shared_control(shared, 0);
    uint64_t turn = ++shared->turn;
    atomic_store_explicit(&ls_shared_control(shared, shared->rank)->arrived, turn, memory_order_release);
    if (atomic_fetch_add(&center->count, 1) + 1 != turn * (uint64_t)shared->size) return;
    atomic_store(&center->generation, (uint32_t)turn);
    if (atomic_load(&center->sleepers))
        (void)syscall(SYS_futex, &center->generation, FUTEX_WAKE, INT_MAX, NULL, NULL, 0);
}

static void sleep_a_slice(const struct ls_shared *shared) {
    struct ls_control *center = ls_shared_control(shared, 0);
    struct timespec slice = {.tv_nsec = SLICE};
    atomic_fetch_add(&center->sleepers, 1);
    uint32_t seen = atomic_load(&center->generation);
    if (seen != (uint32_t)shared->turn)
        (void)syscall(SYS_futex, &center->generation, FUTEX_WAIT, seen, &slice, NULL, 0);
    atomic_fetch_sub(&center->sleepers, 1);
}

/* Who is waited for, in the executor's terms. */
static void note_presence(const struct ls_meeting_place *place, bool opening) {
    for (int i = 0; i < place->shared->size; i++) {
        struct ls_peer *peer = &place->executor->peers[i];
        uint64_t turn = atomic_load(&ls_shared_control(place->shared, i)->arrived);
        bool here = turn >= place->shared->turn;
        peer->heard = here || !opening;
        peer->receiving = here ? -1 : 0;
        peer->sending = -1;
        peer->frame_sent = LS_FRAME_SIZE;
    }
}

static bool links_moved(const struct ls_executor *executor) {
    for (int i = 0; i < executor->size; i++) {
        const struct ls_link *link = executor->peers[i].link;
        executor->polls[i] = (struct pollfd){.fd = link ? link->ops->fd(link) : -1, .events = POLLIN};
    }
    return poll(executor->polls, (nfds_t)executor->size, 0) > 0;
}

ls_status ls_meet_over_links(const struct ls_meeting_place *place) {
    struct ls_call call = *place->executor->call;
    call.resumed = true;
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
        if (links_moved(place->executor) && !is_over(place->shared)) return ls_meet_over_links(place);
    }
}

/* Turns are short and yield in between: whoever is waited for may want this very processor. */
static bool wait_briefly(const struct ls_meeting_place *place) {
    int rounds = place->crowded ? CROWDED_ROUNDS : ROUNDS, turns = place->crowded ? 1 : TURNS;
    for (int i = 0; i < rounds; i++) {
        for (int j = 0; j < turns; j++) {
            if (is_over(place->shared)) return true;
            relax();
        }
        (void)sched_yield();
    }
    return is_over(place->shared);
}

ls_status ls_meet(const struct ls_meeting_place *place, bool opening) {
    arrive(place->shared);
    return wait_briefly(place) ? LS_OK : wait_long(place, opening);
}
