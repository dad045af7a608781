/* Reading the options, finding the weights, opening both. */
#include "cli/saved_model.h"

#include <dirent.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>

void ls_saved_model_begin(struct ls_saved_model *saved) {
    *saved = (struct ls_saved_model){
        .model = {.name = "mlp",
                  .hidden = {128, 64},
                  .hidden_count = 2,
                  .rules = {.optimizer = ls_sgd(0.1F), .loss = LS_SPARSE_CATEGORICAL_CROSSENTROPY}},
        .strategy = {.size = sizeof(ls_strategy_options)},
        .data = {.size = sizeof(ls_dataset_options), .split = LS_TEST, .shuffle = LS_SHUFFLE_NEVER},
        .dataset = "digits",
    };
}

static bool read_word(const struct ls_command_line *line, int option, struct ls_saved_model *saved) {
    static const char *const models[] = {"mlp", "lenet", "mobilenet_v2", "resnet50", NULL};
    static const char *const splits[] = {"train", "test", NULL};
    int value;
    if (option == LS_SAVED_MODEL) {
        if (!ls_option_word(line, "--model", optarg, models, &value)) return false;
        saved->model.name = models[value];
    }
    if (option == LS_SAVED_SPLIT) {
        if (!ls_option_word(line, "--split", optarg, splits, &value)) return false;
        saved->data.split = value ? LS_TEST : LS_TRAIN;
    }
    return true;
}

static bool read_number(const struct ls_command_line *line, int option, struct ls_saved_model *saved) {
    double alpha;
    int64_t seed;
    switch (option) {
    case LS_SAVED_ALPHA:
        if (!ls_option_number(line, "--alpha", optarg, 0.01, 16, &alpha)) return false;
        saved->model.alpha = (float)alpha;
        return true;
    case LS_SAVED_LIMIT:
        return ls_option_integer(line, "--limit", optarg, 1, INT64_C(1) << 40, &saved->data.limit);
    case LS_SAVED_BATCH:
        return ls_option_integer(line, "--batch-size", optarg, 1, 1 << 30, &saved->data.batch_size);
    case LS_SAVED_SEED:
        if (!ls_option_integer(line, "--seed", optarg, 0, INT64_MAX, &seed)) return false;
        saved->data.seed = (uint64_t)seed;
        return true;
    default:
        return true;
    }
}

bool ls_read_saved_option(const struct ls_command_line *line, int option, struct ls_saved_model *saved) {
    if (option == LS_SAVED_HIDDEN) return ls_read_hidden(line, optarg, &saved->model);
    if (option == LS_SAVED_WEIGHTS) saved->weights = optarg;
    if (option == LS_SAVED_DATASET) saved->dataset = optarg;
    if (option == LS_SAVED_DEVICES) saved->strategy.devices = optarg;
    return read_word(line, option, saved) && read_number(line, option, saved) &&
           ls_read_data_option(line, option, &saved->data) && ls_read_rule_option(line, option, &saved->model.rules) &&
           ls_read_augment_option(line, option, &saved->augment, &saved->data);
}

bool ls_check_saved_options(const struct ls_command_line *line, const struct ls_saved_model *saved) {
    return saved->weights || ls_usage_error(line, "--weights is missing") == 0;
}

static int is_checkpoint(const struct dirent *entry) {
    const char *end = strrchr(entry->d_name, '.');
    return !strncmp(entry->d_name, "checkpoint-", 11) && end && !strcmp(end, ".safetensors");
}

/* A file stays what it is; of a folder of checkpoints the newest, whose name is the last. */
static void find_weights(struct ls_saved_model *saved) {
    struct dirent **entries = NULL;
    struct stat info;
    saved->model.weights = saved->weights;
    if (stat(saved->weights, &info) || !S_ISDIR(info.st_mode)) return;
    int count = scandir(saved->weights, &entries, is_checkpoint, alphasort);
    if (count > 0) {
        (void)snprintf(saved->path, sizeof(saved->path), "%.3800s/%.255s", saved->weights, entries[count - 1]->d_name);
        saved->model.weights = saved->path;
    }
    for (int i = 0; i < count; i++) free(entries[i]);
    free(entries);
}

ls_status ls_saved_model_open(struct ls_saved_model *saved, ls_strategy *strategy, ls_model **model,
                              ls_dataset **data) {
    ls_dataset_options options = saved->data;
    if (!options.batch_size) options.batch_size = 64 * ls_num_replicas_in_sync(strategy);
    options.maps = saved->augment.test;
    find_weights(saved);
    ls_rules_complete(&saved->model.rules);
    ls_status status = ls_dataset_open(saved->dataset, &options, data);
    return status ? status : ls_train_model_make(&saved->model, strategy, *data, model);
}
