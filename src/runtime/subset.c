/* Process sets (MPI_Comm_create_group, hvd.add_process_set). A set is a group of its own: its links, its memory and its
 * order of calls are apart from its parent's and from other sets', so that threads may call in several at once. It
 * shares the parent's abort flag: a failure in one of them ends the calls in all.
 *
 * After a loss the ranks gather what each knows of the sets. A set goes on that all survivors have and none has closed.
 * A process that was started anew learns of them there, and its program claims each by asking for the same ranks. */
#include "runtime/subset.h"

#include <stdio.h>
#include <string.h>

#include "base/kept_error.h"
#include "base/need.h"
#include "base/new.h"
#include "collective/collectives.h"
#include "runtime/runtime.h"

static void free_set(struct ls_subset *set) {
    ls_group_free(set->ranks.group);
    ls_abort_free(set->absence);
    ls_free(set->communicator);
    ls_free(set->tasks);
    ls_free(set->members);
    ls_free(set);
}

static void remove_set(struct ls_subset *set) {
    struct ls_subset **at = &set->parent->sets;
    while (*at != set) at = &(*at)->next;
    *at = set->next;
    free_set(set);
}

static void append_set(ls_communicator *parent, struct ls_subset *set) {
    struct ls_subset **end = &parent->sets;
    while (*end) end = &(*end)->next;
    *end = set;
}

static ls_status new_set(ls_communicator *parent, const int *tasks, int count, struct ls_subset **set) {
    LS_NEW(struct ls_subset, made, "a process set");
    made->parent = parent;
    made->tasks = ls_alloc_array((size_t)count, sizeof(*made->tasks));
    made->members = ls_alloc_array((size_t)count, sizeof(*made->members));
    made->ranks = (struct ls_ranks){.runtime = parent->runtime, .rank = -1, .size = count, .members = made->members};
    if (!made->tasks || !made->members) {
        free_set(made);
        return ls_fail_memory("a process set", (size_t)count * sizeof(*made->tasks));
    }
    memcpy(made->tasks, tasks, (size_t)count * sizeof(*tasks));
    for (int i = 0; i < count; i++)
        if (tasks[i] == parent->runtime->task) made->ranks.rank = i;
    *set = made;
    return LS_OK;
}

/* ---- the group of a set ---- */

static int rank_of_task(const struct ls_runtime *runtime, int task) {
    for (int rank = 0; rank < runtime->size; rank++)
        if (ls_runtime_task(runtime, rank) == task) return rank;
    return -1;
}

/* The first task of the set that is not in this generation; -1: all are. */
static int find_ranks(struct ls_subset *set) {
    int missing = -1;
    for (int i = 0; i < set->ranks.size; i++) {
        set->members[i] = rank_of_task(set->parent->runtime, set->tasks[i]);
        if (set->members[i] < 0 && missing < 0) missing = set->tasks[i];
    }
    return missing;
}

/* A group of this rank alone, whose flag has been raised: every call says why. */
static ls_status make_useless(struct ls_subset *set, const char *why) {
    ls_status status = set->absence ? LS_OK : ls_abort_new(&set->absence);
    if (status) return status;
    ls_abort_raise(set->absence, LS_FAILED_PRECONDITION, why);
    const struct ls_group_config config = {.size = 1, .abort = set->absence, .log = &set->ranks.runtime->log};
    return ls_group_new(&config, &set->ranks.group);
}

/* Opens the links' channels. Links are made once all have come to a call behind it. */
static ls_status open_set(struct ls_subset *set) {
    uint32_t number = ++set->parent->numbered;
    int missing = find_ranks(set);
    char why[128];
    if (set->ranks.rank < 0) return LS_OK;
    if (missing < 0) return ls_runtime_make_group(&set->ranks, number);
    (void)snprintf(why, sizeof(why), "process set: task %d, one of its ranks, is not in this generation", missing);
    return make_useless(set, why);
}

static ls_status connect_set(struct ls_subset *set) {
    return set->ranks.rank < 0 || set->absence ? LS_OK : ls_group_connect(set->ranks.group);
}

static void close_group(struct ls_subset *set) {
    ls_group_free(ls_steal(set->ranks.group));
    ls_abort_free(ls_steal(set->absence));
}

/* ---- the handle ---- */

static ls_status give_handle(struct ls_subset *set, ls_communicator **communicator) {
    set->claimed = true;
    if (set->ranks.rank >= 0) {
        set->communicator = ls_alloc(sizeof(*set->communicator));
        if (!set->communicator) return ls_fail_memory("a process set", sizeof(*set->communicator));
        set->communicator->runtime = set->ranks.runtime;
        set->communicator->ranks = &set->ranks;
        set->communicator->set = set;
    }
    *communicator = set->communicator;
    return LS_OK;
}

static ls_status check_ranks(const ls_communicator *parent, const int *ranks, int count) {
    int size = parent->runtime->size;
    if (parent->set)
        return ls_fail(LS_INVALID_ARGUMENT, "a process set is made of a communicator's ranks, not of a set's");
    if (count < 1 || count > size)
        return ls_fail(LS_INVALID_ARGUMENT, "a process set of %d ranks: there are %d, and it has one at least", count,
                       size);
    for (int i = 0; i < count; i++) {
        if (ranks[i] < 0 || ranks[i] >= size)
            return ls_fail(LS_INVALID_ARGUMENT, "process set: ranks[%d] is %d, which is no rank of %d", i, ranks[i],
                           size);
        for (int j = 0; j < i; j++)
            if (ranks[j] == ranks[i])
                return ls_fail(LS_INVALID_ARGUMENT, "process set: rank %d stands twice, as ranks[%d] and ranks[%d]",
                               ranks[i], j, i);
    }
    return LS_OK;
}

static struct ls_subset *find_unclaimed(const ls_communicator *parent, const int *tasks, int count) {
    struct ls_subset *set = parent->sets;
    while (set && (set->claimed || set->dead || set->ranks.size != count ||
                   memcmp(set->tasks, tasks, (size_t)count * sizeof(*tasks)) != 0))
        set = set->next;
    return set;
}

/* The other ranks wait for this one, and learn why it does not come. */
static ls_status end_parent(const ls_communicator *parent, ls_status status) {
    struct ls_kept_error kept = ls_kept_error_of(status);
    if (ls_abort_raised(parent->runtime->abort)) return status;
    ls_runtime_abort(parent->runtime, kept.message);
    return ls_kept_error_raise(&kept);
}

/* The ranks are the name of the call, so that a difference is named by the ranks' comparison of it. All have opened the
 * channels when it is over. */
static ls_status meet_parent(const ls_communicator *parent, const int *ranks, int count) {
    size_t size = 32 + (size_t)count * 12, used;
    LS_CLEANUP(ls_free_pointer) char *name = ls_alloc(size);
    if (!name) return ls_fail_memory("a process set", size);
    used = (size_t)snprintf(name, size, "process set of ranks");
    for (int i = 0; i < count; i++) used += (size_t)snprintf(name + used, size - used, "%s %d", i ? "," : "", ranks[i]);
    return ls_group_barrier(parent->runtime->group, name);
}

static ls_status make_set(ls_communicator *parent, const int *ranks, const int *tasks, int count,
                          struct ls_subset **made) {
    struct ls_subset *set = NULL;
    ls_status status = new_set(parent, tasks, count, &set);
    if (status) return status;
    set->id = ++parent->ids;
    status = open_set(set);
    if (!status) status = meet_parent(parent, ranks, count);
    if (!status) status = connect_set(set);
    if (status) {
        status = end_parent(parent, status);
        free_set(set);
        return status;
    }
    append_set(parent, set);
    *made = set;
    return LS_OK;
}

ls_status ls_communicator_subset(ls_communicator *parent, const int *ranks, int count, ls_communicator **set) {
    LS_NEED(parent, ranks, set);
    ls_status status = check_ranks(parent, ranks, count);
    if (!status && parent->async)
        status = ls_fail(LS_FAILED_PRECONDITION, "process set: make it before ls_communicator_negotiate of the parent");
    if (status) return status;
    LS_CLEANUP(ls_free_pointer) LS_NEW_ARRAY(int, tasks, (size_t)count, "a process set");
    for (int i = 0; i < count; i++) tasks[i] = ls_runtime_task(parent->runtime, ranks[i]);
    struct ls_subset *found = find_unclaimed(parent, tasks, count);
    if (!found) status = make_set(parent, ranks, tasks, count, &found);
    if (!status) status = give_handle(found, set);
    return status;
}

int ls_communicator_parent_rank(const ls_communicator *set, int rank) {
    LS_NEED_OR(-1, set);
    if (rank < 0 || rank >= set->ranks->size) return -1;
    return set->set ? set->set->members[rank] : rank;
}

int ls_communicator_subset_rank(const ls_communicator *set, int parent_rank) {
    LS_NEED_OR(-1, set);
    for (int rank = 0; rank < set->ranks->size; rank++)
        if (ls_communicator_parent_rank(set, rank) == parent_rank) return rank;
    return -1;
}

/* Its ranks meet before their links end, as at the exit of the parent. */
ls_status ls_subset_close(struct ls_subset *set, ls_status status) {
    ls_async_close(ls_steal(set->communicator->async), status);
    if (!status && !set->dead && !set->absence) status = ls_group_barrier(set->ranks.group, "close process set");
    if (status) status = end_parent(set->parent, status);
    close_group(set);
    ls_free(ls_steal(set->communicator));
    set->closed = true;
    if (set->dead) remove_set(set);
    return status;
}

/* ---- the parent's life ---- */

void ls_subset_suspend(ls_communicator *parent) {
    for (struct ls_subset *set = parent->sets; set; set = set->next) {
        if (set->communicator) ls_async_rest(set->communicator->async);
        close_group(set);
    }
}

void ls_subset_end_calls(ls_communicator *parent, ls_status status) {
    for (struct ls_subset *set = parent->sets; set; set = set->next)
        if (set->communicator) ls_async_close(ls_steal(set->communicator->async), status);
}

void ls_subset_free_all(ls_communicator *parent) {
    while (parent->sets) remove_set(parent->sets);
}

/* A rank's table: whether the process is new and how many ids it has given; of each set its id, whether it is closed
 * here, its count and its tasks. A process is new until it has seen the tables of the others once. */
enum { FRESH = 1, CLOSED = 1, HEAD = 2 /* numbers before the first set */, ENTRY = 3 /* before the tasks of one */ };

static size_t table_size(const ls_communicator *parent) {
    size_t size = HEAD;
    for (const struct ls_subset *set = parent->sets; set; set = set->next)
        if (!set->dead) size += ENTRY + (size_t)set->ranks.size;
    return size;
}

static void write_table(const ls_communicator *parent, int32_t *table) {
    *table++ = parent->agrees ? 0 : FRESH;
    *table++ = parent->ids;
    for (const struct ls_subset *set = parent->sets; set; set = set->next) {
        if (set->dead) continue;
        *table++ = set->id;
        *table++ = set->closed ? CLOSED : 0;
        *table++ = set->ranks.size;
        memcpy(table, set->tasks, (size_t)set->ranks.size * sizeof(*table));
        table += set->ranks.size;
    }
}

struct tables {
    int32_t *all;
    size_t *counts;
    int size;
};

static void free_tables(struct tables *tables) {
    ls_free(tables->all);
    ls_free(tables->counts);
}

static ls_status gather_tables(const ls_communicator *parent, struct tables *tables) {
    size_t own = table_size(parent);
    LS_CLEANUP(ls_free_pointer) int32_t *table = ls_alloc_array(own, sizeof(*table));
    tables->size = parent->runtime->size;
    tables->counts = ls_alloc_array((size_t)tables->size, sizeof(*tables->counts));
    if (!table || !tables->counts) return ls_fail_memory("the process sets", own * sizeof(*table));
    write_table(parent, table);
    void *all = NULL;
    ls_status status = ls_ragged_all_gather(parent->runtime->group,
                                            LS_ALL_GATHER("process sets", table, .dtype = LS_INT32, .count = own,
                                                          .allocated = &all, .received = tables->counts));
    tables->all = all;
    return status;
}

static const int32_t *table_of(const struct tables *tables, int rank) {
    const int32_t *at = tables->all;
    for (int i = 0; i < rank; i++) at += tables->counts[i];
    return at;
}

/* The next entry of rank's table, the first after NULL: id, closed, count, tasks. NULL: there is none, or the table is
 * torn. */
static const int32_t *next_entry(const struct tables *tables, int rank, const int32_t *entry) {
    const int32_t *table = table_of(tables, rank), *end = table + tables->counts[rank];
    const int32_t *at = entry ? entry + ENTRY + entry[2] : table + HEAD;
    return end - at > ENTRY && at[2] > 0 && at[2] <= end - at - ENTRY ? at : NULL;
}

static const int32_t *find_entry(const struct tables *tables, int rank, int32_t id) {
    const int32_t *entry = NULL;
    while ((entry = next_entry(tables, rank, entry)) && entry[0] != id) continue;
    return entry;
}

static bool is_fresh(const struct tables *tables, int rank) {
    return *table_of(tables, rank) == FRESH;
}

static int first_survivor(const struct tables *tables) {
    int rank = 0;
    while (rank < tables->size && is_fresh(tables, rank)) rank++;
    return rank < tables->size ? rank : -1;
}

/* True if all survivors have the set of that id with the same tasks, and none has closed it. */
static bool goes_on(const struct tables *tables, int32_t id) {
    const int32_t *first = NULL;
    for (int rank = 0; rank < tables->size; rank++) {
        if (is_fresh(tables, rank)) continue;
        const int32_t *entry = find_entry(tables, rank, id);
        if (!first) first = entry;
        if (!entry || entry[1] == CLOSED || entry[2] != first[2] ||
            memcmp(entry + ENTRY, first + ENTRY, (size_t)entry[2] * sizeof(*entry)) != 0)
            return false;
    }
    return first != NULL;
}

static ls_status adopt(ls_communicator *parent, const int32_t *entry) {
    struct ls_subset *made;
    ls_status status = new_set(parent, entry + ENTRY, entry[2], &made);
    if (status) return status;
    made->id = entry[0];
    append_set(parent, made);
    return LS_OK;
}

/* Marks what does not go on, and adopts what this new process does not know. *count: sets that go on, on all ranks. */
static ls_status merge_tables(ls_communicator *parent, const struct tables *tables, int *count) {
    int survivor = first_survivor(tables);
    ls_status status = LS_OK;
    for (int rank = 0; rank < tables->size; rank++) {
        int32_t ids = table_of(tables, rank)[1];
        if (ids > parent->ids) parent->ids = ids;
    }
    for (struct ls_subset *set = parent->sets; set; set = set->next) set->dead |= !goes_on(tables, set->id);
    for (const int32_t *entry = NULL; survivor >= 0 && (entry = next_entry(tables, survivor, entry)) && !status;) {
        if (!goes_on(tables, entry[0])) continue;
        ++*count;
        if (!parent->agrees) status = adopt(parent, entry);
    }
    if (!status) parent->agrees = true;
    return status;
}

/* Of a set that is no more only a handle is left, if the program has one. */
static void sweep(ls_communicator *parent) {
    for (struct ls_subset *set = parent->sets, *next; set; set = next) {
        next = set->next;
        if (set->dead && !set->communicator) remove_set(set);
    }
}

static ls_status open_all(ls_communicator *parent) {
    ls_status status = LS_OK;
    for (struct ls_subset *set = parent->sets; set && !status; set = set->next)
        status = set->dead ? make_useless(set, "process set: it was closed, or not made, on some of its ranks before a "
                                               "loss; make it anew")
                           : open_set(set);
    return status;
}

ls_status ls_subset_renew(ls_communicator *parent) {
    LS_CLEANUP(free_tables) struct tables tables = {0};
    parent->numbered = 0;
    if (parent->runtime->generation == 1) { /* nobody has been in one before */
        parent->agrees = true;
        return LS_OK;
    }
    int count = 0;
    ls_status status = gather_tables(parent, &tables);
    if (!status) status = merge_tables(parent, &tables, &count);
    if (status) return status;
    sweep(parent);
    status = open_all(parent);
    if (!status && count) status = ls_group_barrier(parent->runtime->group, "process sets are open");
    for (struct ls_subset *set = parent->sets; set && !status; set = set->next)
        if (!set->dead) status = connect_set(set);
    for (struct ls_subset *set = parent->sets; set && !status; set = set->next)
        if (set->communicator) status = ls_async_resume(set->communicator->async);
    return status;
}
