/* A source whose examples are kept in memory once they have been read (tf.data's cache, before random stages). Any
 * number of threads may read: whoever comes first to an example keeps it, and who comes meanwhile reads it for itself,
 * so that nobody waits. Untouched pages cost nothing. */
#include "data/sources.h"

#include <stdatomic.h>
#include <string.h>

#include "base/new.h"
#include "base/shape.h"
#include "data/pixels.h"
#include "data/dataset.h"

enum state { EMPTY = 0, KEEPING, KEPT };

struct cached {
    struct ls_source source;
    size_t example;            /* bytes of one: a source of bytes keeps these */
    char *features;            /* owns */
    struct ls_targets targets; /* owns */
    atomic_uchar *states;      /* owns: an enum state for each example */
};

/* The exchange from EMPTY to KEEPING chooses one writer. KEPT is stored with release order behind the copy, and read
 * with acquire order before it: who sees KEPT sees the whole example. */
static void keep_example(const struct cached *cached, int64_t index, const void *features,
                         const struct ls_targets *targets) {
    unsigned char expected = EMPTY;
    if (!atomic_compare_exchange_strong(&cached->states[index], &expected, KEEPING)) return;
    memcpy(cached->features + (size_t)index * cached->example, features, cached->example);
    const struct ls_targets place = ls_targets_at(&cached->targets, &cached->source.targets, index);
    ls_targets_copy(&cached->source.targets, targets, 1, &place);
    atomic_store_explicit(&cached->states[index], KEPT, memory_order_release);
}

/* Returns the place of a kept example; NULL where it is not kept. */
static const void *find_kept(const struct cached *cached, int64_t index, const struct ls_targets *targets) {
    if (atomic_load_explicit(&cached->states[index], memory_order_acquire) != KEPT) return NULL;
    const struct ls_targets place = ls_targets_at(&cached->targets, &cached->source.targets, index);
    ls_targets_copy(&cached->source.targets, &place, 1, targets);
    return cached->features + (size_t)index * cached->example;
}

/* As the source has it: bytes, or elements. */
static ls_status read_kept(const struct ls_source *source, int64_t index, void *features,
                           const struct ls_targets *targets) {
    const struct cached *cached = (const struct cached *)source;
    const struct ls_source *inner = cached->source.inner;
    const void *kept = find_kept(cached, index, targets);
    if (kept) memcpy(features, kept, cached->example);
    if (kept) return LS_OK;
    ls_status status = inner->bytes ? ls_source_bytes(inner, index, features, targets)
                                    : ls_source_read(inner, index, features, targets);
    if (!status) keep_example(cached, index, features, targets);
    return status;
}

static ls_status bytes_of_cache(const struct ls_source *source, int64_t index, uint8_t *features,
                                const struct ls_targets *targets) {
    return read_kept(source, index, features, targets);
}

static ls_status read_cache_example(const struct ls_source *source, int64_t index, float *features,
                                    const struct ls_targets *targets) {
    return read_kept(source, index, features, targets);
}

/* Kept bytes are made floats where they lie. */
static ls_status read_cached_bytes(const struct ls_source *source, int64_t index, float *features,
                                   const struct ls_targets *targets) {
    const struct cached *cached = (const struct cached *)source;
    const void *kept = find_kept(cached, index, targets);
    LS_CLEANUP(ls_free_pointer) uint8_t *bytes = NULL;
    if (!kept) kept = bytes = ls_alloc(cached->example);
    if (!kept) return ls_fail_memory("an example", cached->example);
    ls_status status = bytes ? read_kept(source, index, bytes, targets) : LS_OK;
    if (!status) ls_pixels_to_unit(kept, cached->example, features);
    return status;
}

static void free_cached(struct ls_source *source) {
    struct cached *cached = (struct cached *)source;
    ls_free(cached->features);
    ls_targets_free(&cached->targets);
    ls_free((void *)cached->states);
    ls_source_free(source);
}

static const struct ls_source_ops ops_of_bytes = {.read = read_cached_bytes,
                                                  .free = free_cached,
                                                  .bytes = bytes_of_cache},
                                  ops_of_elements = {.free = free_cached, .read = read_cache_example};

ls_status ls_source_cache(struct ls_source **source) {
    LS_NEW(struct cached, made, "a cache");
    size_t count = (size_t)(*source)->count;
    made->example = (size_t)ls_shape_count(&(*source)->shape) * ((*source)->bytes ? 1 : sizeof(float));
    made->features = ls_alloc_array(count, made->example);
    made->states = ls_alloc_array(count, sizeof(*made->states));
    ls_status status = ls_targets_new(&(*source)->targets, (int64_t)count, &made->targets);
    if (status || !made->features || !made->states) {
        size_t bytes = count * made->example;
        free_cached(&made->source);
        return ls_fail_memory("the cache of all examples", bytes);
    }
    made->source = **source;
    made->source.ops = (*source)->bytes ? &ops_of_bytes : &ops_of_elements;
    made->source.inner = *source;
    made->source.kept = NULL;
    *source = &made->source;
    return LS_OK;
}
