/* Waiting costs next to nothing: who waits long for another rank sleeps, over every kind of link. */
#include <time.h>
#include <unistd.h>

#include "collective/collectives.h"
#include "collective/world.h"
#include "harness.h"

enum { WAIT = 2 /* seconds */, SIZE = 4 };
#define SHARE 0.05 /* of a processor, at most */

static double processor_seconds(void) {
    struct timespec time;
    ck_assert_int_eq(clock_gettime(CLOCK_THREAD_CPUTIME_ID, &time), 0);
    return (double)time.tv_sec + (double)time.tv_nsec * 1e-9;
}

static ls_status reduce(struct rank *rank, size_t count) {
    static const float given[20000] = {0};
    float received[20000];
    const void *input = given;
    void *output = received;
    const struct ls_all_reduce call = {.name = "idle", .count = count, .inputs = &input, .outputs = &output};
    return ls_group_all_reduce(rank->group, &call);
}

static ls_status wait_for_rank_0(struct rank *rank) {
    size_t count = *(const size_t *)rank->context;
    ls_status status = reduce(rank, count); /* everything is there */
    double before = processor_seconds();
    if (!rank->rank) (void)sleep(WAIT);
    if (!status) status = reduce(rank, count);
    double used = processor_seconds() - before;
    ck_assert_msg(used < SHARE * WAIT, "rank %d used the processor for %g of %d s", rank->rank, used, WAIT);
    return status;
}

TEST_EACH(who_waits_sleeps, 8) {
    static const enum wire wires[] = {WIRE_SHARED, WIRE_TCP, WIRE_LOCAL, WIRE_RING};
    size_t count = _i & 1 ? 20000 : 16;
    struct world_options options = {.size = SIZE, .wire = wires[_i / 2]};
    struct world world;
    world_run(&options, wait_for_rank_0, &count, &world);
    world_expect_ok(&world, SIZE);
}

TESTS("collective/idle", .seconds = 60)
