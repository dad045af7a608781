/* All members tell the row of their own process, and the lowest one that is not new tells its table: each task gets the
 * row of its newest process. A new process does not know yet the number of processes before it. Merging twice gives the
 * same table, so a failed exchange is just made again. */
#include "runtime/restarts.h"

#include <string.h>

#include "base/memory.h"
#include "base/status.h"
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

static ls_status check_rows(const struct ls_bytes *received, int members) {
    for (int i = 0; i < members; i++)
        if (received[i].size != sizeof(struct ls_restart))
            return ls_fail(LS_INTERNAL, "rank %d sent %zu bytes where a row of %zu was expected", i, received[i].size,
                           sizeof(struct ls_restart));
    return LS_OK;
}

static ls_status exchange(struct ls_runtime *runtime, const char *name, struct ls_bytes bytes,
                          struct ls_bytes *received) {
    return ls_cluster_exchange(runtime->cluster, name, bytes, runtime->settings.collective_timeout, received);
}

static void free_received(const struct ls_runtime *runtime, struct ls_bytes *received) {
    for (int i = 0; i < runtime->size; i++) ls_free(received[i].data);
}

/* The lowest member that is not new; -1: all are, and there is no table yet. */
static int find_source(const struct ls_runtime *runtime, const struct ls_bytes *rows) {
    for (int i = 0; i < runtime->size; i++)
        if (((const struct ls_restart *)rows[i].data)->count != UNKNOWN) return i;
    return -1;
}

/* Takes what the source knows of the processes before. */
static ls_status take_table(struct ls_runtime *runtime, int source, struct ls_bytes *received) {
    size_t size = (size_t)runtime->tasks * sizeof(struct ls_restart);
    struct ls_bytes table = {runtime->restarts, size};
    if (source != runtime->rank) table.size = 0;
    ls_status status = exchange(runtime, "restarts before", table, received);
    if (status) return status;
    if (received[source].size != size)
        status = ls_fail(LS_INTERNAL, "rank %d sent %zu bytes where a table of %zu was expected", source,
                         received[source].size, size);
    else
        ls_restarts_merge(runtime->restarts, received[source].data, runtime->tasks);
    free_received(runtime, received);
    return status;
}

/* The rows of those that are not new, then the new processes. */
static void take_rows(struct ls_runtime *runtime, const struct ls_bytes *rows) {
    for (int i = 0; i < runtime->size; i++) {
        struct ls_restart *known = &runtime->restarts[ls_runtime_task(runtime, i)];
        const struct ls_restart *own = rows[i].data;
        ls_restarts_merge(known, own, 1);
        ls_restarts_present(known, own->since);
    }
    ls_activity_set(&runtime->activity.restarts, runtime->restarts[runtime->task].count);
}

static ls_status share_restarts(struct ls_runtime *runtime, struct ls_bytes *rows, struct ls_bytes *tables) {
    struct ls_restart own = runtime->restarts[runtime->task];
    if (own.since != runtime->first_generation) own = (struct ls_restart){runtime->first_generation, UNKNOWN};
    ls_status status = exchange(runtime, "restarts", (struct ls_bytes){&own, sizeof(own)}, rows);
    if (status) return status;
    status = check_rows(rows, runtime->size);
    int source = status ? -1 : find_source(runtime, rows);
    if (source >= 0) status = take_table(runtime, source, tables);
    if (!status) take_rows(runtime, rows);
    free_received(runtime, rows);
    return status;
}

ls_status ls_restarts_share(struct ls_runtime *runtime) {
    size_t tasks = (size_t)runtime->tasks, members = (size_t)runtime->size;
    if (!runtime->restarts) runtime->restarts = ls_alloc_array(tasks, sizeof(*runtime->restarts));
    if (!runtime->first_generation) runtime->first_generation = (int64_t)runtime->generation;
    LS_CLEANUP(ls_free_pointer) struct ls_bytes *rows = ls_alloc_array(members, sizeof(*rows));
    LS_CLEANUP(ls_free_pointer) struct ls_bytes *tables = ls_alloc_array(members, sizeof(*tables));
    if (!runtime->restarts || !rows || !tables)
        return ls_fail_memory("the table of restarts", tasks * sizeof(*runtime->restarts));
    return share_restarts(runtime, rows, tables);
}
