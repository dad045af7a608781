/* The tables of all members are merged: of each task the row of its newest process. A process that is new does not know
 * yet how many there were before it. Merging twice is merging once, so an exchange that failed is just made again. */
#include "strategy/restarts.h"

#include <string.h>

#include "base/memory.h"
#include "base/status.h"

#define UNKNOWN (-1) /* the count in the own row of a process that is new */

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

static ls_status check_tables(const struct ls_bytes *received, int members, size_t size) {
    for (int i = 0; i < members; i++)
        if (received[i].size != size)
            return ls_fail(LS_INTERNAL, "rank %d sent %zu bytes where a table of %zu was expected", i, received[i].size,
                           size);
    return LS_OK;
}

/* First what was known before this generation, then who is new in it. */
static void take_tables(struct ls_membership *membership, const struct ls_bytes *received) {
    int tasks = membership->tasks;
    for (int i = 0; i < membership->size; i++) ls_restarts_merge(membership->restarts, received[i].data, tasks);
    for (int i = 0; i < membership->size; i++) {
        int task = ls_membership_task(membership, i);
        const struct ls_restart *own = (const struct ls_restart *)received[i].data + task;
        ls_restarts_present(&membership->restarts[task], own->since);
    }
    int own = membership->task;
    ls_activity_set(&membership->activity.restarts, membership->restarts[own].count);
}

static ls_status exchange(struct ls_membership *membership, struct ls_restart *table, size_t size,
                          struct ls_bytes *received) {
    int own = membership->task;
    memcpy(table, membership->restarts, size);
    if (table[own].since != membership->first_generation)
        table[own] = (struct ls_restart){membership->first_generation, UNKNOWN};
    ls_status status = ls_cluster_exchange(membership->cluster, "restarts", (struct ls_bytes){table, size},
                                           membership->settings.collective_timeout, received);
    if (!status) status = check_tables(received, membership->size, size);
    if (!status) take_tables(membership, received);
    for (int i = 0; i < membership->size; i++) ls_free(received[i].data);
    return status;
}

ls_status ls_restarts_share(struct ls_membership *membership) {
    size_t tasks = (size_t)membership->tasks, size = tasks * sizeof(struct ls_restart);
    if (!membership->restarts) membership->restarts = ls_alloc_array(tasks, sizeof(*membership->restarts));
    if (!membership->first_generation) membership->first_generation = (int64_t)membership->generation;
    LS_CLEANUP(ls_free_pointer) struct ls_restart *table = ls_alloc(size);
    LS_CLEANUP(ls_free_pointer)
    struct ls_bytes *received = ls_alloc_array((size_t)membership->size, sizeof(*received));
    if (!membership->restarts || !table || !received) return ls_fail_memory("the table of restarts", size);
    return exchange(membership, table, size, received);
}
