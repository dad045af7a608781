/* Reading the options about data. */
#include "cli/data_options.h"

#include <stdio.h>
#include <stdlib.h>

#define MAX_SIDE 65500

/* "224", or "224x320": height and width. */
static bool read_size(const struct ls_command_line *line, const char *text, ls_dataset_options *options) {
    int height = 0, width = 0, length = 0;
    if (sscanf(text, "%5dx%5d%n", &height, &width, &length) < 2) {
        length = 0;
        (void)sscanf(text, "%5d%n", &height, &length);
        width = height;
    }
    if (!length || text[length] || height < 1 || width < 1 || height > MAX_SIDE || width > MAX_SIDE)
        return ls_usage_error(line, "--image-size '%s' is no side such as 224 and no height and width such as 224x320",
                              text) == 0;
    options->image_height = height;
    options->image_width = width;
    return true;
}

bool ls_read_data_option(const struct ls_command_line *line, int option, ls_dataset_options *options) {
    int64_t value;
    switch (option) {
    case LS_IMAGE_SIZE:
        return read_size(line, optarg, options);
    case LS_IMAGE_CHANNELS:
        if (!ls_option_integer(line, "--image-channels", optarg, 1, 3, &value)) return false;
        if (value == 2) return ls_usage_error(line, "--image-channels is 1 or 3, not 2") == 0;
        options->image_channels = (int)value;
        return true;
    case LS_SKIP:
        return ls_option_integer(line, "--skip", optarg, 1, INT64_C(1) << 40, &options->skip);
    case LS_INTERLEAVE:
        return ls_option_integer(line, "--interleave", optarg, 1, 65536, &options->interleave);
    case LS_BLOCK_LENGTH:
        return ls_option_integer(line, "--block-length", optarg, 1, INT64_C(1) << 40, &options->block_length);
    case LS_WORKERS:
        if (!ls_option_integer(line, "--data-workers", optarg, -1, 64, &value)) return false;
        options->workers = (int)value;
        return true;
    case LS_SCALED_DECODE:
        options->scaled_decode = true;
        return true;
    case LS_SKIP_DAMAGED:
        options->damage = LS_DAMAGE_SKIPPED;
        return true;
    default:
        return true;
    }
}
