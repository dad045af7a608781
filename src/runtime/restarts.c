/* All members tell the row of their own process, and the lowest one that is not new tells its table: each task gets the
 * row of its newest process. A new process does not know yet the number of processes before it. Merging twice gives the
 * same table, so a failed exchange is just made again. */
#include "runtime/restarts.h"

#include "base/new.h"
#include "cluster/exchange.h"

#define UNKNOWN (-1) /* the count in the own row of a process that is new */

/* The greater of two rows by (since, count) stays. Such a maximum commutes, is associative and idempotent, so every
 * member comes to the same table in whatever order the rows arrive. A row that says UNKNOWN comes from a process that
 * has not heard its own count; it adds nothing here, and ls_restarts_present counts it afterwards. */
void ls_restarts_merge(struct ls_restart *known, const struct ls_restart *told, int tasks) {
    for (int task = 0; task < tasks; task++) {
        bool newer = told[task].since > known[task].since;
        bool better = told[task].since == known[task].since && told[task].count > known[task].count;
        if (told[task].count != UNKNOWN && (newer || better)) known[task] = told[task];
    }
}

void ls_restarts_present(struct ls_restart *known, int64_t since) {
    if (known->since && known->since != since) known->count++;
    known->since = since;
}

/* The lowest member that is not new; -1: all are, and there is no table yet. */
static int find_source(const struct ls_runtime *runtime, const struct ls_restart *rows) {
    for (int i = 0; i < runtime->size; i++)
        if (rows[i].count != UNKNOWN) return i;
    return -1;
}

/* Takes what the source knows of the processes before. */
static ls_status take_table(struct ls_runtime *runtime, int source) {
    size_t size = (size_t)runtime->tasks * sizeof(struct ls_restart);
    const struct ls_bytes table = {runtime->restarts, source == runtime->rank ? size : 0};
    LS_CLEANUP(ls_free_pointer)
    LS_NEW_ARRAY(struct ls_bytes, received, (size_t)runtime->size, "the table of restarts");
    ls_status status =
        ls_cluster_exchange(runtime->cluster, "restarts before", table, runtime->settings.collective_timeout, received);
    if (status) return status;
    if (received[source].size != size)
        status = ls_fail(LS_INTERNAL, "rank %d sent %zu bytes where a table of %zu was expected", source,
                         received[source].size, size);
    else
        ls_restarts_merge(runtime->restarts, received[source].data, runtime->tasks);
    for (int i = 0; i < runtime->size; i++) ls_free(received[i].data);
    return status;
}

/* The rows of those that are not new, then the new processes. */
static void take_rows(struct ls_runtime *runtime, const struct ls_restart *rows) {
    for (int i = 0; i < runtime->size; i++) {
        struct ls_restart *known = &runtime->restarts[ls_runtime_task(runtime, i)];
        ls_restarts_merge(known, &rows[i], 1);
        ls_restarts_present(known, rows[i].since);
    }
    ls_activity_set(&runtime->activity.restarts, runtime->restarts[runtime->task].count);
}

ls_status ls_restarts_share(struct ls_runtime *runtime) {
    size_t tasks = (size_t)runtime->tasks;
    if (!runtime->restarts) runtime->restarts = ls_alloc_array(tasks, sizeof(*runtime->restarts));
    if (!runtime->first_generation) runtime->first_generation = (int64_t)runtime->generation;
    LS_CLEANUP(ls_free_pointer) struct ls_restart *rows = ls_alloc_array((size_t)runtime->size, sizeof(*rows));
    if (!runtime->restarts || !rows) return ls_fail_memory("the table of restarts", tasks * sizeof(*runtime->restarts));
    struct ls_restart own = runtime->restarts[runtime->task];
    if (own.since != runtime->first_generation) own = (struct ls_restart){runtime->first_generation, UNKNOWN};
    ls_status status = ls_runtime_exchange_rows(runtime, "restarts", (struct ls_bytes){&own, sizeof(own)}, rows);
    int source = status ? -1 : find_source(runtime, rows);
    if (source >= 0) status = take_table(runtime, source);
    if (!status) take_rows(runtime, rows);
    return status;
}
