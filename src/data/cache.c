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
    struct ls_source *inner;   /* owns */
    size_t elements;           /* of one example */
    size_t example;            /* its bytes: a source of bytes keeps these */
    char *features;            /* owns */
    struct ls_targets targets; /* owns */
    atomic_uchar *states;      /* owns: an enum state for each example */
};

/* The exchange from EMPTY to KEEPING chooses one writer. KEPT is stored with release order behind the copy, and read
 * with acquire order before it: who sees KEPT sees the whole example. */
static void keep_cache(const struct cached *cached, int64_t index, const void *features,
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

static ls_status bytes_of_cache(const struct ls_source *source, int64_t index, uint8_t *features,
                                const struct ls_targets *targets) {
    const struct cached *cached = (const struct cached *)source;
    const void *kept = find_kept(cached, index, targets);
    if (kept) {
        memcpy(features, kept, cached->example);
        return LS_OK;
    }
    ls_status status = ls_source_bytes(cached->inner, index, features, targets);
    if (!status) keep_cache(cached, index, features, targets);
    return status;
}

static ls_status read_cached_bytes(const struct cached *cached, int64_t index, float *features,
                                   const struct ls_targets *targets) {
    const void *kept = find_kept(cached, index, targets);
    LS_CLEANUP(ls_free_pointer) uint8_t *bytes = NULL;
    if (!kept) kept = bytes = ls_alloc(cached->example);
    if (!kept) return ls_fail_memory("an example", cached->example);
    ls_status status = bytes ? bytes_of_cache(&cached->source, index, bytes, targets) : LS_OK;
    if (!status) ls_pixels_to_unit(kept, cached->elements, features);
    return status;
}

static ls_status read_cache_example(const struct ls_source *source, int64_t index, float *features,
                                    const struct ls_targets *targets) {
    const struct cached *cached = (const struct cached *)source;
    if (source->bytes) return read_cached_bytes(cached, index, features, targets);
    const void *kept = find_kept(cached, index, targets);
    if (kept) {
        memcpy(features, kept, cached->example);
        return LS_OK;
    }
    ls_status status = cached->inner->ops->read(cached->inner, index, features, targets);
    if (!status) keep_cache(cached, index, features, targets);
    return status;
}

static ls_status read_cache_encoded(const struct ls_source *source, int64_t index, uint8_t **bytes, size_t *size,
                                    const struct ls_targets *targets) {
    const struct ls_source *inner = ((const struct cached *)source)->inner;
    return inner->ops->encoded(inner, index, bytes, size, targets);
}

static const char *class_cache_name(const struct ls_source *source, int label) {
    return ls_source_class_name(((const struct cached *)source)->inner, label);
}

static int64_t file_of_cache(const struct ls_source *source, int64_t index) {
    const struct ls_source *inner = ((const struct cached *)source)->inner;
    return inner->ops->file(inner, index);
}

static const char *path_of_cache(const struct ls_source *source, int64_t index) {
    return ls_source_path(((const struct cached *)source)->inner, index);
}

static void free_cached(struct ls_source *source) {
    struct cached *cached = (struct cached *)source;
    if (cached->inner) cached->inner->ops->free(cached->inner);
    ls_free(cached->features);
    ls_targets_free(&cached->targets);
    ls_free((void *)cached->states);
    ls_free(cached);
}

static const struct ls_source_ops ops = {.read = read_cache_example,
                                         .free = free_cached,
                                         .class_name = class_cache_name,
                                         .file = file_of_cache,
                                         .path = path_of_cache,
                                         .bytes = bytes_of_cache};
static const struct ls_source_ops encoded_ops = {.read = read_cache_example,
                                                 .free = free_cached,
                                                 .class_name = class_cache_name,
                                                 .path = path_of_cache,
                                                 .encoded = read_cache_encoded,
                                                 .file = file_of_cache,
                                                 .bytes = bytes_of_cache};

ls_status ls_source_cache(struct ls_source **source) {
    LS_NEW(struct cached, made, "a cache");
    size_t count = (size_t)(*source)->count;
    made->source = **source;
    made->source.ops = (*source)->ops->encoded ? &encoded_ops : &ops;
    made->elements = (size_t)ls_shape_count(&made->source.shape);
    made->example = made->source.bytes ? made->elements : made->elements * sizeof(float);
    made->features = ls_alloc_array(count, made->example);
    made->states = ls_alloc_array(count, sizeof(*made->states));
    ls_status status = ls_targets_new(&made->source.targets, (int64_t)count, &made->targets);
    if (status || !made->features || !made->states) {
        size_t bytes = count * made->example;
        free_cached(&made->source);
        return ls_fail_memory("the cache of all examples", bytes);
    }
    made->inner = *source;
    *source = &made->source;
    return LS_OK;
}
