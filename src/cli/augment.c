/* Reading --augment and its neighbours. */
#include "cli/common_options.h"

#include <ctype.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <strings.h>

enum {
    BOTH_WAYS = 1 << 0, /* one number X stands for -X to X, else for 0 to X */
    AXES = 1 << 1,      /* two ranges are of height and width */
    FILLED = 1 << 2,    /* a fill mode may follow */
    AMOUNT = 1 << 3     /* one number alone; else the factors of a Keras layer */
};
static const struct layer_word {
    const char *name; /* with what separates the value */
    ls_map_kind kind;
    int form;
} layer_words[] = {
    {"rotation=", LS_MAP_ROTATION, BOTH_WAYS | FILLED},
    {"zoom=", LS_MAP_ZOOM, BOTH_WAYS | AXES | FILLED},
    {"shift=", LS_MAP_TRANSLATION, BOTH_WAYS | AXES | FILLED},
    {"hue=", LS_MAP_HUE, 0},
    {"saturation=", LS_MAP_SATURATION, 0},
    {"cutout=", LS_MAP_ERASING, FILLED},
    {"brightness=", LS_MAP_BRIGHTNESS, AMOUNT},
    {"contrast=", LS_MAP_CONTRAST, AMOUNT},
    {"mixup=", LS_MAP_MIX_UP, AMOUNT},
};
static const char *const fill_words[] = {[LS_FILL_MODE_REFLECT] = ":reflect",
                                         [LS_FILL_MODE_CONSTANT] = ":constant",
                                         [LS_FILL_MODE_NEAREST] = ":nearest",
                                         [LS_FILL_MODE_WRAP] = ":wrap",
                                         [LS_FILL_MODE_NOISE] = ":noise"};

/* "X" or "A:B"; returns what follows, NULL if there is no number. */
static const char *read_factor(const char *text, int form, float range[2]) {
    char *end, *second;
    range[1] = strtof(text, &end);
    range[0] = form & BOTH_WAYS ? -range[1] : 0;
    if (end == text || isnan(range[1])) return NULL;
    if (*end != ':' || isalpha((unsigned char)end[1])) return end;
    range[0] = range[1];
    range[1] = strtof(end + 1, &second);
    return second == end + 1 || isnan(range[1]) ? NULL : second;
}

static bool read_fill(const char *text, ls_map *map) {
    for (int i = LS_FILL_MODE_REFLECT; i <= LS_FILL_MODE_NOISE; i++)
        if (!strcasecmp(text, fill_words[i])) map->fill_mode = (ls_fill_mode)i;
    return map->fill_mode;
}

/* A zoom of one range keeps proportions; a shift of one range draws for each axis. */
static bool read_layer(const struct layer_word *word, const char *text, ls_map *map) {
    char *end;
    bool shift = word->kind == LS_MAP_TRANSLATION;
    *map = (ls_map){.kind = word->kind};
    if (word->form & AMOUNT) {
        map->amount = strtof(text, &end);
        return end > text && !*end && map->amount >= 0;
    }
    text = read_factor(text, word->form, shift ? map->height_factor : map->factor);
    if (!text) return false;
    if (shift) memcpy(map->width_factor, map->height_factor, sizeof(map->width_factor));
    if (word->form & AXES && *text == '/') {
        if (!shift) memcpy(map->height_factor, map->factor, sizeof(map->factor));
        memset(map->factor, 0, sizeof(map->factor));
        text = read_factor(text + 1, word->form, map->width_factor);
    }
    return text && (!*text || (word->form & FILLED && read_fill(text, map)));
}

/* One word of the list. */
static bool read_stage(const char *word, ls_map *map) {
    int padding = 0, length = 0, size = (int)strlen(word);
    for (size_t i = 0; i < sizeof(layer_words) / sizeof(layer_words[0]); i++) {
        size_t named = strlen(layer_words[i].name);
        if (!strncasecmp(word, layer_words[i].name, named)) return read_layer(&layer_words[i], word + named, map);
    }
    *map = ls_random_flip();
    if (!strcasecmp(word, "flip")) return true;
    *map = ls_random_crop(0, 0, 0);
    bool crop = sscanf(word, "crop=%4d%n", &padding, &length) == 1;
    map->padding = padding;
    return crop && length == size && padding >= 0;
}

static bool read_stages(const struct ls_command_line *line, const struct ls_option *option, const char *text,
                        void *field) {
    (void)option;
    struct ls_augment *augment = field;
    char copy[512], *list = copy;
    ls_map stage;
    if (strlen(text) >= sizeof(copy))
        return LS_REFUSE(line, "--augment has more than %zu characters", sizeof(copy) - 1);
    (void)snprintf(copy, sizeof(copy), "%s", text);
    augment->count = 0;
    augment->train[0] = augment->test[0];
    for (char *word; (word = ls_next_word(&list));) {
        if (augment->count == LS_AUGMENT_MAX || !read_stage(word, &stage))
            return LS_REFUSE(
                line,
                "--augment '%s': '%s' is none of flip, crop=PADDING, brightness=X, contrast=X, "
                "rotation=R[:FILL], zoom=R[/R][:FILL], shift=R[/R][:FILL], hue=R, saturation=R, "
                "cutout=R[:FILL], mixup=ALPHA, where R is X or A:B and FILL a way to fill, or one too many",
                text, word);
        augment->train[augment->count++] = stage;
        augment->train[augment->count] = augment->test[0]; /* a requested range stays last */
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
     "brightness=X, contrast=X; such as flip,crop=4; and with the numbers of Keras' layers rotation=R (in turns), "
     "zoom=R or R/R, shift=R or R/R (height, width), hue=R, saturation=R, cutout=R (the probability). R is X, as Keras "
     "takes it, or A:B. Behind it may stand :reflect, :constant, :nearest or :wrap, of cutout :noise or :constant, "
     "which say what the gap is filled with. mixup=ALPHA mixes two examples and their classes (the loss is then "
     "categorical_crossentropy)",
     0, LS_OPTION_READ, .read = read_stages},
    {0}};
const struct ls_option ls_symmetric_option[] = {{"symmetric", NULL,
                                                 "pixels in [-1, 1], as Keras' MobileNetV2 wants them, not in [0, 1]",
                                                 0, LS_OPTION_READ, .read = set_range},
                                                {0}};
