/* A source without its damaged examples: all are read once, by several threads, when the dataset is opened, so that
 * every worker leaves out the same ones and positions stay a function of the step. */
#include "data/sources.h"

#include <stdatomic.h>
#include <string.h>

#include "base/kept_error.h"
#include "base/monitor.h"
#include "base/new.h"
#include "base/thread.h"
#include "data/dataset.h"

/* The state that the threads share. */
struct search {
    const struct ls_source *source;
    int64_t count;
    uint8_t *damaged; /* owns: one an example */
    atomic_llong next;
    struct ls_monitor monitor;   /* guards the rest */
    int64_t first;               /* damaged example; count: none yet */
    struct ls_kept_error damage; /* of first */
    struct ls_kept_error other;  /* what is no damage, and ends the search */
};

/* Damage is counted and the search goes on. Any other error, such as an unreadable disk, is no property of the example:
 * workers could differ in it, so it ends the search for all threads by moving next to the end. */
static void note_example(struct search *search, int64_t index, ls_status status) {
    bool damage = status == LS_DATA_LOSS;
    ls_monitor_lock(&search->monitor);
    if (damage && index < search->first) {
        search->first = index;
        ls_kept_error_set(&search->damage, status);
    }
    if (!damage) ls_kept_error_first(&search->other, status);
    ls_monitor_unlock(&search->monitor);
    if (damage) search->damaged[index] = 1;
    if (!damage) atomic_store(&search->next, search->count);
}

static void *look_through(void *argument) {
    struct search *search = argument;
    const struct ls_source *source = search->source;
    for (int64_t index; (index = atomic_fetch_add(&search->next, 1)) < search->count;) {
        ls_status status = source->ops->check(source, index);
        if (status) note_example(search, index, status);
    }
    return NULL;
}

/* The caller is one of the threads; fewer than asked for are as good. */
static ls_status run_search(struct search *search, int threads) {
    pthread_t started[LS_DATA_MAX_WORKERS];
    int count = 0;
    while (count + 1 < threads && count < LS_DATA_MAX_WORKERS &&
           !ls_thread_start(&started[count], "ls-data-check", look_through, search))
        count++;
    (void)look_through(search);
    for (int i = 0; i < count; i++) (void)pthread_join(started[i], NULL);
    return ls_kept_error_raise(&search->other);
}

/* Keeps the others. */
static ls_status leave_out_damaged(const struct search *search, struct ls_source **source) {
    int64_t *kept = ls_alloc_array((size_t)search->count, sizeof(*kept)), count = 0;
    if (!kept) return ls_fail_memory("the numbers of the examples", (size_t)search->count * sizeof(*kept));
    for (int64_t i = 0; i < search->count; i++)
        if (!search->damaged[i]) kept[count++] = i;
    ls_status status = LS_OK;
    if (!count)
        status = ls_fail(LS_DATA_LOSS, "all %lld examples are damaged: %s", (long long)search->count,
                         search->damage.message);
    if (status)
        ls_free(kept);
    else
        status = ls_source_chosen(source, kept, count);
    if (!status) (*source)->damaged += search->count - count;
    return status;
}

ls_status ls_source_screen(struct ls_source **source, int threads) {
    if (!(*source)->ops->check || (*source)->count < 1) return LS_OK;
    LS_NEW(struct search, search, "the search for damage");
    search->source = *source;
    search->count = search->first = (*source)->count;
    search->damaged = ls_alloc((size_t)search->count);
    ls_status status = search->damaged ? ls_monitor_init(&search->monitor)
                                       : ls_fail_memory("the search for damage", (size_t)search->count);
    if (!status) {
        status = run_search(search, threads);
        ls_monitor_destroy(&search->monitor);
        if (!status && search->first < search->count) status = leave_out_damaged(search, source);
    }
    ls_free(search->damaged);
    ls_free(search);
    return status;
}
