/* The classes of an example, or of each of its positions, as the loss compares them. */
#include <lockstep/tools.h>

#include "base/need.h"
#include "base/status.h"
#include "data/dataset.h"
#include "data/sources.h"
#include "data/targets.h"

ls_status ls_tools_labels(const ls_dataset *data, int64_t example, size_t count, int32_t *labels) {
    LS_NEED(data);
    const struct ls_source *source = data->source;
    bool become = source->targets.numbers && ls_dataset_whole_classes(data);
    int64_t width = ls_target_width(&source->targets);
    float weight;
    if ((source->targets.numbers && !become) || source->unlabelled)
        return ls_fail(LS_INVALID_ARGUMENT, "the %s dataset's examples have no classes", source->kind);
    if (!count) return LS_OK;
    LS_NEED(labels);
    if ((int64_t)count != width)
        return ls_fail(LS_INVALID_ARGUMENT, "an example has %lld classes, and the model outputs for %zu positions",
                       (long long)width, count);
    const struct ls_targets all = {.labels = labels, .weights = &weight};
    const struct ls_targets place = ls_targets_place(&all, become);
    ls_status status = ls_source_targets(source, data->options.skip + example, &place);
    return status || !become ? status : ls_targets_make_classes(&source->targets, &all, 1, count > 1);
}
