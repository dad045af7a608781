/* The options, finding the weights, opening both. */
#include "cli/saved_model.h"

#include <dirent.h>
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "cli/signals.h"

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

static const char *const splits[] = {"train", "test", NULL};

const struct ls_option ls_saved_options[] = {
    {"weights", "WHAT",
     "the model's: .safetensors, .npz, Keras' .h5, .weights.h5 or .keras; or a folder of checkpoints, whose newest is "
     "taken. The chief reads it. --model, --hidden, --embedding and --alpha: as the model was trained",
     LS_OPTION_AT(struct ls_saved_model, weights)},
    {"split", NULL, "(default test)", LS_OPTION_AT(struct ls_saved_model, data.split), LS_TRAIN, .words = splits},
    {0}};

bool ls_check_saved_options(const struct ls_command_line *line, struct ls_saved_model *saved) {
    if (!saved->weights) return ls_usage_error(line, "--weights is missing") == 0;
    if (!saved->dataset) saved->dataset = ls_train_model_dataset(&saved->model);
    return ls_check_dataset(line, saved->dataset);
}

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

ls_status ls_saved_model_open(struct ls_saved_model *saved, ls_strategy *strategy, ls_model **model,
                              ls_dataset **data) {
    ls_dataset_options options = saved->data;
    options.ids = ls_train_model_takes_ids(&saved->model);
    if (!options.batch_size) options.batch_size = 64 * ls_num_replicas_in_sync(strategy);
    options.maps = saved->augment.test;
    ls_take_part(&options);
    find_weights(saved);
    ls_rules_complete(&saved->model.rules);
    ls_status status = ls_dataset_open(saved->dataset, &options, data);
    ls_shape shape;
    if (!status && saved->any_loss && ls_dataset_targets(*data, &shape))
        saved->model.rules.loss = LS_MEAN_SQUARED_ERROR;
    return status ? status : ls_train_model_make(&saved->model, strategy, *data, model);
}
