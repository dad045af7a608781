/* A source in the order of tf.data's interleave: some files are read in turn, a block of examples from each; one that
 * ends makes room for the next file. The order is a function of the files' sizes alone, whatever reads them, in any
 * number of threads. */
#include "data/sources.h"

#include "base/memory.h"
#include "base/status.h"

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
    LS_CLEANUP(ls_free_pointer) int64_t *order = ls_alloc_array(count, sizeof(*order));
    if (!files || !slots || !order) return ls_fail_memory("the order of the examples", count * sizeof(*files));
    if (count) put_in_order(files, find_extents(*source, files), options, slots, order);
    return ls_source_chosen(source, ls_steal(order), (int64_t)count);
}
