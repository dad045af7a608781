/* A source in the order of tf.data's interleave: some files are read in turn, a block of examples from each; one that
 * ends makes room for the next file. The order is a function of the files' sizes alone, whatever reads them, in any
 * number of threads. */
#include "data/interleave.h"

#include <string.h>

#include "base/memory.h"
#include "base/status.h"
#include "data/sources.h"
#include "data/dataset.h"

struct interleaved {
    struct ls_source source;
    struct ls_source *inner; /* owns */
    int64_t *order;          /* owns: the numbers in inner */
};

static ls_status read_interleave_example(const struct ls_source *source, int64_t index, float *features,
                                         const struct ls_targets *targets) {
    const struct interleaved *own = (const struct interleaved *)source;
    return own->inner->ops->read(own->inner, own->order[index], features, targets);
}

static ls_status read_interleave_encoded(const struct ls_source *source, int64_t index, uint8_t **bytes, size_t *size,
                                         const struct ls_targets *targets) {
    const struct interleaved *own = (const struct interleaved *)source;
    return own->inner->ops->encoded(own->inner, own->order[index], bytes, size, targets);
}

static const char *class_interleave_name(const struct ls_source *source, int label) {
    return ls_source_class_name(((const struct interleaved *)source)->inner, label);
}

static int64_t file_of_interleave(const struct ls_source *source, int64_t index) {
    const struct interleaved *own = (const struct interleaved *)source;
    return own->inner->ops->file(own->inner, own->order[index]);
}

static void free_interleaved(struct ls_source *source) {
    struct interleaved *own = (struct interleaved *)source;
    if (own->inner) own->inner->ops->free(own->inner);
    ls_free(own->order);
    ls_free(own);
}

static const struct ls_source_ops ops = {.read = read_interleave_example,
                                         .free = free_interleaved,
                                         .class_name = class_interleave_name,
                                         .file = file_of_interleave};
static const struct ls_source_ops encoded_ops = {.read = read_interleave_example,
                                                 .free = free_interleaved,
                                                 .class_name = class_interleave_name,
                                                 .encoded = read_interleave_encoded,
                                                 .file = file_of_interleave};

/* The examples of a file, which lie side by side, that have not been given yet. */
struct extent {
    int64_t next, end;
};

/* Finds the place of each file's examples. Returns the number of files. Examples of one file are neighbours in the
 * source, so a change of the file's number ends an extent. */
static int64_t find_extents(const struct ls_source *source, struct extent *files) {
    int64_t count = 0, last = -1;
    for (int64_t i = 0; i < source->count; i++) {
        int64_t file = source->ops->file(source, i);
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
    if (!(*source)->ops->file)
        return ls_fail(LS_INVALID_ARGUMENT, "interleave: the %s dataset has no files to read in turn", (*source)->kind);
    LS_CLEANUP(ls_free_pointer) struct extent *files = ls_alloc_array(count, sizeof(*files));
    LS_CLEANUP(ls_free_pointer) struct extent **slots = ls_alloc_array((size_t)options->interleave, sizeof(*slots));
    struct interleaved *made = ls_alloc(sizeof(*made));
    if (made) made->order = ls_alloc_array(count, sizeof(*made->order));
    if (!files || !slots || !made || !made->order) {
        if (made) free_interleaved(&made->source);
        return ls_fail_memory("the order of the examples", count * sizeof(*files));
    }
    made->source = **source;
    made->source.ops = (*source)->ops->encoded ? &encoded_ops : &ops;
    if (count) put_in_order(files, find_extents(*source, files), options, slots, made->order);
    made->inner = *source;
    *source = &made->source;
    return LS_OK;
}
