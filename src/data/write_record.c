/* TFRecord files of tf.train.Example, named and filled as tensorflow_datasets does: the images as JPEG or PNG, or
 * floats with their shape, and the label; classes' names in label.labels.txt. Shard s of n holds examples s * count / n
 * and on. */
#include <errno.h>
#include <stdio.h>
#include <string.h>

#include "base/shape.h"
#include "base/new.h"
#include "base/record_frame.h"
#include "data/example.h"
#include "data/sources.h"
#include "data/dataset.h"
#include "data/write.h"

struct output {
    FILE *file; /* the present shard */
    char path[4096];
    int shard;
    bool images;
};

static ls_status close_shard(struct output *output) {
    FILE *file = ls_steal(output->file);
    if (!file || !fclose(file)) return LS_OK;
    return ls_fail_errno("write", output->path);
}

static ls_status open_write_record_file(struct output *output) {
    output->file = fopen(output->path, "wbe");
    if (output->file) return LS_OK;
    return ls_fail_errno("write", output->path);
}

static ls_status create_shard(const struct ls_write *write, struct output *output) {
    const char *name = write->options.name ? write->options.name : write->dataset->source->kind;
    int length = snprintf(output->path, sizeof(output->path), "%s/%s-%s.tfrecord-%05d-of-%05d", write->folder, name,
                          write->split, output->shard, write->options.shards);
    if (length >= (int)sizeof(output->path))
        return ls_fail(LS_INVALID_ARGUMENT, "the path of folder '%s' is too long", write->folder);
    return open_write_record_file(output);
}

/* A line a class: its name, or its number. */
static ls_status write_class_names(const struct ls_write *write, struct output *output) {
    const struct ls_source *source = write->dataset->source;
    (void)snprintf(output->path, sizeof(output->path), "%.4000s/label.labels.txt", write->folder);
    ls_status status = open_write_record_file(output);
    for (int label = 0; label < source->classes && !status; label++) {
        const char *name = ls_source_class_name(source, label);
        int written = name ? fprintf(output->file, "%s\n", name) : fprintf(output->file, "%d\n", label);
        if (written < 0) status = ls_fail_errno("write", output->path);
    }
    ls_status closed = close_shard(output);
    return status ? status : closed;
}

static ls_status begin_shards(struct ls_write *write) {
    LS_NEW(struct output, output, "a writer");
    write->state = output;
    output->images = write->copy || (write->dataset->source->bytes && ls_write_is_image(write)) ||
                     ls_source_innermost_ops(write->dataset->source)->encoded;
    output->shard = -1;
    return write_class_names(write, output);
}

/* Its targets point to where they will be. */
static void point_to(const struct ls_target_kind *kind, const struct ls_targets *targets, struct ls_example *example) {
    example->targets = targets->numbers;
    example->target_count = ls_target_width(kind);
    example->target_dims = kind->shape.dims;
    example->target_rank = kind->shape.rank;
    example->weight = targets->weights;
}

static ls_status make_example(const struct ls_write *write, uint8_t **bytes, const struct ls_targets *targets,
                              struct ls_example *example) {
    const struct ls_source *source = write->dataset->source;
    ls_status status;
    point_to(&source->targets, targets, example);
    if (((const struct output *)write->state)->images) {
        status = ls_write_encode(write, bytes, &example->image_size, targets);
        example->image = *bytes;
    } else {
        example->feature_count = ls_shape_count(&source->shape);
        example->dims = source->shape.dims;
        example->rank = source->shape.rank;
        *bytes = ls_alloc_array((size_t)example->feature_count, sizeof(float));
        example->features = (const float *)(const void *)*bytes;
        if (!*bytes) return ls_fail_memory("an example", (size_t)example->feature_count * sizeof(float));
        status = ls_source_read(source, write->next, (float *)(void *)*bytes, targets);
    }
    if (targets->labels) example->label = *targets->labels;
    return status;
}

/* Goes on to the shard that the next example belongs to. */
static ls_status turn_to_shard(const struct ls_write *write, struct output *output) {
    while (output->shard < 0 || write->done >= write->dataset->count * (output->shard + 1) / write->options.shards) {
        ls_status status = close_shard(output);
        output->shard++;
        if (!status) status = create_shard(write, output);
        if (status) return status;
    }
    return LS_OK;
}

static ls_status add_to_shard(struct ls_write *write) {
    struct output *output = write->state;
    LS_CLEANUP(ls_free_pointer) uint8_t *bytes = NULL;
    LS_CLEANUP(ls_free_pointer) uint8_t *packed = NULL;
    LS_CLEANUP(ls_targets_free) struct ls_targets targets = {0};
    struct ls_example example = {0};
    size_t size;
    ls_status status = turn_to_shard(write, output);
    if (!status) status = ls_targets_new(&write->dataset->source->targets, 1, &targets);
    if (!status) status = make_example(write, &bytes, &targets, &example);
    if (!status) status = ls_example_pack(&example, &packed, &size);
    return status ? status : ls_record_frame_write(output->file, output->path, packed, size);
}

static ls_status end_shards(struct ls_write *write, ls_status status) {
    struct output *output = write->state;
    if (!output) return status;
    ls_status closed = close_shard(output);
    ls_free(output);
    return status ? status : closed;
}

const struct ls_write_ops ls_write_records = {begin_shards, add_to_shard, end_shards};
