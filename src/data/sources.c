/* Sources of every kind share this. */
#include "data/sources.h"

#include <math.h>
#include <stdio.h>
#include <stdlib.h>

#include "base/new.h"
#include "base/random.h"
#include "base/shape.h"
#include "data/pixels.h"
#include "data/role.h"

void ls_source_free(struct ls_source *source) {
    if (source->inner) source->inner->ops->free(source->inner);
    ls_free(source->kept);
    ls_free(source);
}

ls_status ls_source_draw(struct ls_source *drawn, const ls_dataset_options *options,
                         const struct ls_source_counts *counts) {
    struct ls_source_drawn *own = (struct ls_source_drawn *)drawn;
    bool test = options->split != LS_TRAIN;
    char stream[32];
    if (options->limit > counts->most)
        return ls_fail(LS_INVALID_ARGUMENT, "limit is %lld: up to %lld examples of %s are drawn",
                       (long long)options->limit, (long long)counts->most, drawn->kind);
    (void)snprintf(stream, sizeof(stream), "%s/%s", drawn->kind, test ? "test" : "train");
    drawn->split = ls_role_of_two(options->split);
    drawn->count = options->limit ? options->limit : test ? counts->test : counts->train;
    own->seed = options->seed;
    own->stream = ls_random_stream(stream);
    return LS_OK;
}

uint32_t ls_source_word(struct ls_source_words *words) {
    if (words->used % 4 == 0) ls_philox_words(words->seed, words->stream, words->index + words->used / 4, words->block);
    return words->block[words->used++ % 4];
}

const struct ls_source *ls_source_innermost(const struct ls_source *source, int64_t *index) {
    for (; source->inner; source = source->inner)
        if (source->kept) *index = source->kept[*index];
    return source;
}

const struct ls_source_ops *ls_source_innermost_ops(const struct ls_source *source) {
    while (source->inner) source = source->inner;
    return source->ops;
}

const char *ls_source_class_name(const struct ls_source *source, int label) {
    while (source->inner) source = source->inner;
    bool named = source->ops->class_name && label >= 0 && label < source->classes;
    return named ? source->ops->class_name(source, label) : NULL;
}

ls_status ls_source_targets(const struct ls_source *source, int64_t index, const struct ls_targets *targets) {
    LS_CLEANUP(ls_free_pointer) uint8_t *bytes = NULL;
    LS_CLEANUP(ls_free_pointer) float *features = NULL;
    size_t size = (size_t)ls_shape_count(&source->shape) * sizeof(*features);
    source = ls_source_innermost(source, &index);
    if (source->ops->targets) return source->ops->targets(source, index, targets);
    if (source->ops->encoded) return source->ops->encoded(source, index, &bytes, &size, targets);
    features = ls_alloc_aligned(size);
    return features ? ls_source_read(source, index, features, targets) : ls_fail_memory("an example", size);
}

/* The source that reads: others around it have other numbers alone. */
static const struct ls_source *reading_one(const struct ls_source *source, int64_t *index) {
    for (; source->kept; source = source->inner) *index = source->kept[*index];
    return source;
}

ls_status ls_source_read(const struct ls_source *source, int64_t index, float *features,
                         const struct ls_targets *targets) {
    size_t count = (size_t)ls_shape_count(&source->shape);
    source = reading_one(source, &index);
    if (source->ops->read) return source->ops->read(source, index, features, targets);
    LS_CLEANUP(ls_free_pointer) LS_NEW_ARRAY(uint8_t, bytes, count, "an example");
    ls_status status = source->ops->bytes(source, index, bytes, targets);
    if (!status) ls_pixels_to_unit(bytes, count, features);
    return status;
}

ls_status ls_source_bytes(const struct ls_source *source, int64_t index, uint8_t *features,
                          const struct ls_targets *targets) {
    size_t count = (size_t)ls_shape_count(&source->shape);
    source = reading_one(source, &index);
    if (source->ops->bytes) return source->ops->bytes(source, index, features, targets);
    LS_CLEANUP(ls_free_pointer) LS_NEW_ARRAY(float, values, count, "an example");
    ls_status status = source->ops->read(source, index, values, targets);
    if (!status) ls_pixels_from_unit(values, count, features);
    return status;
}

const char *ls_source_path(const struct ls_source *source, int64_t index) {
    source = ls_source_innermost(source, &index);
    return source->ops->path ? source->ops->path(source, index) : NULL;
}

int64_t ls_source_file(const struct ls_source *source, int64_t index) {
    source = ls_source_innermost(source, &index);
    return source->ops->file(source, index);
}

ls_status ls_source_chosen(struct ls_source **source, int64_t *kept, int64_t count) {
    static const struct ls_source_ops ops = {.free = ls_source_free};
    struct ls_source *made = ls_alloc(sizeof(*made));
    if (!made) {
        ls_free(kept);
        return ls_fail_memory("a dataset", sizeof(*made));
    }
    *made = **source;
    made->ops = &ops;
    made->inner = *source;
    made->kept = kept;
    made->count = count;
    *source = made;
    return LS_OK;
}

/* ---- files in turn ----
 *
 * As tf.data's interleave: some files are read in turn, a block of examples from each; one that ends makes room for the
 * next file. The order is a function of the files' sizes alone, whatever reads them, in any number of threads. */

/* The examples of a file, which lie side by side, that have not been given yet. */
struct extent {
    int64_t next, end;
};

/* Finds the place of each file's examples. Returns the number of files. Examples of one file are neighbours in the
 * source, so a change of the file's number ends an extent. */
static int64_t find_extents(const struct ls_source *source, struct extent *files) {
    int64_t count = 0, last = -1;
    for (int64_t i = 0; i < source->count; i++) {
        int64_t file = ls_source_file(source, i);
        if (!count || file != last) files[count++] = (struct extent){i, i};
        files[count - 1].end = i + 1;
        last = file;
    }
    return count;
}

/* As in tf.data, a slot's file gives way when an example that it has not is asked for, and the next file comes at the
 * slot's next turn. */
static void put_in_order(struct extent *files, int64_t count, const ls_dataset_options *options, struct extent **slots,
                         int64_t *order) {
    int64_t opened = 0, done = 0, total = files[count - 1].end;
    int64_t cycle = options->interleave < count ? options->interleave : count;
    for (int64_t slot = 0; done < total; slot = (slot + 1) % cycle) {
        if (!slots[slot] && opened < count) slots[slot] = &files[opened++];
        for (int64_t i = 0; slots[slot] && i < options->block_length; i++)
            if (slots[slot]->next < slots[slot]->end)
                order[done++] = slots[slot]->next++;
            else
                slots[slot] = NULL;
    }
}

ls_status ls_source_interleave(struct ls_source **source, const ls_dataset_options *options) {
    size_t count = (size_t)(*source)->count;
    if (!ls_source_innermost_ops(*source)->file)
        return ls_fail(LS_INVALID_ARGUMENT, "interleave: the %s dataset has no files to read in turn", (*source)->kind);
    LS_CLEANUP(ls_free_pointer) struct extent *files = ls_alloc_array(count, sizeof(*files));
    LS_CLEANUP(ls_free_pointer) struct extent **slots = ls_alloc_array((size_t)options->interleave, sizeof(*slots));
    LS_CLEANUP(ls_free_pointer) int64_t *order = ls_alloc_array(count, sizeof(*order));
    if (!files || !slots || !order) return ls_fail_memory("the order of the examples", count * sizeof(*files));
    if (count) put_in_order(files, find_extents(*source, files), options, slots, order);
    return ls_source_chosen(source, ls_steal(order), (int64_t)count);
}

/* ---- the parts of a split ----
 *
 * Mirrors validation_split and subset of tf.keras.utils.image_dataset_from_directory, but by class: of each one the
 * same share is drawn for validation (a stratified split). It is a function of the seed, the labels and how many there
 * are, so that all workers, and both parts, agree. Each part keeps the order of the source. Windows of a text are cut:
 * the last ones are for validation, as in nanoGPT. */

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

static ls_status keep_drawn(const struct ls_source *source, const ls_dataset_options *options, int64_t among,
                            int64_t *kept, int64_t *left) {
    LS_CLEANUP(ls_free_pointer) LS_NEW_ARRAY(struct drawn, drawn, (size_t)among, "the parts of a dataset");
    ls_status status = draw_all(source, options, drawn, among);
    if (status) return status;
    qsort(drawn, (size_t)among, sizeof(*drawn), compare_drawn);
    *left = keep_part(drawn, among, options, kept);
    return LS_OK;
}

/* The windows that share tokens with those for validation are in no part. Returns how many are kept. */
static int64_t keep_cut(const struct ls_source *source, const ls_dataset_options *options, int64_t among,
                        int64_t *kept) {
    int64_t validated = validated_among(options->validation_split, among), first = among - validated, left = 0;
    bool validates = options->part == LS_PART_VALIDATION;
    int64_t from = validates ? first : 0, to = validates || !validated ? among : first - source->shared;
    for (int64_t i = from; i < to; i++) kept[left++] = options->skip + i;
    return left;
}

ls_status ls_source_draw_part(const struct ls_source *source, const ls_dataset_options *options, int64_t **kept,
                              int64_t *count) {
    int64_t among = source->count - options->skip;
    if (options->limit && options->limit < among) among = options->limit;
    int64_t left = 0;
    LS_CLEANUP(ls_free_pointer) LS_NEW_ARRAY(int64_t, made, (size_t)among, "the parts of a dataset");
    ls_status status = LS_OK;
    if (source->windows)
        left = keep_cut(source, options, among, made);
    else
        status = keep_drawn(source, options, among, made, &left);
    if (status) return status;
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
    ls_status status = ls_source_draw_part(*source, options, &kept, &count);
    if (status) return status;
    options->skip = options->limit = 0;
    return ls_source_chosen(source, kept, count);
}
