/* A dataset: examples by number, and the options that turn them into epochs of global batches. */
#pragma once
#include <lockstep/lockstep.h>
#include <stdatomic.h>

#include "data/column.h"
#include "data/map.h"
#include "data/targets.h"

/* The source of examples: one file and one table of these a kind. Thread-safe for reading. */
struct ls_source;
struct ls_source_ops {
    /* Writes one example's features (elements of shape, float32 or int32) and its targets, of the source's kind. NULL
     * where they are made of bytes. */
    ls_status (*read)(const struct ls_source *source, int64_t index, float *features, const struct ls_targets *targets);
    void (*free)(struct ls_source *source);
    /* The example as a JPEG or PNG, freed with ls_free. NULL if the kind has none. */
    ls_status (*encoded)(const struct ls_source *source, int64_t index, uint8_t **bytes, size_t *size,
                         const struct ls_targets *targets);
    /* DATA_LOSS for an example that cannot be read, cheaper than reading it. NULL if none is damaged once it is open.
     */
    ls_status (*check)(const struct ls_source *source, int64_t index);
    /* NULL if classes have no names. */
    const char *(*class_name)(const struct ls_source *source, int label);
    /* The number of the file that holds an example, from 0 to below files; never falls with index. NULL where files is
     * 0. */
    int64_t (*file)(const struct ls_source *source, int64_t index);
    /* An example's targets alone, cheaper than reading it. NULL if the kind has nothing cheaper. */
    ls_status (*targets)(const struct ls_source *source, int64_t index, const struct ls_targets *targets);
    /* The path of an example's own file. NULL where examples have none. */
    const char *(*path)(const struct ls_source *source, int64_t index);
    /* Of a source of bytes: as read, but the bytes. NULL where they are made of the floats again. */
    ls_status (*bytes)(const struct ls_source *source, int64_t index, uint8_t *features,
                       const struct ls_targets *targets);
};
/* Numbers as classes: whole, and from 0. */
struct ls_whole_numbers {
    int classes;     /* 0: one of them is none */
    int64_t example; /* the first that is none */
    float value;     /* 0 where numbers were not looked at */
    bool uncounted;  /* some are -1: of several an example, positions that do not count */
};
struct ls_source {
    const struct ls_source_ops *ops; /* around another source those of reading and freeing alone */
    struct ls_source *inner;         /* owns: the one around which it is; NULL: none */
    int64_t *kept;    /* owns: the numbers that examples have in inner, which reads them; NULL: the same */
    const char *kind; /* "mnist", "digits", ... for messages */
    ls_shape shape;
    int classes;     /* 0 where targets are numbers */
    bool unlabelled; /* labels are all 0 and say nothing: for predict alone. classes is 0 */
    int64_t count;
    ls_split split;  /* that is read; another may have been asked for */
    bool bytes;      /* features are bytes / 255, exactly */
    bool integers;   /* features are int32, in the place of floats */
    bool slow;       /* reading is worth threads of its own */
    int64_t damaged; /* examples that were left out */
    int64_t files;   /* that examples come from; 0: none that are worth telling apart */
    struct ls_target_kind targets;
    bool windows;          /* of one text: parts are cut and not drawn */
    int64_t shared;        /* windows that share tokens with the ones before a window, or behind it: as many */
    bool in_memory;        /* reading costs a copy: many examples are looked into where workers compare their data */
    char names_sha256[65]; /* of the files' names, and of sizes where they are known; "": there are none to compare */
    /* of counted classes: those that occur, and an example that has the greatest label; otherwise 0 */
    int64_t occurring, greatest_at;
    struct ls_whole_numbers whole; /* where targets are numbers in memory */
    int64_t others;                /* files beside the examples', of kinds that are not read */
    int64_t unread;                /* of these, images by their names */
    const char *transform;         /* ls_dataset_transform's; borrowed from the source of the table */
};
struct ls_dataset {
    struct ls_source *source;   /* owns */
    ls_dataset_options options; /* defaults filled in */
    int64_t count;              /* examples in one pass: the source's count, cut by skip and limit */
    struct ls_maps maps;
    struct ls_pixel_table *table;  /* owns: examples can be read as bytes, and this is what they stand for; or NULL */
    ls_shape shape;                /* of an example behind the maps */
    struct ls_target_kind targets; /* behind the maps: the source's, or numbers that are mixed from its classes */
    atomic_int held; /* by threads that were left behind: the last of them frees it, unless it is still its owner's */
};
/* Until one more call of ls_dataset_free. */
void ls_dataset_hold(const ls_dataset *dataset);
/* Takes source, which is freed on failure too: on that of status, which is returned, and on its own. Checks options;
 * NULL means all defaults. INVALID_ARGUMENT names the field and the value. */
ls_status ls_dataset_from_source(ls_status status, struct ls_source *source, const ls_dataset_options *options,
                                 ls_dataset **dataset);
/* The source's example, before maps; of a damaged one the error says how to go on without it. */
ls_status ls_dataset_read_source(const ls_dataset *dataset, int64_t index, float *features,
                                 const struct ls_targets *targets);
/* Threads worth having for a dataset: as options say, else as many as processors where reading or mapping costs time.
 */
int ls_dataset_threads(const ls_dataset *dataset);
int ls_dataset_processors(void); /* that threads may have; LS_DATA_MAX_WORKERS at most */

/* The buffers that a thread keeps while it reads one example after the other. */
struct ls_read_buffers {
    float *buffers[4];            /* own; the last two, and targets, are of datasets that mix examples */
    struct ls_targets targets[2]; /* own */
};
void ls_dataset_read_buffers_free(struct ls_read_buffers *kept);
struct ls_row;
/* One example of the dataset, read and mapped. Any thread, each with its own buffers (at first zero). */
ls_status ls_dataset_read(const ls_dataset *dataset, const struct ls_row *row, struct ls_read_buffers *kept,
                          float *features, const struct ls_targets *targets);
/* The same as bytes, of a dataset with a table. */
ls_status ls_dataset_read_bytes(const ls_dataset *dataset, const struct ls_row *row, struct ls_read_buffers *kept,
                                uint8_t *features, const struct ls_targets *targets);
/* Checks options and fills the defaults in; NULL means all defaults. INVALID_ARGUMENT names the field and the value. */
ls_status ls_dataset_options_fill(const ls_dataset_options *options, ls_dataset_options *filled);

/* INVALID_ARGUMENT naming the class that the dataset does not have, is there twice or has no good weight, or a dataset
 * that has sample weights. */
ls_status ls_class_weight_check(const ls_class_weight *list, const ls_dataset *dataset);
/* The weights of rows whose targets are there, as Keras' class_weight_to_sample_weights: 1 for a class that is not in
 * the list; the class of numbers is the place of the largest one, of a single one the nearest whole number. */
void ls_class_weight_apply(const ls_class_weight *list, const struct ls_target_kind *kind, int64_t rows,
                           const struct ls_targets *targets);

/* Lines "field=value\n" of all that must be equal on every worker. Freed with ls_free. */
ls_status ls_dataset_describe(const ls_dataset *dataset, char **lines);

/* The features that a table's columns become, as a text that is saved with a model: one JSON object. "columns" has for
 * each its "name" and "mean" and "deviation", or "categories". "target" has a "name" and, for classes, their
 * "categories". */

struct ls_transform {
    struct ls_column *columns; /* own: [count] */
    int64_t count;
    struct ls_column target; /* name NULL: none is known */
};
ls_status ls_transform_write(const struct ls_transform *transform, char **text);
/* Columns get all but their place and their rows. INVALID_ARGUMENT where text is none. */
ls_status ls_transform_read(const char *text, struct ls_transform *transform);
void ls_transform_free(struct ls_transform *transform);
