/* Reading --augment and its neighbours. */
#include "cli/augment.h"

#include <stdio.h>
#include <string.h>

/* One word of the list. */
static bool read_stage(const char *word, ls_map *map) {
    float amount;
    int padding = 0, length = 0, size = (int)strlen(word);
    *map = ls_random_flip();
    if (!strcmp(word, "flip")) return true;
    *map = ls_random_crop(0, 0, 0);
    if (sscanf(word, "crop=%4d%n", &padding, &length) == 1) {
        map->padding = padding;
        return length == size && padding >= 0;
    }
    *map = ls_random_brightness(0);
    if (sscanf(word, "brightness=%f%n", &amount, &length) != 1) {
        *map = ls_random_contrast(0);
        if (sscanf(word, "contrast=%f%n", &amount, &length) != 1) return false;
    }
    map->amount = amount;
    return length == size && amount >= 0;
}

/* The range, if it was asked for, stays behind what comes new. */
static void add(struct ls_augment *augment, const ls_map *stage) {
    augment->train[augment->count++] = *stage;
    augment->train[augment->count] = augment->test[0];
}

static bool read_list(const struct ls_command_line *line, struct ls_augment *augment) {
    char copy[256], *state = NULL;
    ls_map stage;
    (void)snprintf(copy, sizeof(copy), "%s", optarg);
    for (char *word = strtok_r(copy, ",", &state); word; word = strtok_r(NULL, ",", &state)) {
        if (augment->count == LS_AUGMENT_MAX || !read_stage(word, &stage))
            return ls_usage_error(
                       line,
                       "--augment '%s': '%s' is none of flip, crop=PADDING, brightness=X, contrast=X, or one "
                       "too many",
                       optarg, word) == 0;
        add(augment, &stage);
    }
    return true;
}

bool ls_read_augment_option(const struct ls_command_line *line, int option, struct ls_augment *augment,
                            ls_dataset_options *options) {
    int64_t value;
    switch (option) {
    case LS_AUGMENT:
        return read_list(line, augment);
    case LS_SYMMETRIC:
        augment->test[0] = augment->train[augment->count] = ls_rescale(2, -1);
        return true;
    case LS_CACHE:
        options->cache = true;
        return true;
    case LS_SHUFFLE_BUFFER:
        return ls_option_integer(line, "--shuffle-buffer", optarg, 1, INT64_C(1) << 40, &options->shuffle_buffer);
    case LS_PREFETCH:
        if (!ls_option_integer(line, "--prefetch", optarg, 1, 1024, &value)) return false;
        options->prefetch = (int)value;
        return true;
    default:
        return true;
    }
}
