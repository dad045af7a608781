/* The stages that lockstep train puts behind its data. */
#pragma once
#include <lockstep/lockstep.h>

#include "cli/options.h"

#define LS_AUGMENT_MAX 8

enum ls_augment_option { LS_AUGMENT = 1152, LS_SYMMETRIC, LS_CACHE, LS_SHUFFLE_BUFFER, LS_PREFETCH };
#define LS_AUGMENT_OPTIONS                                                                                             \
    {"augment", required_argument, NULL, LS_AUGMENT}, {"symmetric", no_argument, NULL, LS_SYMMETRIC},                  \
        {"cache", no_argument, NULL, LS_CACHE}, {"shuffle-buffer", required_argument, NULL, LS_SHUFFLE_BUFFER}, {      \
        "prefetch", required_argument, NULL, LS_PREFETCH                                                               \
    }
#define LS_AUGMENT_HELP                                                                                                \
    "  --augment LIST          random changes of training images: flip, crop=PADDING (a frame of zeros, then a part "  \
    "of\n"                                                                                                             \
    "                          the old size), brightness=X, contrast=X; such as flip,crop=4\n"                         \
    "  --symmetric             pixels in [-1, 1], as Keras' MobileNetV2 wants them, not in [0, 1]\n"                   \
    "  --cache                 keep examples in memory once they are read\n"                                           \
    "  --shuffle-buffer N      shuffle as tf.data does with a buffer of N (default: the whole data)\n"                 \
    "  --prefetch N            steps read ahead (default 2)\n"

/* What was asked for: lists that end with a zero row. */
struct ls_augment {
    ls_map train[LS_AUGMENT_MAX + 2], test[2];
    int count; /* of train, the range apart */
};
/* Puts the option that getopt has just read into augment or options; false after the error has been printed. */
bool ls_read_augment_option(const struct ls_command_line *line, int option, struct ls_augment *augment,
                            ls_dataset_options *options);
