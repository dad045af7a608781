/* Sources of every kind share this. */
#include "data/sources.h"

#include "base/new.h"
#include "base/shape.h"
#include "data/pixels.h"

const char *ls_source_class_name(const struct ls_source *source, int label) {
    bool named = source->ops->class_name && label >= 0 && label < source->classes;
    return named ? source->ops->class_name(source, label) : NULL;
}

ls_status ls_source_targets(const struct ls_source *source, int64_t index, const struct ls_targets *targets) {
    LS_CLEANUP(ls_free_pointer) uint8_t *bytes = NULL;
    LS_CLEANUP(ls_free_pointer) float *features = NULL;
    size_t size = (size_t)ls_shape_count(&source->shape) * sizeof(*features);
    if (source->ops->targets) return source->ops->targets(source, index, targets);
    if (source->ops->encoded) return source->ops->encoded(source, index, &bytes, &size, targets);
    features = ls_alloc_aligned(size);
    return features ? source->ops->read(source, index, features, targets) : ls_fail_memory("an example", size);
}

ls_status ls_source_bytes(const struct ls_source *source, int64_t index, uint8_t *features,
                          const struct ls_targets *targets) {
    size_t count = (size_t)ls_shape_count(&source->shape);
    if (source->ops->bytes) return source->ops->bytes(source, index, features, targets);
    LS_CLEANUP(ls_free_pointer) LS_NEW_ARRAY(float, values, count, "an example");
    ls_status status = source->ops->read(source, index, values, targets);
    if (!status) ls_pixels_from_unit(values, count, features);
    return status;
}

const char *ls_source_path(const struct ls_source *source, int64_t index) {
    return source->ops->path ? source->ops->path(source, index) : NULL;
}
