/* Tests of base/clock, base/thread and base/gate: deadlines, waits that end, and hand-over between threads. */
#include "base/monitor.h"
#include "base/thread.h"

#include <math.h>
#include <signal.h>
#include <string.h>

#include "base/clock.h"
#include "base/gate.h"
#include "harness.h"

TEST(deadlines) {
    int64_t start = ls_now();
    ck_assert_int_eq(ls_deadline_in(0), LS_NEVER);
    ck_assert_int_eq(ls_deadline_in(-1), LS_NEVER);
    ck_assert_int_eq(ls_deadline_in(INFINITY), LS_NEVER);
    ck_assert_int_eq(ls_deadline_in(NAN), LS_NEVER);
    int64_t deadline = ls_deadline_in(2.5);
    ck_assert_int_ge(deadline, start + 5 * LS_SECOND / 2);
    ck_assert_int_lt(deadline, start + 4 * LS_SECOND);
    ck_assert_int_eq(ls_poll_timeout(start - 1, 1000), 0);
    ck_assert_int_eq(ls_poll_timeout(LS_NEVER, 1000), 1000);
    ck_assert_int_eq(ls_poll_timeout(ls_now() + 3600 * LS_SECOND, 250), 250);
    int left = ls_poll_timeout(ls_now() + 100 * LS_MILLISECOND, 1000);
    ck_assert(left > 0 && left <= 100);
    ck_assert_double_ge(ls_seconds_since(start), 0);
}

TEST(wait_ends_at_the_deadline) {
    struct ls_monitor monitor;
    assert_ok(ls_monitor_init(&monitor));
    int64_t start = ls_now();
    ls_monitor_lock(&monitor);
    while (ls_monitor_wait(&monitor, start + 50 * LS_MILLISECOND)) continue;
    ls_monitor_unlock(&monitor);
    ck_assert_int_ge(ls_now() - start, 50 * LS_MILLISECOND);
    ls_monitor_destroy(&monitor);
}

struct shared {
    struct ls_monitor monitor;
    bool ready;
    struct ls_gate gate;
    int value;
};

static void *make_ready(void *argument) {
    struct shared *shared = argument;
    ls_monitor_lock(&shared->monitor);
    shared->ready = true;
    ls_monitor_broadcast(&shared->monitor);
    ls_monitor_unlock(&shared->monitor);
    return NULL;
}

TEST(broadcast_wakes) {
    struct shared shared = {.ready = false};
    pthread_t thread;
    assert_ok(ls_monitor_init(&shared.monitor));
    ls_monitor_lock(&shared.monitor);
    assert_ok(ls_thread_start(&thread, "maker-with-a-long-name", make_ready, &shared));
    int64_t deadline = ls_deadline_in(20);
    while (!shared.ready) ck_assert(ls_monitor_wait(&shared.monitor, deadline));
    ls_monitor_unlock(&shared.monitor);
    (void)pthread_join(thread, NULL);
    ls_monitor_destroy(&shared.monitor);
}

static void *read_mask(void *argument) {
    (void)pthread_sigmask(SIG_BLOCK, NULL, argument);
    return NULL;
}

TEST(threads_block_signals) {
    pthread_t thread;
    sigset_t mask, own;
    assert_ok(ls_thread_start(&thread, "masked", read_mask, &mask));
    (void)pthread_join(thread, NULL);
    ck_assert(sigismember(&mask, SIGINT) && sigismember(&mask, SIGTERM) && sigismember(&mask, SIGUSR1));
    (void)pthread_sigmask(SIG_BLOCK, NULL, &own);
    ck_assert(!sigismember(&own, SIGINT));
}

#define TURNS 2000

/* Even values of the gate are the main thread's turn, odd ones the other's. */
static void *answer(void *argument) {
    struct shared *shared = argument;
    for (uint32_t turn = 0; turn < TURNS; turn++) {
        ls_gate_wait(&shared->gate, 2 * turn, 10);
        shared->value++;
        ls_gate_open(&shared->gate);
    }
    return NULL;
}

TEST(gate_hands_over) {
    struct shared shared = {.ready = false};
    pthread_t thread;
    assert_ok(ls_thread_start(&thread, "other", answer, &shared));
    for (uint32_t turn = 0; turn < TURNS; turn++) {
        ck_assert_int_eq(shared.value, (int)(2 * turn));
        shared.value++;
        ls_gate_open(&shared.gate);
        ls_gate_wait(&shared.gate, 2 * turn + 1, turn % 2 ? 0 : 100);
    }
    (void)pthread_join(thread, NULL);
    ck_assert_int_eq(shared.value, 2 * TURNS);
    ck_assert_int_eq(ls_gate_spins(1 << 20), 0);
}

TESTS("thread", .seconds = 60)
