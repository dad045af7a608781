/* Data: tf.data's sources, options and stages, and the writers. Part of the public API, included by lockstep.h.
 *
 * A dataset is examples by number and a rule that makes epochs of global batches out of them: which examples a replica
 * gets at a step is a function of (options, epoch, step), and so is what random stages do to them. Nothing depends on
 * timing, on the number of threads that read, or on a worker having been lost. */
#ifndef LOCKSTEP_DATA_H
#define LOCKSTEP_DATA_H

#include <lockstep/lockstep.h>

#ifdef __cplusplus
extern "C" {
#endif

/* TEST and VALIDATION stand in for each other where a source has but one of them. */
typedef enum ls_split { LS_TRAIN = 0, LS_TEST, LS_VALIDATION } ls_split;
/* Keras' subset: of a dataset with a validation_split. */
typedef enum ls_part { LS_PART_TRAINING = 0, LS_PART_VALIDATION } ls_part;
typedef enum ls_shuffle { LS_SHUFFLE_EACH_EPOCH = 0, LS_SHUFFLE_ONCE, LS_SHUFFLE_NEVER } ls_shuffle;
/* The division of a global batch. LAYOUT_INVARIANT: one global order, each batch cut by replica id, the first G mod N
 * replicas get one more. TENSORFLOW: with auto_shard DATA each batch is cut in N pieces of ceil(n / N) that are dealt
 * to the workers in turn. With OFF every worker sees all data in the sizes of batch_sizes_for_worker, rotated by
 * worker. FILE does the same over the worker's own files, every W-th. AUTO is FILE if there are as many files as
 * workers, else DATA. HINT is OFF over the part that shard_hint leaves a worker. */
typedef enum ls_division { LS_DIVIDE_LAYOUT_INVARIANT = 0, LS_DIVIDE_TENSORFLOW } ls_division;
/* AutoShardPolicy, for LS_DIVIDE_TENSORFLOW and for custom loops. */
typedef enum ls_auto_shard { LS_SHARD_DATA = 0, LS_SHARD_OFF, LS_SHARD_FILE, LS_SHARD_AUTO, LS_SHARD_HINT } ls_auto_shard;
/* With LS_SHARD_HINT, the place of tf.data's shard(SHARD_HINT, SHARD_HINT) among source, shuffle, repeat and batch: of W workers
 * the w-th has the files, the examples before they are shuffled, the rows before they are batched, or the batches w, w + W, ... */
typedef enum ls_shard_hint { LS_HINT_NONE = 0, LS_HINT_FILES, LS_HINT_EXAMPLES, LS_HINT_ROWS, LS_HINT_BATCHES } ls_shard_hint;
/* The effect of a damaged image or record. FAILS: an error. SKIPPED: ls_dataset_open looks through all examples and
 * leaves the damaged ones out; ls_dataset_num_damaged counts them. */
typedef enum ls_on_damage { LS_DAMAGE_FAILS = 0, LS_DAMAGE_SKIPPED } ls_on_damage;

/* AUTO: words are classes, and whole numbers where all from 0 to the greatest are there; other numbers are numbers. */
typedef enum ls_target_type { LS_TARGET_AUTO = 0, LS_TARGET_CLASSES, LS_TARGET_NUMBERS } ls_target_type;

/* The tokens of a file. BYTES: a byte is an id. CHARS: characters of UTF-8, numbered in the order of their code points, as
 * nanoGPT's prepare.py does. UINT16: nanoGPT's .bin, little-endian, without a header. LLMC: llm.c's .bin, uint16 (magic 20240520,
 * version 1) or uint32 (magic 20240801, version 7). */
typedef enum ls_tokens {
    LS_TOKENS_NONE = 0, LS_TOKENS_BYTES, LS_TOKENS_CHARS, LS_TOKENS_UINT16, LS_TOKENS_LLMC
} ls_tokens;

/* The arguments of a map function. */
typedef struct ls_map_call {
    const float *input; /* an example's features, of shape */
    ls_shape shape;
    float *output;      /* of the stage's shape */
    int32_t *label;     /* may be changed; NULL if targets are numbers */
    float *target;      /* may be changed; NULL if there are labels */
    float *weight;      /* the example's sample weight, which may be changed; NULL where there are none */
    int64_t example, pass;  /* its number in the source, and which pass over the data this is, from 0 */
    uint32_t random[4]; /* random words: a function of (seed, example, pass, stage) */
} ls_map_call;
/* Called by several threads at once, in any order: what it writes must depend on the call alone. One that does not return within
 * LOCKSTEP_DATA_TIMEOUT ends the training with DEADLINE_EXCEEDED; its thread is left behind, and still has its context. */
typedef ls_status ls_map_fn(void *context, const ls_map_call *call);
typedef enum ls_map_kind {
    LS_MAP_FLIP = 1, LS_MAP_RANDOM_CROP, LS_MAP_CENTRAL_CROP, LS_MAP_BRIGHTNESS, LS_MAP_CONTRAST, LS_MAP_NORMALISE,
    LS_MAP_RESCALE, LS_MAP_FUNCTION, LS_MAP_ROTATION, LS_MAP_ZOOM, LS_MAP_TRANSLATION, LS_MAP_HUE, LS_MAP_SATURATION,
    LS_MAP_ERASING, LS_MAP_MIX_UP
} ls_map_kind;
/* The way to fill where a stage has no pixels of the image. DEFAULT: the Keras layer's, REFLECT, and NOISE for erasing.
 * REFLECT: dcba|abcd|dcba; NEAREST: aaaa|abcd|dddd; WRAP: abcd|abcd|abcd; CONSTANT: fill_value. NOISE: normal numbers cut
 * to [0, 1]. */
typedef enum ls_fill_mode {
    LS_FILL_MODE_DEFAULT = 0, LS_FILL_MODE_REFLECT, LS_FILL_MODE_CONSTANT, LS_FILL_MODE_NEAREST, LS_FILL_MODE_WRAP,
    LS_FILL_MODE_NOISE
} ls_fill_mode;
/* A stage that each example goes through after it was read (tf.data's map). */
typedef struct ls_map {
    ls_map_kind kind;
    int height, width, padding;
    float amount, offset;
    float mean[3], deviation[3];
    ls_map_fn *function;
    void *context;  /* borrowed */
    ls_shape shape; /* of a function's output; default: as its input */
    const char *name; /* of a function and all that its context says: compared between workers; borrowed */
    /* Keras' arguments, of the stages below that name them: a number is drawn from the first one on, below the second */
    float factor[2], height_factor[2], width_factor[2];
    float scale[2]; /* default: {0.02, 0.33} */
    ls_fill_mode fill_mode;
    float fill_value;
} ls_map;
#define ls_random_flip() ((ls_map){.kind = LS_MAP_FLIP}) /* left and right, half of the time */
/* ls_random_crop(24, 24); with a frame of zeros around the image before, ls_random_crop(32, 32, 4); 0: the image's size */
#define ls_random_crop(...) ((ls_map){.kind = LS_MAP_RANDOM_CROP, .height = __VA_ARGS__})
#define ls_central_crop(...) ((ls_map){.kind = LS_MAP_CENTRAL_CROP, .height = __VA_ARGS__})
#define ls_random_brightness(delta) ((ls_map){.kind = LS_MAP_BRIGHTNESS, .amount = (delta)}) /* + [-delta, delta) */
#define ls_random_contrast(delta) ((ls_map){.kind = LS_MAP_CONTRAST, .amount = (delta)}) /* x [1 - delta, 1 + delta) */
/* ls_normalise(.mean = {0.5f, 0.5f, 0.5f}, .deviation = {0.2f, 0.2f, 0.2f}): of up to 3 channels */
#define ls_normalise(...) ((ls_map){.kind = LS_MAP_NORMALISE, __VA_ARGS__})
#define ls_rescale(scale, shift) ((ls_map){.kind = LS_MAP_RESCALE, .amount = (scale), .offset = (shift)})
/* keras.layers.RandomRotation, RandomZoom and RandomTranslation, bilinear: ls_random_rotation(.factor = {-0.1f, 0.1f}). Its
 * factor is in turns, counter-clockwise. Zoom and translation have height_factor and width_factor, in [-1, 1]; a zoom has
 * factor in place of both where it keeps proportions. Positive factors make smaller, and shift down and to the right.
 * All have fill_mode and fill_value. */
#define ls_random_rotation(...) ((ls_map){.kind = LS_MAP_ROTATION, __VA_ARGS__})
#define ls_random_zoom(...) ((ls_map){.kind = LS_MAP_ZOOM, __VA_ARGS__})
#define ls_random_translation(...) ((ls_map){.kind = LS_MAP_TRANSLATION, __VA_ARGS__})
/* keras.layers.RandomHue and RandomSaturation of RGB in [0, 1], with factor in [0, 1]. Hue 0 and saturation 0.5 change nothing. */
#define ls_random_hue(...) ((ls_map){.kind = LS_MAP_HUE, __VA_ARGS__})
#define ls_random_saturation(...) ((ls_map){.kind = LS_MAP_SATURATION, __VA_ARGS__})
/* keras.layers.RandomErasing (cutout): ls_random_erasing(.factor = {1, 1}) erases always; factor is the probability. The square
 * roots of two draws from scale are the shares of height and width. fill_mode NOISE or CONSTANT. */
#define ls_random_erasing(...) ((ls_map){.kind = LS_MAP_ERASING, __VA_ARGS__})
/* keras.layers.MixUp: features and targets become w times the example's and 1 - w times another one's of the dataset, which the
 * stages before have changed too; w is drawn from Beta(alpha, alpha). Classes become their shares, floats of shape
 * (classes), which categorical_crossentropy takes. One in a list. */
#define ls_mix_up(alpha) ((ls_map){.kind = LS_MAP_MIX_UP, .amount = (alpha)})
/* ls_map_function(function), ls_map_function(function, context, .shape = LS_SHAPE(10)) */
#define ls_map_function(...) ((ls_map){.kind = LS_MAP_FUNCTION, .function = __VA_ARGS__})
#define LS_MAPS(...) ((const ls_map[]){__VA_ARGS__, {.kind = (ls_map_kind)0}})

typedef struct ls_dataset_options {
    size_t size;
    int64_t batch_size;    /* examples in the global batch; default 32 */
    ls_split split;
    ls_shuffle shuffle;
    uint64_t seed;         /* of the shuffle, and of generated data */
    int64_t repeat;        /* passes over the data that make one epoch; default 1 */
    int64_t limit;         /* use only the first so many examples; 0: all. digits, shapes: how many to draw */
    bool drop_remainder;   /* leave out the short last batch */
    ls_division division;
    ls_auto_shard auto_shard;
    ls_shard_hint shard_hint;
    int image_height, image_width; /* what images are resized to, as tf.image.resize; 0: the first image's */
    int image_channels;    /* 1 or 3; 0: the first image's */
    bool scaled_decode;    /* JPEGs much larger than that are decoded at 1/2, 1/4 or 1/8: faster, not TensorFlow's pixels */
    ls_on_damage damage;
    int64_t skip;          /* leave out the first so many examples */
    int64_t shuffle_buffer; /* tf.data's shuffle(buffer_size); 0: the whole data, so that every order is as likely */
    bool cache;            /* keep examples in memory once they are read, before maps */
    const ls_map *maps;    /* LS_MAPS(...); copied */
    int workers;           /* threads that read and map; 0: as many as processors where that pays; -1: nothing is read ahead */
    int prefetch;          /* steps read ahead of the present one; default 2 */
    int64_t interleave;    /* tf.data's interleave(cycle_length): so many files are read in turn; default: one after the other */
    int64_t block_length;  /* examples taken from a file before the next one's turn; default 1 */
    bool ids;              /* NumPy: the integers of x stay integers (int32), which embedding layers alone take; otherwise floats */
    double validation_split; /* the share of each class, drawn by the seed, that is the validation part; 0: no parts */
    ls_part part;          /* of the examples that skip and limit leave */
    const char *target;    /* CSV: the name of the column that is to be predicted; borrowed while it is opened, as those below */
    ls_target_type target_type; /* CSV */
    const char *without;   /* CSV: names of columns to leave out, as a row of CSV with commas */
    char separator;        /* CSV; 0: tab, ';' or ',', which the first row has most of */
    const char *transform; /* CSV: ls_dataset_transform of the training's data, for other files with its columns. Other kinds pass over it */
    ls_tokens tokens;      /* of a file of tokens; this and the three below are of such files alone */
    int64_t context;       /* tokens in an example: a window of the text */
    int64_t stride;        /* tokens from one window's begin to the next one's; default: context */
    int vocabulary;        /* ids are below; 0: 256 for bytes, the characters that occur, or the greatest id and 1, for which all is read */
} ls_dataset_options;
#define LS_DATASET(...) (&(ls_dataset_options){.size = sizeof(ls_dataset_options), __VA_ARGS__})

/* MNIST and its kin: IDX files, gzipped or not, named as on the original site, in folder. Pixels become [0, 1]. */
LS_API ls_status ls_dataset_mnist(const char *folder, const ls_dataset_options *options, ls_dataset **dataset);
/* CIFAR-10's binary version: data_batch_1..5.bin and test_batch.bin in folder. Shape (32, 32, 3), in [0, 1]. */
LS_API ls_status ls_dataset_cifar10(const char *folder, const ls_dataset_options *options, ls_dataset **dataset);
/* Handwritten-like digits, (28, 28, 1), 10 classes, drawn from strokes when first read; the splits use different seeds. */
LS_API ls_status ls_dataset_digits(const ls_dataset_options *options, ls_dataset **dataset);
/* Circles (class 0) and triangles (1) in random colours on random grounds, 64 x 64 x 3 or image_height x image_width. */
LS_API ls_status ls_dataset_shapes(const ls_dataset_options *options, ls_dataset **dataset);
/* Ten words of 10,000, as integers (ls_arrays.ids), frequent ones first; 4 classes, which are topics. */
LS_API ls_status ls_dataset_words(const ls_dataset_options *options, ls_dataset **dataset);
/* image_dataset_from_directory: folder/CLASS/NAME.jpg, .jpeg or .png, classes numbered in the order of their names. With
 * folder/train, folder/validation and folder/test for the splits, of which one may stand in for the other. Resized, in [0, 1]. */
LS_API ls_status ls_dataset_images(const char *folder, const ls_dataset_options *options, ls_dataset **dataset);
/* Files NAME.tfrecord* of tf.train.Example in folder, packed by gzip, by zlib or not, of the split that their names say: image (or
 * image/encoded) and label (or image/class/label), as tensorflow_datasets writes cats_vs_dogs, MNIST and CIFAR-10; or
 * floats in features, with their shape. A label of floats, with label_shape, are numbers; sample_weight: a float. Class names
 * from label.labels.txt. */
LS_API ls_status ls_dataset_tfrecord(const char *folder, const ls_dataset_options *options, ls_dataset **dataset);
/* NumPy's arrays: in folder SPLIT.npz with x_SPLIT and y_SPLIT, or x_SPLIT.npy and y_SPLIT.npy; or an .npz file such as
 * Keras' mnist.npz with all four. x: (count, shape...), of bytes (which become [0, 1], and two axes get one channel), of
 * floats or integers; y: integers (count), which are classes, or numbers: floats of any shape, (count, ...), or integers of
 * several columns such as one-hot rows. sample_weight_SPLIT (count) may be there too. */
LS_API ls_status ls_dataset_numpy(const char *path, const ls_dataset_options *options, ls_dataset **dataset);
/* A table as text, RFC 4180 in UTF-8: a row an example, the first row has the columns' names unless all cells are numbers.
 * Columns of numbers are scaled to mean 0 and deviation 1, by the examples of the training part alone; those of words become
 * one-hot. target names the column of classes or numbers. A missing cell is an error that names it; LS_DAMAGE_SKIPPED leaves
 * its row out. The split is LS_TRAIN; with a transform also LS_TEST, and then the target may be missing (for predict alone) unless
 * target names it. A folder has train.csv, and validation.csv and test.csv whose columns become what they are in train.csv; one of the
 * two stands in for the other. Each may be .tsv, .csv.gz or .tsv.gz. */
LS_API ls_status ls_dataset_csv(const char *path, const ls_dataset_options *options, ls_dataset **dataset);
/* A file of tokens, for models that predict the next one; mapped, not read. Example i is the window of context tokens from token
 * i stride on: features (context) int32, and as labels (context) int32 the token behind each. Windows that would end behind the
 * file are left out. Classes are the vocabulary, of CHARS with their names. The split is LS_TRAIN. The last validation_split of the
 * windows are the validation part, as nanoGPT cuts a text; windows before them that share their tokens are in neither part.
 * DATA_LOSS names the file and the byte offset of a header, a character or an id that is wrong. */
LS_API ls_status ls_dataset_tokens(const char *path, const ls_dataset_options *options, ls_dataset **dataset);
/* Of a CSV file: the columns' names, means, deviations and categories, a JSON object. NULL for others. Borrowed. Weights and
 * checkpoints carry it, too. */
LS_API const char *ls_dataset_transform(const ls_dataset *dataset);
/* Without labels, for predict alone: each path is a .jpg, .jpeg or .png, a folder with such in it and below it, or a .txt file
 * with a path a line; or the only one is an .npy or .npz of x, or a .csv. Labels are 0, and ls_dataset_num_classes is too. */
LS_API ls_status ls_dataset_paths(const char *const *paths, size_t count, const ls_dataset_options *options, ls_dataset **dataset);
/* tf.data.Dataset.from_tensor_slices((x, y, sample_weight)): examples in memory, borrowed. An example has a label, or targets of
 * any shape, as a regression, one-hot rows or several classes at once have. */
typedef struct ls_arrays {
    size_t size;
    int64_t count;
    const float *features;       /* (count, shape...) */
    ls_shape shape;
    const int32_t *labels;       /* (count) in [0, classes); NULL if targets are given, or neither: for predict alone */
    int classes;
    const float *targets;        /* (count, target_shape...); rank 0: one number an example */
    ls_shape target_shape;
    const float *sample_weights; /* (count); NULL if all count as 1 */
    const int32_t *ids;          /* (count, shape...) in place of features: integers, which embedding layers alone take */
} ls_arrays;
#define LS_ARRAYS(...) (&(ls_arrays){.size = sizeof(ls_arrays), __VA_ARGS__})
LS_API ls_status ls_dataset_from_arrays(const ls_arrays *arrays, const ls_dataset_options *options, ls_dataset **dataset);
/* The same with labels: features (count, shape...), labels (count) in [0, classes). */
LS_API ls_status ls_dataset_arrays(const float *features, ls_shape shape, const int32_t *labels, int64_t count, int classes,
                                   const ls_dataset_options *options, ls_dataset **dataset);
/* Model.predict_on_batch, for serving: the outputs for a few examples, LS_ARRAYS(.features = x, .shape = LS_SHAPE(784), .count = 1),
 * or .ids. This worker's first device alone computes them, and waits for no other worker. The first call of a model, the one behind
 * ls_model_load_weights, and every call with parameter servers that keep variables are those of ls_model_predict, of all workers. */
LS_API ls_status ls_model_predict_on_batch(ls_model *model, const ls_arrays *examples, float **outputs, ls_shape *shape);
/* "digits", "shapes", "words", or a folder that holds IDX, CIFAR-10, NumPy or TFRecord files or images,
 * or an .npz file, or with tokens set a file of tokens, or a CSV file: of the ending .csv, .tsv, .csv.gz or .tsv.gz, or with a target or transform; or a folder of
 * these. */
LS_API ls_status ls_dataset_open(const char *name, const ls_dataset_options *options, ls_dataset **dataset);
LS_API int64_t ls_dataset_count(const ls_dataset *dataset);       /* examples in one pass */
LS_API ls_shape ls_dataset_shape(const ls_dataset *dataset);      /* of one example */
/* 0 where targets are numbers, unless ls_mix_up has made them of classes. */
LS_API int ls_dataset_num_classes(const ls_dataset *dataset);
/* True if an example has targets of *shape, and no label. */
LS_API bool ls_dataset_targets(const ls_dataset *dataset, ls_shape *shape);
/* The name of a class, NULL where it has none. Borrowed. */
LS_API const char *ls_dataset_class_name(const ls_dataset *dataset, int label);
/* The class of an example; INVALID_ARGUMENT where examples have none. Reads no more of the example than it must. */
LS_API ls_status ls_dataset_label(const ls_dataset *dataset, int64_t example, int32_t *label);
/* The path of an example's own file, NULL where it has none. example is from 0 to below ls_dataset_count. Borrowed. */
LS_API const char *ls_dataset_example_path(const ls_dataset *dataset, int64_t example);
/* The classes that targets of arrays are for sparse_categorical_crossentropy, where they are numbers, all whole and from 0;
 * else 0. Several an example are for a model that has outputs for each position. */
LS_API int ls_dataset_whole_classes(const ls_dataset *dataset);
/* The split that it reads: the other of TEST and VALIDATION where the source has none of its own. */
LS_API ls_split ls_dataset_split(const ls_dataset *dataset);
LS_API int64_t ls_dataset_num_damaged(const ls_dataset *dataset); /* left out for LS_DAMAGE_SKIPPED */
LS_API void ls_dataset_free(ls_dataset *dataset);

/* InputContext: which worker asks, of how many. */
typedef struct ls_input_context {
    int num_input_pipelines, input_pipeline_id, num_replicas_in_sync;
} ls_input_context;
/* INVALID_ARGUMENT where global is no multiple of the replicas. */
LS_API ls_status ls_get_per_replica_batch_size(const ls_input_context *input, int64_t global, int64_t *size);
/* Makes a worker's own dataset, whose batch_size is one replica's; division and auto_shard are without meaning. */
typedef ls_status ls_dataset_fn(void *context, const ls_input_context *input, ls_dataset **dataset);
/* distribute_datasets_from_function: fn is called once on each worker; the iterator owns the dataset that it makes.
 * Nothing is sharded. A worker whose examples end first gets empty batches until all have ended. Not with
 * LOCKSTEP_ELASTIC. */
LS_API ls_status ls_iterator_from_function(ls_strategy *strategy, ls_dataset_fn *fn, void *context, ls_iterator **iterator);

/* The formats in which a dataset can be written. ls_dataset_open of the folder reads each. */
typedef enum ls_file_format {
    LS_FORMAT_JPEG = 1, /* folder/SPLIT/CLASS/000001.jpg; an image that is a file already is copied as it is */
    LS_FORMAT_PNG,      /* the same as PNG, without loss */
    LS_FORMAT_TFRECORD, /* folder/NAME-SPLIT.tfrecord-00000-of-00001 of tf.train.Example, and label.labels.txt */
    LS_FORMAT_NPY,      /* folder/x_SPLIT.npy and y_SPLIT.npy */
    LS_FORMAT_NPZ       /* folder/SPLIT.npz, which holds the two */
} ls_file_format;
typedef struct ls_write_options {
    size_t size;
    const char *name; /* of TFRecord files; default: the dataset's kind */
    int shards;       /* TFRecord files; default 1 */
    int quality;      /* of JPEGs that are made; default 95 */
} ls_write_options;
#define LS_WRITE(...) (&(ls_write_options){.size = sizeof(ls_write_options), __VA_ARGS__})
/* Writes all examples in their order, of the split that the dataset was opened with, into folder, which is made if its
 * parent is there, all together or none; ALREADY_EXISTS where folder/SPLIT/ holds something. Images are resized where the dataset's options say so. options may be NULL. */
LS_API ls_status ls_dataset_write(const ls_dataset *dataset, ls_file_format format, const char *folder,
                                  const ls_write_options *options);

#ifdef __cplusplus
}
#include <lockstep/lockstep.hpp>
#endif

#endif
