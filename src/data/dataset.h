/* A dataset: examples by number, and the options that turn them into epochs of global batches. */
#pragma once
#include <lockstep/lockstep.h>

#include "data/map.h"

/* Where examples come from: one file and one table of these a kind. Thread-safe for reading. */
struct ls_source;
struct ls_source_ops {
    /* Writes one example's features (elements of shape, float32) and its label. */
    ls_status (*read)(const struct ls_source *source, int64_t index, float *features, int32_t *label);
    void (*free)(struct ls_source *source);
    /* The example as a JPEG or PNG, freed with ls_free; NULL: it has none. */
    ls_status (*encoded)(const struct ls_source *source, int64_t index, uint8_t **bytes, size_t *size, int32_t *label);
    /* DATA_LOSS for an example that cannot be read, cheaper than reading it; NULL: none is damaged once it is open. */
    ls_status (*check)(const struct ls_source *source, int64_t index);
    /* NULL: classes have no names. */
    const char *(*class_name)(const struct ls_source *source, int label);
    /* The number of the file that holds an example, from 0 to below files; never falls with index. NULL where files is
     * 0. */
    int64_t (*file)(const struct ls_source *source, int64_t index);
};
struct ls_source {
    const struct ls_source_ops *ops;
    const char *kind; /* "mnist", "digits", ... for messages */
    ls_shape shape;
    int classes;
    int64_t count;
    bool bytes;      /* features are bytes / 255, exactly */
    bool slow;       /* reading is worth threads of its own */
    int64_t damaged; /* examples that were left out */
    int64_t files;   /* that examples come from; 0: none that are worth telling apart */
};
struct ls_dataset {
    struct ls_source *source;   /* owns */
    ls_dataset_options options; /* defaults filled in */
    int64_t count;              /* examples in one pass: the source's count, cut by skip and limit */
    struct ls_maps maps;
    ls_shape shape; /* of an example behind the maps */
};
/* Takes source (freed on failure too); checks options (NULL: all defaults). INVALID_ARGUMENT naming the field and
 * value. */
ls_status ls_dataset_from_source(struct ls_source *source, const ls_dataset_options *options, ls_dataset **dataset);
/* Lines "field=value\n" of all that must be equal on every worker. Freed with ls_free. */
ls_status ls_dataset_describe(const ls_dataset *dataset, char **lines);
/* Threads worth having for a dataset: as options say, else as many as processors where reading or mapping costs time.
 */
int ls_dataset_threads(const ls_dataset *dataset);

/* What a thread that reads examples one after the other keeps. */
struct ls_read_buffers {
    float *buffers[2]; /* own */
};
void ls_read_buffers_free(struct ls_read_buffers *kept);
struct ls_row;
/* One example of the dataset, read and mapped. Any thread, each with its own buffers (at first zero). */
ls_status ls_dataset_read(const ls_dataset *dataset, const struct ls_row *row, struct ls_read_buffers *kept,
                          float *features, int32_t *label);
