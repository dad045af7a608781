/* A source without its damaged examples: all are read once, by several threads, when the dataset is opened, so that
 * every worker leaves out the same ones and positions stay a function of the step. */
#include "data/screen.h"

#include <stdatomic.h>
#include <string.h>

#include "base/memory.h"
#include "base/status.h"
#include "base/monitor.h"
#include "base/thread.h"
#include "data/sources.h"
#include "data/dataset.h"

struct screened {
    struct ls_source source;
    struct ls_source *inner; /* owns */
    int64_t *kept;           /* owns: the numbers in inner */
};

static ls_status read_screen_example(const struct ls_source *source, int64_t index, float *features,
                                     const struct ls_targets *targets) {
    const struct screened *screened = (const struct screened *)source;
    return screened->inner->ops->read(screened->inner, screened->kept[index], features, targets);
}

static ls_status read_screen_encoded(const struct ls_source *source, int64_t index, uint8_t **bytes, size_t *size,
                                     const struct ls_targets *targets) {
    const struct screened *screened = (const struct screened *)source;
    return screened->inner->ops->encoded(screened->inner, screened->kept[index], bytes, size, targets);
}

static const char *class_screen_name(const struct ls_source *source, int label) {
    return ls_source_class_name(((const struct screened *)source)->inner, label);
}

static int64_t file_of_screen(const struct ls_source *source, int64_t index) {
    const struct screened *screened = (const struct screened *)source;
    return screened->inner->ops->file(screened->inner, screened->kept[index]);
}

static void free_screened(struct ls_source *source) {
    struct screened *screened = (struct screened *)source;
    if (screened->inner) screened->inner->ops->free(screened->inner);
    ls_free(screened->kept);
    ls_free(screened);
}

static const struct ls_source_ops ops = {
    .read = read_screen_example, .free = free_screened, .class_name = class_screen_name, .file = file_of_screen};
static const struct ls_source_ops encoded_ops = {.read = read_screen_example,
                                                 .free = free_screened,
                                                 .class_name = class_screen_name,
                                                 .encoded = read_screen_encoded,
                                                 .file = file_of_screen};

/* The state that the threads share. */
struct search {
    const struct ls_source *source;
    int64_t count;
    uint8_t *damaged; /* owns: one an example */
    atomic_llong next;
    struct ls_monitor monitor; /* guards the rest */
    int64_t first;             /* damaged example; count: none yet */
    ls_status status;          /* of what is no damage and ends the search */
    char first_message[LS_ERROR_SIZE], message[LS_ERROR_SIZE];
};

/* Damage is counted and the search goes on. Any other error, such as an unreadable disk, is no property of the example:
 * workers could differ in it, so it ends the search for all threads by moving next to the end. */
static void note_screen(struct search *search, int64_t index, ls_status status) {
    bool damage = status == LS_DATA_LOSS;
    ls_monitor_lock(&search->monitor);
    if (damage && index < search->first) {
        search->first = index;
        memcpy(search->first_message, ls_error(), strlen(ls_error()) + 1);
    }
    if (!damage && !search->status) {
        search->status = status;
        memcpy(search->message, ls_error(), strlen(ls_error()) + 1);
    }
    ls_monitor_unlock(&search->monitor);
    if (damage) search->damaged[index] = 1;
    if (!damage) atomic_store(&search->next, search->count);
}

static void *look_through(void *argument) {
    struct search *search = argument;
    const struct ls_source *source = search->source;
    for (int64_t index; (index = atomic_fetch_add(&search->next, 1)) < search->count;) {
        ls_status status = source->ops->check(source, index);
        if (status) note_screen(search, index, status);
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
    return search->status ? ls_fail(search->status, "%s", search->message) : LS_OK;
}

/* The numbers of the others. */
static ls_status keep_screen(const struct search *search, struct screened *screened) {
    int64_t kept = 0;
    screened->kept = ls_alloc_array((size_t)search->count, sizeof(*screened->kept));
    if (!screened->kept) return ls_fail_memory("the numbers of the examples", (size_t)search->count * sizeof(int64_t));
    for (int64_t i = 0; i < search->count; i++)
        if (!search->damaged[i]) screened->kept[kept++] = i;
    if (!kept)
        return ls_fail(LS_DATA_LOSS, "all %lld examples are damaged: %s", (long long)search->count,
                       search->first_message);
    screened->source.count = kept;
    return LS_OK;
}

static ls_status wrap(const struct search *search, struct ls_source **source) {
    struct screened *made = ls_alloc(sizeof(*made));
    if (!made) return ls_fail_memory("a dataset", sizeof(*made));
    made->source = **source;
    made->source.ops = (*source)->ops->encoded ? &encoded_ops : &ops;
    for (int64_t i = 0; i < search->count; i++) made->source.damaged += search->damaged[i];
    ls_status status = keep_screen(search, made);
    if (status) {
        free_screened(&made->source);
        return status;
    }
    made->inner = *source;
    *source = &made->source;
    return LS_OK;
}

ls_status ls_source_screen(struct ls_source **source, int threads) {
    if (!(*source)->ops->check || (*source)->count < 1) return LS_OK;
    struct search *search = ls_alloc(sizeof(*search));
    if (!search) return ls_fail_memory("the search for damage", sizeof(*search));
    search->source = *source;
    search->count = search->first = (*source)->count;
    search->damaged = ls_alloc((size_t)search->count);
    ls_status status = search->damaged ? ls_monitor_init(&search->monitor)
                                       : ls_fail_memory("the search for damage", (size_t)search->count);
    if (!status) {
        status = run_search(search, threads);
        ls_monitor_destroy(&search->monitor);
        if (!status && search->first < search->count) status = wrap(search, source);
    }
    ls_free(search->damaged);
    ls_free(search);
    return status;
}
