/* A source of some of another one's examples, or of all in another order, which it numbers anew. */
#include "data/sources.h"

#include "base/memory.h"
#include "base/status.h"

struct chosen {
    struct ls_source source;
    struct ls_source *inner; /* owns */
    struct ls_source_ops ops;
    int64_t *kept; /* owns: the numbers in inner */
};

static ls_status read_chosen_example(const struct ls_source *source, int64_t index, float *features,
                                     const struct ls_targets *targets) {
    const struct chosen *chosen = (const struct chosen *)source;
    return chosen->inner->ops->read(chosen->inner, chosen->kept[index], features, targets);
}

static ls_status bytes_of_chosen(const struct ls_source *source, int64_t index, uint8_t *features,
                                 const struct ls_targets *targets) {
    const struct chosen *chosen = (const struct chosen *)source;
    return ls_source_bytes(chosen->inner, chosen->kept[index], features, targets);
}

static ls_status read_chosen_encoded(const struct ls_source *source, int64_t index, uint8_t **bytes, size_t *size,
                                     const struct ls_targets *targets) {
    const struct chosen *chosen = (const struct chosen *)source;
    return chosen->inner->ops->encoded(chosen->inner, chosen->kept[index], bytes, size, targets);
}

static ls_status targets_of_chosen(const struct ls_source *source, int64_t index, const struct ls_targets *targets) {
    const struct chosen *chosen = (const struct chosen *)source;
    return ls_source_targets(chosen->inner, chosen->kept[index], targets);
}

static const char *class_chosen_name(const struct ls_source *source, int label) {
    return ls_source_class_name(((const struct chosen *)source)->inner, label);
}

static int64_t file_of_chosen(const struct ls_source *source, int64_t index) {
    const struct chosen *chosen = (const struct chosen *)source;
    return chosen->inner->ops->file(chosen->inner, chosen->kept[index]);
}

static const char *path_of_chosen(const struct ls_source *source, int64_t index) {
    const struct chosen *chosen = (const struct chosen *)source;
    return ls_source_path(chosen->inner, chosen->kept[index]);
}

static void free_chosen(struct ls_source *source) {
    struct chosen *chosen = (struct chosen *)source;
    chosen->inner->ops->free(chosen->inner);
    ls_free(chosen->kept);
    ls_free(chosen);
}

static ls_status check_chosen(const struct ls_source *source, int64_t index) {
    const struct chosen *chosen = (const struct chosen *)source;
    return chosen->inner->ops->check(chosen->inner, chosen->kept[index]);
}

/* This source has no more ops than the inner one. */
static struct ls_source_ops ops_around(const struct ls_source_ops *inner) {
    return (struct ls_source_ops){.read = read_chosen_example,
                                  .free = free_chosen,
                                  .encoded = inner->encoded ? read_chosen_encoded : NULL,
                                  .check = inner->check ? check_chosen : NULL,
                                  .class_name = class_chosen_name,
                                  .file = inner->file ? file_of_chosen : NULL,
                                  .targets = targets_of_chosen,
                                  .path = path_of_chosen,
                                  .bytes = bytes_of_chosen};
}

ls_status ls_source_chosen(struct ls_source **source, int64_t *kept, int64_t count) {
    struct chosen *made = ls_alloc(sizeof(*made));
    if (!made) {
        ls_free(kept);
        return ls_fail_memory("a dataset", sizeof(*made));
    }
    made->source = **source;
    made->ops = ops_around((*source)->ops);
    made->source.ops = &made->ops;
    made->source.count = count;
    made->inner = *source;
    made->kept = kept;
    *source = &made->source;
    return LS_OK;
}
