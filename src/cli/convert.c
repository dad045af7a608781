/* lockstep convert: writes a dataset in another format, or drawn data into files; or a file of weights. */
#include <lockstep/tools.h>
#include <stdio.h>
#include <string.h>

#include "cli/commands.h"
#include "cli/data_options.h"
#include "cli/options.h"

static const char help[] =
    "lockstep convert: write a dataset, or a file of weights, in another format\n"
    "\n"
    "usage: lockstep convert --dataset digits|shapes|DIR|FILE.npz --to FORMAT --output DIR [OPTIONS]\n"
    "       lockstep convert WEIGHTS OUT.safetensors|OUT.npz\n"
    "\n"
    "Reads what lockstep train reads and writes it so that lockstep train, TensorFlow and others can read it: the "
    "same\n"
    "examples in the same order. Images that are JPEG or PNG files already are copied as they are unless they are to "
    "be\n"
    "resized.\n"
    "\n"
    "WEIGHTS is a .safetensors file (a checkpoint too), an .npz, or a .h5, .weights.h5 or .keras file of Keras; "
    "variables\n"
    "keep Keras' names.\n"
    "\n"
    "options:\n"
    "  --dataset WHAT          digits or shapes (drawn), a folder of IDX, CIFAR-10, NumPy or TFRecord files or of "
    "images\n"
    "                          (a folder each class), or an .npz file\n"
    "  --to FORMAT             tfrecord: files of tf.train.Example as tensorflow_datasets writes them; jpeg or png: "
    "an\n"
    "                          image folder DIR/train/CLASS/...; npy or npz: NumPy's arrays x_train, y_train\n"
    "  --output DIR            made if it is not there\n"
    "  --split train|test|both which split (default both)\n"
    "  --limit N               only the first N examples; digits, shapes: draw N\n"
    "  --seed N                of drawn data (default 0)\n"
    "  --name NAME             of TFRecord files: NAME-train.tfrecord-00000-of-00001 (default: the dataset's kind)\n"
    "  --shards N              TFRecord files a split (default 1)\n"
    "  --quality N             of JPEGs that are made, 1 to 100 (default 95)\n" LS_DATA_HELP
    "  --help                  print this text\n"
    "\n"
    "examples:\n"
    "  lockstep convert --dataset shapes --limit 400 --to jpeg --output /tmp/shapes\n"
    "  lockstep convert --dataset /tmp/shapes --to tfrecord --shards 4 --output /tmp/shapes-records\n"
    "  lockstep convert mobilenet_v2.h5 mobilenet_v2.safetensors\n"
    "\n"
    "exit status: 0 success; 2 a bad command line; 1 anything else.\n";

struct conversion {
    const char *dataset, *output;
    int format, split; /* split: LS_TRAIN, LS_TEST, or both */
    ls_dataset_options data;
    ls_write_options write;
};

enum { BOTH = LS_TEST + 1 };
enum { DATASET = 256, TO, OUTPUT, SPLIT, LIMIT, SEED, NAME, SHARDS, QUALITY };

static const struct option long_options[] = {
    {"dataset", required_argument, NULL, DATASET},
    {"to", required_argument, NULL, TO},
    {"output", required_argument, NULL, OUTPUT},
    {"split", required_argument, NULL, SPLIT},
    {"limit", required_argument, NULL, LIMIT},
    {"seed", required_argument, NULL, SEED},
    {"name", required_argument, NULL, NAME},
    {"shards", required_argument, NULL, SHARDS},
    {"quality", required_argument, NULL, QUALITY},
    LS_DATA_OPTIONS,
    {"help", no_argument, NULL, 'h'},
    {0},
};

static const char *const formats[] = {"jpeg", "png", "tfrecord", "npy", "npz", NULL}; /* ls_file_format from 1 */
static const char *const splits[] = {"train", "test", "both", NULL};

/* The place of a word in a list; -1 after the error has been printed. */
static int find_word(const struct ls_command_line *line, const char *option, const char *const *words) {
    for (int i = 0; words[i]; i++)
        if (!strcmp(words[i], optarg)) return i;
    (void)ls_usage_error(line, "%s '%s' is none that there is", option, optarg);
    return -1;
}

static bool read_number(const struct ls_command_line *line, int option, struct conversion *conversion) {
    int64_t value = 0;
    if (option == LIMIT && !ls_option_integer(line, "--limit", optarg, 1, INT64_C(1) << 40, &value)) return false;
    if (option == SEED && !ls_option_integer(line, "--seed", optarg, 0, INT64_MAX, &value)) return false;
    if (option == SHARDS && !ls_option_integer(line, "--shards", optarg, 1, 99999, &value)) return false;
    if (option == QUALITY && !ls_option_integer(line, "--quality", optarg, 1, 100, &value)) return false;
    if (option == LIMIT) conversion->data.limit = value;
    if (option == SEED) conversion->data.seed = (uint64_t)value;
    if (option == SHARDS) conversion->write.shards = (int)value;
    if (option == QUALITY) conversion->write.quality = (int)value;
    return true;
}

static bool read_option(const struct ls_command_line *line, int option, struct conversion *conversion) {
    if (option == DATASET) conversion->dataset = optarg;
    if (option == OUTPUT) conversion->output = optarg;
    if (option == NAME) conversion->write.name = optarg;
    if (option == TO && (conversion->format = find_word(line, "--to", formats) + 1) == 0) return false;
    if (option == SPLIT && (conversion->split = find_word(line, "--split", splits)) < 0) return false;
    return read_number(line, option, conversion) && ls_read_data_option(line, option, &conversion->data);
}

static ls_status convert_split(struct conversion *conversion, ls_split split) {
    ls_dataset *dataset = NULL;
    conversion->data.split = split;
    ls_status status = ls_dataset_open(conversion->dataset, &conversion->data, &dataset);
    if (!status)
        status = ls_dataset_write(dataset, (ls_file_format)conversion->format, conversion->output, &conversion->write);
    if (!status) {
        (void)printf("%s: %lld examples", splits[split], (long long)ls_dataset_count(dataset));
        if (ls_dataset_num_damaged(dataset))
            (void)printf(", %lld damaged ones left out", (long long)ls_dataset_num_damaged(dataset));
        (void)printf("\n");
    }
    ls_dataset_free(dataset);
    return status;
}

/* With both, what has no test split is no mistake. */
static ls_status convert(struct conversion *conversion) {
    bool both = conversion->split == BOTH;
    ls_status status = convert_split(conversion, both ? LS_TRAIN : (ls_split)conversion->split);
    if (status || !both) return status;
    status = convert_split(conversion, LS_TEST);
    if (status != LS_NOT_FOUND) return status;
    (void)printf("test: none\n");
    return LS_OK;
}

static int convert_weights(const struct ls_command_line *line, char **paths, int count) {
    char *text = NULL;
    if (count != 2) return ls_usage_error(line, "weights need two files: from and to");
    ls_status status = ls_tools_convert_weights(paths[0], paths[1], &text);
    if (!status) (void)printf("%s\n", text);
    ls_memory_free(text);
    return ls_exit(status);
}

int convert_main(int argc, char **argv) {
    const struct ls_command_line line = {"lockstep convert", argc, argv, "h", long_options};
    struct conversion conversion = {
        .split = BOTH, .data = {.size = sizeof(ls_dataset_options)}, .write = {.size = sizeof(ls_write_options)}};
    for (int option; (option = ls_next_option(&line)) != LS_OPTION_END;) {
        if (option == 'h') return fputs(help, stdout) < 0;
        if (option == LS_OPTION_BAD || !read_option(&line, option, &conversion)) return LS_EXIT_USAGE;
    }
    if (optind < argc && !conversion.dataset && !conversion.format && !conversion.output)
        return convert_weights(&line, argv + optind, argc - optind);
    if (!ls_no_arguments(&line)) return LS_EXIT_USAGE;
    if (!conversion.dataset || !conversion.format || !conversion.output)
        return ls_usage_error(&line, "it needs --dataset, --to and --output");
    return ls_exit(convert(&conversion));
}
