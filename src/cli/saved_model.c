/* The options, finding the weights, opening both. */
#include "cli/saved_model.h"

#include <dirent.h>
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <strings.h>

#include "cli/signals.h"

#define SAVED_NOTE "--model " LS_SAVED_NAME " " /* begins the note of who was trained from a file */

void ls_saved_model_begin(struct ls_saved_model *saved) {
    *saved = (struct ls_saved_model){
        .model = {.name = "mlp",
                  .hidden = {128, 64},
                  .hidden_count = 2,
                  .rules = {.optimizer = ls_sgd(0.1F), .loss = LS_SPARSE_CATEGORICAL_CROSSENTROPY}},
        .strategy = {.size = sizeof(ls_strategy_options), .request = ls_signals_request},
        .data = {.size = sizeof(ls_dataset_options), .split = LS_TEST, .shuffle = LS_SHUFFLE_NEVER},
    };
}

static const char *const splits[] = {"train", "test", "validation", NULL};

const struct ls_option ls_saved_options[] = {
    {"weights", "WHAT",
     "the model's: .safetensors, .npz, Keras' .h5, .weights.h5 or .keras; or a folder of checkpoints, whose newest is "
     "taken, or one of Hugging Face's. The chief reads it. --model, --hidden, --embedding, --alpha and --symmetric: as "
     "the model was trained, "
     "which what lockstep train writes says itself. Not needed beside --model FILE",
     LS_OPTION_AT(struct ls_saved_model, weights)},
    {"outputs", "N", "of the model, where neither the weights nor the data say it",
     LS_OPTION_AT(struct ls_saved_model, model.outputs), 1, 1 << 24},
    {"split", NULL, "(default test)", LS_OPTION_AT(struct ls_saved_model, data.split), LS_TRAIN, .words = splits},
    {0}};

bool ls_check_saved_options(const struct ls_command_line *line, struct ls_saved_model *saved) {
    if (!saved->weights) saved->weights = saved->model.file;
    if (!saved->weights) return LS_REFUSE(line, "--weights is missing, or a --model FILE");
    for (const struct ls_option *row = ls_model_options; saved->model.file && row->name; row++)
        if (ls_option_given(line, row->name) && strcmp(row->name, "model") != 0)
            return LS_REFUSE(line, "--%s is given, and '%s' says its layers: leave the option out", row->name,
                             saved->model.file);
    saved->line = line;
    if (saved->dataset && saved->path_count)
        return LS_REFUSE(line, "--dataset '%s' is given, and '%s' too: one or the other", saved->dataset,
                         saved->paths[0]);
    return saved->path_count || !saved->dataset || ls_check_dataset(line, saved->dataset);
}

void ls_saved_model_end(struct ls_saved_model *saved) {
    ls_tools_about_free(saved->about);
    ls_tools_about_free(saved->layers);
    for (int i = 0; i < saved->name_count; i++) free(saved->names[i]);
    free(saved->names);
    saved->about = saved->layers = NULL;
    saved->names = NULL;
    saved->name_count = 0;
}

const char *ls_saved_model_class(const void *saved, int class) {
    const struct ls_saved_model *model = saved;
    return class < model->name_count ? model->names[class] : NULL;
}

/* ---- what the weights say ---- */

static bool same_value(const char *a, const char *b) {
    char *end_a, *end_b;
    double x = strtod(a, &end_a), y = strtod(b, &end_b);
    return !strcasecmp(a, b) || (end_a != a && end_b != b && !*end_a && !*end_b && !(x < y) && !(x > y));
}

/* The option by which the command line says the model; NULL: it does not. */
static const char *named_by(const struct ls_saved_model *saved) {
    for (const struct ls_option *row = ls_model_options; !saved->model.file && row->name; row++)
        if (ls_option_given(saved->line, row->name)) return row->name;
    return NULL;
}

/* Layers are those of --model FILE, or those that the weights say. */
static ls_status take_layers(struct ls_saved_model *saved, ls_strategy *strategy) {
    struct ls_train_model *model = &saved->model;
    bool other = model->file && strcmp(model->file, saved->weights) != 0;
    const char *named = named_by(saved), *note = saved->about->note;
    ls_status status = other ? ls_tools_about_weights(strategy, model->file, &saved->layers) : LS_OK;
    if (!status && named && note && !strncmp(note, SAVED_NOTE, strlen(SAVED_NOTE)))
        status = ls_tools_fail(LS_INVALID_ARGUMENT, "--%s is given, and '%s' says its layers: leave the option out",
                               named, model->weights);
    if (status || named) return status;
    const ls_tools_about *about = other ? saved->layers : saved->about;
    if (model->file && !about->layered)
        return ls_tools_fail(LS_INVALID_ARGUMENT,
                             "--model '%s' holds weights, and does not say its layers: give it as --weights",
                             model->file);
    if (!about->layered) return LS_OK;
    model->said = about;
    model->said_by = other ? model->file : model->weights;
    return LS_OK;
}

/* An option of the training: it counts where it is not given here, and may not be given otherwise. */
static ls_status take_word(struct ls_saved_model *saved, const char *name, const char *value) {
    const char *given = ls_option_text(saved->line, name);
    if (saved->model.said && !strcmp(name, "model")) return LS_OK;
    if (given && !same_value(given, value))
        return ls_tools_fail(LS_INVALID_ARGUMENT, "--%s is '%s', and '%s' was trained with '%s': leave the option out",
                             name, given, saved->model.weights, value);
    if (ls_option_default(saved->line, name, *value ? value : NULL, saved)) return LS_OK;
    return ls_tools_fail(LS_INVALID_ARGUMENT, "'%s' was trained with --%s '%s', which is no value here",
                         saved->model.weights, name, value);
}

/* Takes the words of ls_train_model_words; other programs' notes are theirs. */
static ls_status take_words(struct ls_saved_model *saved) {
    char *state = NULL;
    ls_status status = LS_OK;
    if (!saved->about->note || strncmp(saved->about->note, "--model ", 8) != 0) return LS_OK;
    if (ls_option_given(saved->line, "symmetric") && !strstr(saved->about->note, " --symmetric"))
        return ls_tools_fail(LS_INVALID_ARGUMENT,
                             "--symmetric is given, and '%s' was trained without: leave the option out",
                             saved->model.weights);
    for (char *word = strtok_r(saved->about->note, " ", &state); word && !status;) {
        char *value = strtok_r(NULL, " ", &state);
        bool flag = !value || !strncmp(value, "--", 2);
        status = take_word(saved, word + 2, flag ? "" : value);
        word = flag ? value : strtok_r(NULL, " ", &state);
    }
    return status;
}

/* Images come in the size and the channels of those of the training. Another size may be meant. */
static void take_image_size(struct ls_saved_model *saved, bool chief) {
    const ls_shape *input = &saved->about->input;
    ls_dataset_options *data = &saved->data;
    if (input->rank != 3 || (input->dims[2] != 1 && input->dims[2] != 3)) return;
    bool other = data->image_height && (data->image_height != input->dims[0] || data->image_width != input->dims[1]);
    if (other && chief)
        (void)fprintf(stderr, "lockstep: warning: --image-size is %dx%d, and '%s' was trained with %lldx%lld\n",
                      data->image_height, data->image_width, saved->model.weights, (long long)input->dims[0],
                      (long long)input->dims[1]);
    if (!data->image_height && !data->image_width) {
        data->image_height = (int)input->dims[0];
        data->image_width = (int)input->dims[1];
    }
    if (!saved->data.image_channels) saved->data.image_channels = (int)input->dims[2];
}

/* An evaluator has the training's options, and needs none of the model. */
static ls_status ask_weights(struct ls_saved_model *saved, ls_strategy *strategy) {
    if (saved->about) return LS_OK;
    ls_status status = ls_tools_about_weights(strategy, saved->model.weights, &saved->about);
    if (status) return status;
    /* a table's columns become what they were in training; only predict does without the target */
    saved->data.transform = saved->about->transform;
    if (!saved->any_loss && !saved->data.target) saved->data.target = saved->about->target;
    if (!saved->line) return LS_OK;
    take_image_size(saved, ls_is_chief(strategy));
    status = take_layers(saved, strategy);
    if (!status) status = take_words(saved);
    int64_t positions = saved->data.tokens && saved->data.context ? saved->data.context : 1;
    if (!saved->model.outputs) saved->model.outputs = (int)(saved->about->outputs / positions);
    return status;
}

/* Labels that mean other classes than those of the training would be compared with the wrong outputs. */
static ls_status compare_classes(const struct ls_saved_model *saved, const ls_dataset *data) {
    for (int i = 0; saved->about && !saved->any_loss && i < ls_dataset_num_classes(data); i++) {
        const char *here = ls_dataset_class_name(data, i);
        const char *there = i < saved->about->class_count ? saved->about->classes[i] : NULL;
        if (!here || !saved->about->class_count || (there && !strcmp(here, there))) continue;
        return ls_tools_fail(
            LS_INVALID_ARGUMENT, "class %d is '%s' in '%s', and %s%s%s in '%s': bring the same classes", i, here,
            saved->dataset, there ? "'" : "", there ? there : "none", there ? "'" : "", saved->model.weights);
    }
    return LS_OK;
}

static ls_status keep_names(struct ls_saved_model *saved, const ls_dataset *data) {
    const ls_tools_about *said = saved->about;
    int count = said && said->class_count ? said->class_count : ls_dataset_num_classes(data);
    bool trained = said && said->class_count, named = trained || ls_dataset_class_name(data, 0);
    if (!named || saved->names) return LS_OK;
    saved->names = calloc((size_t)count, sizeof(*saved->names));
    for (int i = 0; saved->names && i < count; i = ++saved->name_count)
        if (!(saved->names[i] = strdup(trained ? said->classes[i] : ls_dataset_class_name(data, i)))) break;
    if (saved->name_count == count) return LS_OK;
    return ls_tools_fail(LS_RESOURCE_EXHAUSTED, "no memory for names of classes");
}

/* ---- finding the weights ---- */

static int is_checkpoint(const struct dirent *entry) {
    const char *end = strrchr(entry->d_name, '.');
    return !strncmp(entry->d_name, "checkpoint-", 11) && end && !strcmp(end, ".safetensors");
}

/* Its name is the last. */
int ls_newest_checkpoint(const char *folder, char *path, size_t size, long long *step) {
    struct dirent **entries = NULL;
    int count = scandir(folder, &entries, is_checkpoint, alphasort);
    if (count < 0) return errno == ENOENT || errno == ENOTDIR ? 0 : -1;
    if (count > 0) {
        (void)snprintf(path, size, "%.3800s/%.255s", folder, entries[count - 1]->d_name);
        *step = strtoll(strchr(entries[count - 1]->d_name, '-') + 1, NULL, 10);
    }
    for (int i = 0; i < count; i++) free(entries[i]);
    free(entries);
    return count > 0;
}

/* Finds the newest checkpoint of a folder; a file stays as it is. */
static void find_weights(struct ls_saved_model *saved) {
    long long step;
    bool found = ls_newest_checkpoint(saved->weights, saved->path, sizeof(saved->path), &step) > 0;
    saved->model.weights = found ? saved->path : saved->weights;
}

/* For predict a dataset may lack labels, too: x alone, or pictures that are in no folder of a class. */
static ls_status open_data(const struct ls_saved_model *saved, const ls_dataset_options *options, ls_dataset **data) {
    if (saved->path_count) return ls_dataset_paths(saved->paths, saved->path_count, options, data);
    ls_status status = ls_dataset_open(saved->dataset, options, data);
    return status == LS_NOT_FOUND && saved->any_loss ? ls_dataset_paths(&saved->dataset, 1, options, data) : status;
}

static ls_status tell_outputs(const struct ls_saved_model *saved) {
    return ls_tools_fail(LS_INVALID_ARGUMENT,
                         "'%s' does not say how many outputs the model has, and '%s' has no labels: give --outputs N",
                         saved->model.weights, saved->path_count ? saved->paths[0] : saved->dataset);
}

/* Targets that are as many as the outputs, and not a class for each position. */
static bool takes_numbers(const struct ls_saved_model *saved, const ls_dataset *data) {
    ls_shape shape;
    int64_t count = 1;
    if (!ls_dataset_targets(data, &shape)) return false;
    for (int i = 0; i < shape.rank; i++) count *= shape.dims[i];
    return !ls_dataset_whole_classes(data) || !saved->about || saved->about->outputs == count;
}

ls_status ls_saved_model_ask(struct ls_saved_model *saved, ls_strategy *strategy) {
    find_weights(saved);
    return ask_weights(saved, strategy);
}

ls_status ls_saved_model_open(struct ls_saved_model *saved, ls_strategy *strategy, ls_model **model,
                              ls_dataset **data) {
    ls_shape shape;
    ls_status status = ls_saved_model_ask(saved, strategy);
    if (status) return status;
    if (!saved->dataset) saved->dataset = ls_train_model_dataset(&saved->model);
    ls_dataset_options options = saved->data;
    options.ids = ls_train_model_takes_ids(&saved->model);
    saved->model.tokens = options.tokens;
    saved->model.context = options.context;
    saved->model.vocabulary = options.vocabulary;
    if (!options.batch_size) options.batch_size = 64 * ls_num_replicas_in_sync(strategy);
    options.maps = saved->augment.test;
    ls_take_part(&options);
    ls_rules_complete(&saved->model.rules);
    status = open_data(saved, &options, data);
    if (!status) status = compare_classes(saved, *data);
    if (!status) status = keep_names(saved, *data);
    if (!status && !saved->model.outputs && !ls_dataset_num_classes(*data) && !ls_dataset_targets(*data, &shape))
        status = tell_outputs(saved);
    if (!status && saved->any_loss && saved->model.rules.loss == LS_SPARSE_CATEGORICAL_CROSSENTROPY &&
        takes_numbers(saved, *data))
        saved->model.rules.loss = LS_MEAN_SQUARED_ERROR;
    if (!status) ls_train_model_suit(&saved->model, *data);
    return status ? status : ls_train_model_make(&saved->model, strategy, *data, model);
}
