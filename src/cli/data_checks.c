/* The options, compared with what the source has made of them. */
#include "cli/commands.h"

#include <lockstep/tools.h>
#include <stdio.h>
#include <string.h>

enum { MOST_LABELS = 1000, MOST_SAMPLES = 100 };

static ls_status refuse_option(const char *option, const char *dataset, const ls_shape *shape) {
    char dims[256] = "";
    for (int i = 0, used = 0; i < shape->rank; i++)
        used += snprintf(dims + used, sizeof(dims) - (size_t)used, i ? ", %lld" : "%lld", (long long)shape->dims[i]);
    return ls_tools_fail(LS_INVALID_ARGUMENT,
                         "--%s: the examples of '%.200s' have shape (%s), and stay as they are: leave the option out",
                         option, dataset, dims);
}

ls_status ls_check_pictures(const char *dataset, const ls_dataset_options *options, bool symmetric,
                            const ls_dataset *data) {
    const ls_shape shape = ls_dataset_shape(data);
    bool picture = shape.rank == 3;
    if (options->image_height && !(picture && shape.dims[0] == options->image_height &&
                                   (!options->image_width || shape.dims[1] == options->image_width)))
        return refuse_option("image-size", dataset, &shape);
    if (options->image_channels && !(picture && shape.dims[2] == options->image_channels))
        return refuse_option("image-channels", dataset, &shape);
    return symmetric && !picture ? refuse_option("symmetric", dataset, &shape) : LS_OK;
}

void ls_tell_one_class(const ls_dataset *data) {
    int64_t count = ls_dataset_count(data), most = count < MOST_LABELS ? count : MOST_LABELS;
    int32_t first = 0, label = 0;
    if (ls_dataset_num_classes(data) < 2 || count < 2) return;
    if (ls_dataset_label(data, 0, &first)) return;
    label = first;
    for (int64_t i = 1; i < most && label == first; i++)
        if (ls_dataset_label(data, (count - 1) * i / (most - 1), &label)) return;
    const char *name = ls_dataset_class_name(data, first);
    if (label != first) return;
    (void)fprintf(stderr,
                  "lockstep train: warning: all examples that were looked at are of class %d%s%s%s: --limit takes the "
                  "first ones of their files; --steps-per-epoch N takes as few, of all classes\n",
                  (int)first, name ? " ('" : "", name ? name : "", name ? "')" : "");
}

void ls_tell_hints(const ls_dataset *data) {
    char *text = NULL, *rest = NULL;
    if (ls_tools_hints(data, MOST_SAMPLES, &text) || !text) return; /* the training says what cannot be read */
    for (char *line = strtok_r(text, "\n", &rest); line; line = strtok_r(NULL, "\n", &rest))
        (void)fprintf(stderr, "lockstep train: warning: %s\n", line);
    ls_memory_free(text);
}
