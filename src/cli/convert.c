/* lockstep convert: writes a dataset in another format, or drawn data into files; or a file of weights. */
#include <lockstep/tools.h>
#include <stdio.h>
#include <string.h>

#include "cli/commands.h"
#include "cli/common_options.h"

static const char about[] =
    "lockstep convert: write a dataset, or a file of weights, in another format\n"
    "\n"
    "usage: lockstep convert --dataset digits|shapes|words|DIR|FILE --to FORMAT --output DIR [OPTIONS]\n"
    "       lockstep convert [--to huggingface] WEIGHTS|--model FILE OUT.safetensors|OUT.npz|OUT\n"
    "\n"
    "Reads what lockstep train reads and writes it so that lockstep train, TensorFlow and others can read it: the "
    "same\n"
    "examples in the same order. Images that are JPEG or PNG files already are copied as they are unless they are to "
    "be\n"
    "resized.\n"
    "\n"
    "WEIGHTS is a .safetensors file (a checkpoint too), an .npz, or a .h5, .weights.h5 or .keras file of Keras; "
    "variables\n"
    "keep Keras' names, and a model its layers. Hugging Face's names of GPT-2 and Llama become ours, and with\n"
    "--to huggingface back. A folder of config.json and model.safetensors is a model, too: WEIGHTS, or OUT.\n";
static const char more[] =
    "examples:\n"
    "  lockstep convert --dataset shapes --limit 400 --to jpeg --output /tmp/shapes\n"
    "  lockstep convert --dataset /tmp/shapes --to tfrecord --shards 4 --output /tmp/shapes-records\n"
    "  lockstep convert mobilenet_v2.h5 mobilenet_v2.safetensors\n"
    "  lockstep convert --to huggingface --model run/best.safetensors llama-trained\n"
    "\n"
    "exit status: 0 success; 2 a bad command line; 1 anything else.\n";

struct conversion {
    const char *dataset, *output, *model;
    int format, split; /* split: an ls_split, or all */
    ls_dataset_options data;
    ls_write_options write;
};

enum { ALL = LS_VALIDATION + 1, HUGGINGFACE = LS_FORMAT_NPZ + 1 };
static const char *const formats[] = {"jpeg", "png",         "tfrecord", "npy",
                                      "npz",  "huggingface", NULL}; /* ls_file_format from 1 */
static const char *const splits[] = {"train", "test", "validation", "all", "both", NULL};

static bool read_choice(const struct ls_command_line *line, const struct ls_option *option, const char *text,
                        void *field) {
    for (int i = 0; option->words[i]; i++) {
        if (strcmp(option->words[i], text) != 0) continue;
        *(int *)field = (int)option->low + i;
        return true;
    }
    return LS_REFUSE(line, "--%s '%s' is none that there is", option->name, text);
}

#define AT(field) LS_OPTION_AT(struct conversion, field)

static const struct ls_option rows[] = {
    {"to", NULL,
     "tfrecord: files of tf.train.Example as tensorflow_datasets writes them; jpeg or png: an image folder "
     "DIR/train/CLASS/...; npy or npz: NumPy's arrays x_train, y_train. huggingface, of weights: the "
     "names and matrices of transformers' GPT2LMHeadModel, or LlamaForCausalLM",
     AT(format), 1, .words = formats, .read = read_choice},
    {"output", "DIR", "made if it is not there", AT(output)},
    {"split", NULL, "which split (default all that are there; both is the same)", AT(split), LS_TRAIN, .words = splits,
     .read = read_choice},
    {"model", "FILE", "a saved model, whose weights are converted", AT(model)},
    {"name", "NAME", "of TFRecord files: NAME-train.tfrecord-00000-of-00001 (default: the dataset's kind)",
     AT(write.name)},
    {"shards", "N", "TFRecord files a split (default 1)", AT(write.shards), 1, 99999},
    {"quality", "N", "of JPEGs that are made, 1 to 100 (default 95)", AT(write.quality), 1, 100},
    {0}};
static const struct ls_option_table tables[] = {{"options", ls_dataset_option, offsetof(struct conversion, dataset)},
                                                {NULL, rows, 0},
                                                {NULL, ls_data_options, offsetof(struct conversion, data)},
                                                {0}};

/* Of all splits, one that stands in for another is not written under the other's name. */
static ls_status convert_split(struct conversion *conversion, ls_split split) {
    ls_dataset *dataset = NULL;
    ls_dataset_options options = conversion->data;
    options.split = split;
    ls_take_part(&options);
    ls_status status = ls_dataset_open(conversion->dataset, &options, &dataset);
    bool stands_in = !status && conversion->split >= ALL && ls_dataset_split(dataset) != options.split;
    if (!status && !stands_in)
        status = ls_dataset_write(dataset, (ls_file_format)conversion->format, conversion->output, &conversion->write);
    if (!status && !stands_in) {
        (void)printf("%s: %lld examples", splits[split], (long long)ls_dataset_count(dataset));
        if (ls_dataset_num_damaged(dataset))
            (void)printf(", %lld damaged ones left out", (long long)ls_dataset_num_damaged(dataset));
        (void)printf("\n");
    }
    ls_dataset_free(dataset);
    return status;
}

/* A dataset without a test and a validation split is no error where all are converted. */
static ls_status convert(struct conversion *conversion) {
    if (conversion->split < ALL) return convert_split(conversion, (ls_split)conversion->split);
    ls_status status = convert_split(conversion, LS_TRAIN);
    if (status) return status;
    if (!(conversion->data.validation_split > 0)) status = convert_split(conversion, LS_VALIDATION);
    if (!status) status = convert_split(conversion, LS_TEST);
    if (status != LS_NOT_FOUND) return status;
    (void)printf("test: none\n");
    return LS_OK;
}

/* From the model's file, or the first of the paths, to the last. */
static int convert_weights(const struct ls_command_line *line, const struct conversion *conversion, char **paths,
                           int count) {
    char *text = NULL;
    if (count != (conversion->model ? 1 : 2)) return ls_usage_error(line, "weights need two files: from and to");
    ls_status status = ls_tools_convert_weights(conversion->model ? conversion->model : paths[0], paths[count - 1],
                                                conversion->format == HUGGINGFACE, &text);
    if (!status) (void)printf("%s\n", text);
    ls_memory_free(text);
    return ls_exit(status);
}

int convert_main(int argc, char **argv) {
    struct ls_command_line line = {"lockstep convert", argc, argv, about, more, tables, 0};
    struct conversion conversion = {
        .split = ALL, .data = {.size = sizeof(ls_dataset_options)}, .write = {.size = sizeof(ls_write_options)}};
    int code = ls_options_read(&line, &conversion);
    if (code >= 0) return code;
    bool plain = !conversion.format || conversion.format == HUGGINGFACE;
    if ((line.next < argc || conversion.model) && !conversion.dataset && plain && !conversion.output)
        return convert_weights(&line, &conversion, argv + line.next, argc - line.next);
    if (!ls_no_arguments(&line)) return LS_EXIT_USAGE;
    if (conversion.format == HUGGINGFACE)
        return ls_usage_error(&line,
                              "--to huggingface is of weights: give WEIGHTS or --model FILE, and OUT.safetensors");
    if (!conversion.dataset || !conversion.format || !conversion.output)
        return ls_usage_error(&line, "it needs --dataset, --to and --output");
    if (!ls_check_dataset(&line, conversion.dataset)) return LS_EXIT_USAGE;
    return ls_exit(convert(&conversion));
}
