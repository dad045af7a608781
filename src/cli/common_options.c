/* Options that several commands have: data, devices, transport. */
#include "cli/common_options.h"

#include <errno.h>
#include <lockstep/tools.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>

#define MAX_SIDE 65500

/* "224", or "224x320": height and width. */
static bool read_image_size(const struct ls_command_line *line, const struct ls_option *option, const char *text,
                            void *field) {
    (void)option;
    ls_dataset_options *options = field;
    int height = 0, width = 0, length = 0;
    if (sscanf(text, "%5dx%5d%n", &height, &width, &length) < 2) {
        length = 0;
        (void)sscanf(text, "%5d%n", &height, &length);
        width = height;
    }
    if (!length || text[length] || height < 1 || width < 1 || height > MAX_SIDE || width > MAX_SIDE)
        return LS_REFUSE(line, "--image-size '%s' is no side such as 224 and no height and width such as 224x320",
                         text);
    options->image_height = height;
    options->image_width = width;
    return true;
}

static bool read_channels(const struct ls_command_line *line, const struct ls_option *option, const char *text,
                          void *field) {
    int64_t value;
    if (!ls_option_integer(line, option, text, 1, 3, &value)) return false;
    if (value == 2) return LS_REFUSE(line, "--image-channels is 1 or 3, not 2");
    *(int *)field = (int)value;
    return true;
}

static const char *const target_types[] = {"auto", "class", "number", NULL};

/* One character; "\\t" and "tab" are the tab. */
static bool read_separator(const struct ls_command_line *line, const struct ls_option *option, const char *text,
                           void *field) {
    (void)option;
    bool tab = !strcmp(text, "\\t") || !strcmp(text, "tab");
    if (!tab && (!*text || text[1] || strchr("\"\r\n ", *text)))
        return LS_REFUSE(line, "--separator '%s' is no character such as ',', ';' or tab", text);
    *(char *)field = tab ? '\t' : *text;
    return true;
}

#define AT(field) LS_OPTION_AT(ls_dataset_options, field)

const struct ls_option ls_dataset_option[] = {
    {"dataset", "WHAT",
     "drawn digits, shapes or words; a folder of MNIST's IDX, CIFAR-10's binary, TFRecord or NumPy files, or of "
     "images, a folder each class; or an .npz or .csv file (train, evaluate, predict: default digits; with --model "
     "embedding words)",
     0, LS_OPTION_TEXT},
    {0}};
const char *const ls_token_formats[] = {"bytes", "chars", "uint16", "llmc", NULL};
#define TOKENS "tokens bytes|chars|uint16|llmc"
const struct ls_option ls_data_options[] = {
    {"limit", "N", "use only the first N examples, in training of the training split; of drawn data: draw N", AT(limit),
     1, INT64_C(1) << 40},
    {"skip", "N", "leave out the first N examples, in training of the training split", AT(skip), 1, INT64_C(1) << 40},
    {"validation-split", "SHARE",
     "of the training split, this share of each class, drawn by --seed, is kept apart as the test split; of a file of "
     "tokens its end",
     AT(validation_split), 1e-9, 1 - 1e-9},
    {"seed", "N", "of drawn data, and in training of the initial weights and the shuffle (default 0)", AT(seed), 0,
     INT64_MAX},
    {"target", "COLUMN", "of a CSV file: the column that is to be predicted. Words are classes", AT(target)},
    {"target-type", NULL,
     "what that column has (default auto: classes where it has words, or all whole numbers from 0 to the greatest)",
     AT(target_type), LS_TARGET_AUTO, .words = target_types, .needs = "target COLUMN"},
    {"without", "COLUMN,...", "columns of a CSV file to leave out, such as names and numbers of rows", AT(without)},
    {"separator", "C", "between the cells of a CSV file (default: tab, ';' or ',', which the first row has most of)",
     offsetof(ls_dataset_options, separator), LS_OPTION_READ, .read = read_separator},
    {"tokens", NULL,
     "the data are a file of tokens, of which the next is predicted: a text's bytes or characters, nanoGPT's .bin "
     "(uint16) or llm.c's",
     AT(tokens), LS_TOKENS_BYTES, .words = ls_token_formats},
    {"context", "N", "tokens in an example", AT(context), 1, INT64_C(1) << 31, .needs = TOKENS},
    {"stride", "N", "tokens from one example's begin to the next one's (default: --context)", AT(stride), 1,
     INT64_C(1) << 40, .needs = TOKENS},
    {"vocabulary", "N", "ids are below N (default: 256 for bytes, else what the file has)", AT(vocabulary), 1, 1 << 24,
     .needs = TOKENS},
    {"image-size", "N|HxW", "resize images, as tf.image.resize does (default: the first image's size)", 0,
     LS_OPTION_READ, .read = read_image_size},
    {"image-channels", "1|3", "grey or colour (default: as the first image)",
     offsetof(ls_dataset_options, image_channels), LS_OPTION_READ, .read = read_channels},
    {"scaled-decode", NULL, "decode large JPEGs at 1/2, 1/4 or 1/8 before: faster, other pixels than TensorFlow's",
     AT(scaled_decode), true},
    {"skip-damaged", NULL, "look through all images, records or rows first and leave damaged ones out", AT(damage),
     LS_DAMAGE_SKIPPED},
    {"interleave", "N", "read N files in turn, --block-length examples from each, as tf.data", AT(interleave), 1,
     65536},
    {"block-length", "N", "for --interleave (default 1)", AT(block_length), 1, INT64_C(1) << 40,
     .needs = "interleave N"},
    {"data-workers", "N",
     "threads that read and map examples; -1: none (default: as many as processors for images, else none)", AT(workers),
     -1, 64},
    {0}};
const struct ls_option ls_batch_option[] = {
    {"batch-size", "N", "examples in the global batch, all replicas together (default 64 a replica)", AT(batch_size), 1,
     1 << 30},
    {0}};
const struct ls_option ls_devices_option[] = {{"devices", "D",
                                               "auto (all GPUs, else one CPU), gpu, a number of CPU devices, or a list "
                                               "such as gpu:0,gpu:1 (default: LOCKSTEP_DEVICES, then auto)",
                                               0, LS_OPTION_TEXT},
                                              {0}};
static const char *const transports[] = {"auto", "shm", "tcp", NULL};
const struct ls_option ls_transport_option[] = {
    {"transport", NULL, "between workers; sets LOCKSTEP_TRANSPORT (default: what it says, else auto)", 0,
     LS_OPTION_TEXT, .words = transports},
    {0}};

void ls_take_part(ls_dataset_options *options) {
    if (!(options->validation_split > 0) || options->split == LS_TRAIN) return;
    options->split = LS_TRAIN;
    options->part = LS_PART_VALIDATION;
}

bool ls_check_dataset(const struct ls_command_line *line, const char *dataset) {
    struct stat about;
    bool shapes = !strcmp(dataset, "shapes"), drawn = shapes || !strcmp(dataset, "digits") || !strcmp(dataset, "words");
    if (drawn && !shapes && ls_option_given(line, "image-size"))
        return LS_REFUSE(line, "--image-size: '%s' are drawn in one size", dataset);
    if (drawn && ls_option_given(line, "image-channels"))
        return LS_REFUSE(line, "--image-channels: '%s' are drawn as they are", dataset);
    if (drawn || !stat(dataset, &about) || (errno != ENOENT && errno != ENOTDIR))
        return true; /* opening it tells why */
    return LS_REFUSE(line, "--dataset '%.300s' is neither digits nor shapes nor words, and as a path: %s", dataset,
                     strerror(errno));
}

bool ls_check_says(const char *text) {
    char *json = NULL;
    ls_status status = ls_tools_check_json(getenv("TF_CONFIG"), &json);
    bool says = !status && strstr(json, text);
    ls_memory_free(json);
    return says;
}

bool ls_check_weights(const struct ls_command_line *line, const char *weights) {
    struct stat about;
    if (!weights || !stat(weights, &about) || (errno != ENOENT && errno != ENOTDIR)) return true;
    const char *why = strerror(errno);
    /* an evaluator, which has no rank, reads its training's checkpoints alone */
    bool reads = ls_check_says("\"is_chief\": true") && !ls_check_says("\"task_type\": \"evaluator\"");
    return !reads || LS_REFUSE(line, "--weights '%.300s': %s", weights, why);
}
