/* Tests of the flight record: what is kept of calls that end, fail and go on, a ring that is full, and what others may
 * read meanwhile. */
#include "collective/run/flight.h"

#include <stdio.h>

#include "harness.h"

static struct ls_flight flight;
static struct ls_activity activity;

static void begin(uint64_t sequence) {
    struct ls_frame frame = {.sequence = sequence, .count = 10, .kind = LS_KIND_ALL_REDUCE, .dtype = LS_FLOAT32};
    char name[32];
    (void)snprintf(name, sizeof(name), "call %d", (int)sequence);
    ls_frame_name(&frame, name);
    ls_flight_begin(&flight, &frame);
}

TEST(a_call) {
    assert_ok(ls_flight_init(&flight, 4, &activity));
    ck_assert_ptr_null(ls_flight_get(&flight, 0));
    begin(7);
    const struct ls_flight_entry *entry = ls_flight_get(&flight, 0);
    ck_assert_uint_eq(entry->sequence, 7);
    ck_assert_uint_eq(entry->count, 10);
    ck_assert_str_eq(entry->name, "call 7");
    ck_assert_str_eq(ls_frame_collective_name(entry->kind), "all_reduce");
    ck_assert_int_eq(entry->state, LS_FLIGHT_BEGUN);
    ls_flight_start(&flight, 1000);
    ck_assert_int_eq(ls_activity_get(&activity.since), 1000);
    ls_flight_end(&flight, false);
    ck_assert_int_eq(entry->state, LS_FLIGHT_DONE);
    ck_assert_int_eq(entry->begun, 1000);
    ck_assert_int_gt(entry->ended, 1000);
    ck_assert_int_eq(ls_activity_get(&activity.since), 0);
    ck_assert_int_eq(ls_activity_get(&activity.collectives), 1);
    ck_assert_int_eq(ls_activity_get(&activity.bytes), 40);
    ck_assert_int_eq(ls_activity_get(&activity.inside), entry->ended - 1000);
    ls_flight_end(&flight, true); /* nothing is in progress */
    ck_assert_int_eq(entry->state, LS_FLIGHT_DONE);
    ls_flight_free(&flight);
}

TEST(a_call_that_fails_before_its_clock_starts) {
    assert_ok(ls_flight_init(&flight, 0, NULL));
    begin(0);
    ls_flight_end(&flight, true);
    ck_assert_int_eq(ls_flight_get(&flight, 0)->state, LS_FLIGHT_FAILED);
    ck_assert_int_eq(ls_flight_get(&flight, 0)->begun, ls_flight_get(&flight, 0)->ended);
    ls_flight_free(&flight);
}

TEST(a_full_ring) {
    assert_ok(ls_flight_init(&flight, 4, NULL));
    for (uint64_t i = 0; i < 11; i++) {
        begin(i);
        ls_flight_end(&flight, false);
    }
    ck_assert_uint_eq(ls_flight_dropped(&flight), 7);
    for (uint64_t i = 0; i < 4; i++) ck_assert_uint_eq(ls_flight_get(&flight, i)->sequence, 7 + i);
    ck_assert_ptr_null(ls_flight_get(&flight, 4));
    ls_flight_free(&flight);
}

TESTS("collective/flight")
