/* The common parts of the kinds of source, and the recognition of a folder by ls_dataset_open. */
#pragma once
#include <lockstep/lockstep.h>

#include "data/dataset.h"
#include "data/image.h"

#define LS_DATA_MAX_WORKERS 64

/* The destination of an image: height x width x channels float32 in [0, 1]. */
struct ls_image_place {
    const ls_shape *shape;
    float *features;
};
/* The source that no other one is in, and the number that the example has there. */
const struct ls_source *ls_source_innermost(const struct ls_source *source, int64_t *index);
/* Its ops. */
const struct ls_source_ops *ls_source_innermost_ops(const struct ls_source *source);
/* NULL if the class has no name. */
const char *ls_source_class_name(const struct ls_source *source, int label);
/* NULL if the example has no file of its own. */
const char *ls_source_path(const struct ls_source *source, int64_t index);
/* The number of the example's file, of a source that has some. */
int64_t ls_source_file(const struct ls_source *source, int64_t index);
ls_status ls_source_read(const struct ls_source *source, int64_t index, float *features,
                         const struct ls_targets *targets);
/* The example's bytes, of a source of bytes; without its bytes they are made of the floats. */
ls_status ls_source_bytes(const struct ls_source *source, int64_t index, uint8_t *features,
                          const struct ls_targets *targets);
/* An example's targets, by the cheapest way that the source has. */
ls_status ls_source_targets(const struct ls_source *source, int64_t index, const struct ls_targets *targets);

/* The beginning of a kind of source. */
struct ls_source_start {
    struct ls_source source; /* but the split, which becomes the one that is asked for */
    size_t size;             /* of the kind's struct, which begins with a struct ls_source */
    bool folder;             /* it is read from one */
    /* Fills in the rest, and may put another source around it. */
    ls_status (*open)(struct ls_source **source, const char *path, const ls_dataset_options *options);
};
ls_status ls_source_open(const struct ls_source_start *start, const char *path, const ls_dataset_options *options,
                         ls_dataset **dataset);
/* The free of a source that owns nothing beside what is around it. */
void ls_source_free(struct ls_source *source);

/* A source whose examples are drawn, each a function of seed, stream and its number. */
struct ls_source_drawn {
    struct ls_source source;
    uint64_t seed, stream; /* the stream of the kind's split */
};
/* Random words of one example, in order. */
struct ls_source_words {
    uint64_t seed, stream, index;
    uint32_t block[4];
    unsigned used; /* words */
};
uint32_t ls_source_word(struct ls_source_words *words);
struct ls_source_counts {
    int64_t train, test, most; /* examples of a split, and as many as a limit can ask for */
};
ls_status ls_source_draw(struct ls_source *drawn, const ls_dataset_options *options,
                         const struct ls_source_counts *counts);

/* Keeps what was read: *source becomes another source, which owns the one before. */
ls_status ls_source_cache(struct ls_source **source);

/* *source becomes one that owns the one before, and has its examples kept[0], kept[1], ... kept is taken, on failure
 * too. */
ls_status ls_source_chosen(struct ls_source **source, int64_t *kept, int64_t count);

/* In the order of options' interleave and block_length: *source becomes another source, which owns the one before.
 * INVALID_ARGUMENT where it has no files. */
ls_status ls_source_interleave(struct ls_source **source, const ls_dataset_options *options);

/* The numbers of the examples of options' part, rising, freed with ls_free. */
ls_status ls_source_draw_part(const struct ls_source *source, const ls_dataset_options *options, int64_t **kept,
                              int64_t *count);
/* *source becomes one that owns the one before. Of the examples that skip and limit leave, and then are 0. */
ls_status ls_source_part(struct ls_source **source, ls_dataset_options *options);

/* Leaves out what check calls damaged: *source may become another source, which owns the one before. */
ls_status ls_source_screen(struct ls_source **source, int threads);

/* MNIST and its kin (Fashion-MNIST, EMNIST, KMNIST). */

/* *present is true if folder holds the images of that split. */
ls_status ls_mnist_present(const char *folder, ls_split split, bool *present);

/* x without y: of an .npy file, or of an .npz with one array, or one that is named x or x_SPLIT. options are filled in.
 */
ls_status ls_numpy_unlabelled(const char *path, const ls_dataset_options *options, ls_dataset **dataset);
ls_status ls_numpy_present(const char *folder, ls_split split, bool *present);

/* CIFAR-10's binary version: records of one label byte and 3 planes of 32 x 32 bytes. */

#define LS_CIFAR10_PIXELS 1024
#define LS_CIFAR10_RECORD (1 + 3 * LS_CIFAR10_PIXELS)

/* Checks the whole contents of a file and counts its records; name is for messages. DATA_LOSS naming the offset. */
ls_status ls_cifar10_parse(const char *name, const uint8_t *bytes, size_t size, int64_t *records);
ls_status ls_cifar10_present(const char *folder, ls_split split, bool *present);

/* IDX, the format of MNIST's files: two zero bytes, element type, rank, big-endian extents, elements row by row. */

#define LS_IDX_MAX_RANK 4

struct ls_idx {
    int rank;
    int64_t dims[LS_IDX_MAX_RANK];
    int64_t count;         /* elements: the product of dims, at least 1 */
    const uint8_t *values; /* borrowed from the bytes parsed */
};
/* Parses the whole contents of a file; name is for messages. Elements are unsigned bytes, dims are 1 or more. DATA_LOSS
 * for what is truncated, too long or no IDX file, naming the offset; UNIMPLEMENTED for other element types. */
ls_status ls_idx_parse(const char *name, const uint8_t *bytes, size_t size, struct ls_idx *idx);
/* Reads a file, gzipped or not. *bytes owns what idx borrows; freed with ls_free. */
ls_status ls_idx_read(const char *path, uint8_t **bytes, struct ls_idx *idx);

/* TFRecord files of tf.train.Example, as tensorflow_datasets writes them. */

ls_status ls_tfrecord_present(const char *folder, bool *present);

/* ls_dataset_csv with options that are filled in. Examples may have no label where no target is needed. */
ls_status ls_table_open(const char *path, const ls_dataset_options *options, bool needs_target, ls_dataset **dataset);
/* *meant: ls_dataset_open takes path for a CSV file, by its ending, or as options ask for. */
ls_status ls_table_meant(const char *path, const ls_dataset_options *options, bool *meant);

/* The shape that images get: as options say, and the first image's where they are silent; and how to decode them. */
ls_status ls_picture_settle(const char *name, const uint8_t *bytes, size_t size, const ls_dataset_options *options,
                            struct ls_image_wish *wish, ls_shape *shape);
ls_status ls_picture_read(const char *name, const uint8_t *bytes, size_t size, const struct ls_image_wish *wish,
                          const struct ls_image_place *place);
/* DATA_LOSS unless it can be decoded to the end. */
ls_status ls_picture_check(const char *name, const uint8_t *bytes, size_t size);
/* By ls_pixels_from_unit. */
ls_status ls_picture_from_unit(const float *features, const ls_shape *shape, struct ls_image *image);

/* True for a name that ends in .csv or .tsv, or in .csv.gz or .tsv.gz. */
bool ls_table_files_name(const char *path);
/* *present: the folder has a CSV file of a split. */
ls_status ls_table_files_present(const char *folder, bool *present);
/* *path, freed with ls_free, becomes that of the split, or of the one that stands in for it: *split. NOT_FOUND without
 * one. */
ls_status ls_table_files_find(const char *folder, ls_split *split, char **path);
