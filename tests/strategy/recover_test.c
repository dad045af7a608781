/* Recoveries in which nobody is lost: the workers are threads of one process, and a replica says that a connection
 * broke. */
#include <stdatomic.h>
#include <string.h>

#include "harness.h"
#include "strategy/strategy.h"
#include "strategy/workers.h"

/* Resets the connections of the workers, as a box between them does. */
static ls_status break_connection(ls_replica *replica, void *context) {
    struct worker *worker = context;
    (void)replica;
    ls_group_sever(worker->strategy->runtime->group);
    return LS_UNAVAILABLE;
}

static ls_status break_each_time(struct worker *worker) {
    atomic_int *runs = worker->context;
    ls_status status;
    do {
        status = ls_strategy_restore(worker->strategy);
        if (!status) atomic_fetch_add(runs, worker->rank == 0);
        if (!status) status = ls_strategy_run(worker->strategy, break_connection, worker);
    } while (status && ls_strategy_recover(worker->strategy, &status));
    return status;
}

TEST(connections_that_always_break_end_it) {
    atomic_int runs = 0;
    struct worker_cluster cluster = {.count = 2, .devices = {1, 1}, .fn = break_each_time, .context = &runs};
    run_workers(&cluster);
    ck_assert_int_eq(atomic_load(&runs), 9); /* the first, and after each of 8 recoveries */
    for (int i = 0; i < 2; i++) {
        const struct worker *worker = &cluster.workers[i];
        ck_assert_msg(worker->status == LS_UNAVAILABLE || worker->status == LS_ABORTED, "%d", worker->status);
        ck_assert_msg(strstr(worker->error, "8 recoveries in a row began at position 1, though nobody was lost"), "%s",
                      worker->error);
    }
}

TESTS("recover", .seconds = 60)
