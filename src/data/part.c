/* Mirrors validation_split and subset of tf.keras.utils.image_dataset_from_directory, but by class: of each one the
 * same share is drawn for validation (a stratified split). It is a function of the seed, the labels and how many there
 * are, so that all workers, and both parts, agree. Each part keeps the order of the source. */
#include "data/sources.h"

#include <math.h>
#include <stdlib.h>

#include "base/memory.h"
#include "base/random.h"
#include "base/status.h"
#include "data/dataset.h"

#define STREAM UINT64_C(0x76616c6964617465) /* of random numbers: "validate" */

struct drawn {
    int32_t label;
    uint64_t random;
    int64_t example;
};

static int compare_drawn(const void *left, const void *right) {
    const struct drawn *a = left, *b = right;
    if (a->label != b->label) return a->label < b->label ? -1 : 1;
    if (a->random != b->random) return a->random < b->random ? -1 : 1;
    return a->example < b->example ? -1 : a->example > b->example;
}

static int compare_examples(const void *left, const void *right) {
    const int64_t *a = left, *b = right;
    return *a < *b ? -1 : *a > *b;
}

/* Numbers as targets are one class. */
static ls_status draw_all(const struct ls_source *source, const ls_dataset_options *options, struct drawn *drawn,
                          int64_t count) {
    struct ls_targets targets = {0};
    ls_status status = ls_targets_new(&source->targets, 1, &targets);
    for (int64_t i = 0; i < count && !status; i++) {
        int64_t example = options->skip + i;
        if (!source->targets.numbers) status = ls_source_targets(source, example, &targets);
        int32_t label = source->targets.numbers || status ? 0 : *targets.labels;
        drawn[i] = (struct drawn){label, ls_random_bits(options->seed, STREAM, (uint64_t)example), example};
    }
    ls_targets_free(&targets);
    return status;
}

/* The examples for validation among the first so many, by class: so their number is right over all classes too. */
static int64_t validated_among(double split, int64_t count) {
    return (int64_t)floor(split * (double)count + 0.5);
}

static int64_t keep_part(const struct drawn *drawn, int64_t count, const ls_dataset_options *options, int64_t *kept) {
    int64_t left = 0;
    for (int64_t first = 0, next; first < count; first = next) {
        for (next = first; next < count && drawn[next].label == drawn[first].label; next++) continue;
        int64_t validated =
            validated_among(options->validation_split, next) - validated_among(options->validation_split, first);
        bool validates = options->part == LS_PART_VALIDATION;
        int64_t from = validates ? first : first + validated, to = validates ? first + validated : next;
        for (int64_t i = from; i < to; i++) kept[left++] = drawn[i].example;
    }
    qsort(kept, (size_t)left, sizeof(*kept), compare_examples);
    return left;
}

ls_status ls_part_draw(const struct ls_source *source, const ls_dataset_options *options, int64_t **kept,
                       int64_t *count) {
    int64_t among = source->count - options->skip;
    if (options->limit && options->limit < among) among = options->limit;
    LS_CLEANUP(ls_free_pointer) struct drawn *drawn = ls_alloc_array((size_t)among, sizeof(*drawn));
    LS_CLEANUP(ls_free_pointer) int64_t *made = ls_alloc_array((size_t)among, sizeof(*made));
    if (!drawn || !made) return ls_fail_memory("the parts of a dataset", (size_t)among * sizeof(*drawn));
    ls_status status = draw_all(source, options, drawn, among);
    if (status) return status;
    qsort(drawn, (size_t)among, sizeof(*drawn), compare_drawn);
    int64_t left = keep_part(drawn, among, options, made);
    if (!left || left == among)
        return ls_fail(LS_INVALID_ARGUMENT, "validation_split is %g: of %lld examples it leaves none for %s",
                       options->validation_split, (long long)among,
                       !left == (options->part == LS_PART_VALIDATION) ? "validation" : "training");
    *kept = ls_steal(made);
    *count = left;
    return LS_OK;
}

ls_status ls_source_part(struct ls_source **source, ls_dataset_options *options) {
    int64_t *kept = NULL, count = 0;
    if (options->skip >= (*source)->count) return LS_OK; /* as without parts: skip leaves nothing */
    ls_status status = ls_part_draw(*source, options, &kept, &count);
    if (status) return status;
    options->skip = options->limit = 0;
    return ls_source_chosen(source, kept, count);
}
