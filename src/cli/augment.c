/* Reading --augment and its neighbours. */
#include "cli/augment.h"

#include <stdio.h>
#include <string.h>
#include <strings.h>

/* One word of the list. */
static bool read_stage(const char *word, ls_map *map) {
    float amount;
    int padding = 0, length = 0, size = (int)strlen(word);
    *map = ls_random_flip();
    if (!strcasecmp(word, "flip")) return true;
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

/* A requested range stays last, behind new stages. */
static void add(struct ls_augment *augment, const ls_map *stage) {
    augment->train[augment->count++] = *stage;
    augment->train[augment->count] = augment->test[0];
}

static bool read_list(const struct ls_command_line *line, const struct ls_option *option, const char *text,
                      void *field) {
    (void)option;
    struct ls_augment *augment = field;
    char copy[256], *list = copy;
    ls_map stage;
    (void)snprintf(copy, sizeof(copy), "%s", text);
    augment->count = 0;
    augment->train[0] = augment->test[0];
    for (char *word; (word = ls_next_word(&list));) {
        if (augment->count == LS_AUGMENT_MAX || !read_stage(word, &stage))
            return ls_usage_error(
                       line,
                       "--augment '%s': '%s' is none of flip, crop=PADDING, brightness=X, contrast=X, or one "
                       "too many",
                       text, word) == 0;
        add(augment, &stage);
    }
    return true;
}

static bool set_range(const struct ls_command_line *line, const struct ls_option *option, const char *text,
                      void *field) {
    (void)line, (void)option, (void)text;
    struct ls_augment *augment = field;
    augment->test[0] = augment->train[augment->count] = ls_rescale(2, -1);
    return true;
}

const struct ls_option ls_augment_option[] = {
    {"augment", "LIST",
     "random changes of training images: flip, crop=PADDING (a frame of zeros, then a part of the old size), "
     "brightness=X, contrast=X; such as flip,crop=4",
     0, LS_OPTION_READ, .read = read_list},
    {0}};
const struct ls_option ls_symmetric_option[] = {{"symmetric", NULL,
                                                 "pixels in [-1, 1], as Keras' MobileNetV2 wants them, not in [0, 1]",
                                                 0, LS_OPTION_READ, .read = set_range},
                                                {0}};
