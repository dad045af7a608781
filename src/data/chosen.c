/* A source of some of another one's examples, which it numbers anew. */
#include "data/chosen.h"

#include "base/memory.h"
#include "base/status.h"
#include "data/sources.h"

struct chosen {
    struct ls_source source;
    struct ls_source *inner; /* owns */
    int64_t *kept;           /* owns: the numbers in inner */
};

static ls_status read_chosen_example(const struct ls_source *source, int64_t index, float *features,
                                     const struct ls_targets *targets) {
    const struct chosen *chosen = (const struct chosen *)source;
    return chosen->inner->ops->read(chosen->inner, chosen->kept[index], features, targets);
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

static void free_chosen(struct ls_source *source) {
    struct chosen *chosen = (struct chosen *)source;
    if (chosen->inner) chosen->inner->ops->free(chosen->inner);
    ls_free(chosen->kept);
    ls_free(chosen);
}

static const struct ls_source_ops ops = {.read = read_chosen_example,
                                         .free = free_chosen,
                                         .class_name = class_chosen_name,
                                         .file = file_of_chosen,
                                         .targets = targets_of_chosen};
static const struct ls_source_ops encoded_ops = {.read = read_chosen_example,
                                                 .free = free_chosen,
                                                 .class_name = class_chosen_name,
                                                 .encoded = read_chosen_encoded,
                                                 .file = file_of_chosen,
                                                 .targets = targets_of_chosen};

ls_status ls_source_chosen(struct ls_source **source, int64_t *kept, int64_t count) {
    struct chosen *made = ls_alloc(sizeof(*made));
    if (!made) {
        ls_free(kept);
        return ls_fail_memory("a dataset", sizeof(*made));
    }
    made->source = **source;
    made->source.ops = (*source)->ops->encoded ? &encoded_ops : &ops;
    made->source.count = count;
    made->inner = *source;
    made->kept = kept;
    *source = &made->source;
    return LS_OK;
}
