/* Options about data that several commands have. */
#pragma once
#include <lockstep/lockstep.h>

#include "cli/options.h"

enum ls_data_option {
    LS_IMAGE_SIZE = 1024,
    LS_IMAGE_CHANNELS,
    LS_SCALED_DECODE,
    LS_SKIP_DAMAGED,
    LS_SKIP,
    LS_WORKERS,
    LS_INTERLEAVE,
    LS_BLOCK_LENGTH
};

/* Rows of a command's table of options. */
#define LS_DATA_OPTIONS                                                                                                \
    {"image-size", required_argument, NULL, LS_IMAGE_SIZE},                                                            \
        {"image-channels", required_argument, NULL, LS_IMAGE_CHANNELS},                                                \
        {"scaled-decode", no_argument, NULL, LS_SCALED_DECODE}, {"skip-damaged", no_argument, NULL, LS_SKIP_DAMAGED},  \
        {"interleave", required_argument, NULL, LS_INTERLEAVE},                                                        \
        {"block-length", required_argument, NULL, LS_BLOCK_LENGTH}, {"skip", required_argument, NULL, LS_SKIP}, {      \
        "data-workers", required_argument, NULL, LS_WORKERS                                                            \
    }

/* What --help says about them. */
#define LS_DATA_HELP                                                                                                   \
    "  --image-size N|HxW      resize images, as tf.image.resize does (default: the first image's size)\n"             \
    "  --image-channels 1|3    grey or colour (default: as the first image)\n"                                         \
    "  --scaled-decode         decode large JPEGs at 1/2, 1/4 or 1/8 before: faster, other pixels than TensorFlow's\n" \
    "  --skip-damaged          look through all images or records first and leave damaged ones out\n"                  \
    "  --skip N                leave out the first N examples of the training split\n"                                 \
    "  --interleave N          read N files in turn, --block-length examples from each (default 1), as tf.data\n"      \
    "  --data-workers N        threads that read and map examples; -1: none (default: as many as processors for "      \
    "images,\n"                                                                                                        \
    "                          else none)\n"

/* Puts the option that getopt has just read into options; false after the error has been printed. Other commands'
 * options are none of its business: true. */
bool ls_read_data_option(const struct ls_command_line *line, int option, ls_dataset_options *options);
