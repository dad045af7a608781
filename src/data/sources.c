/* Sources of every kind share this. */
#include "data/sources.h"

const char *ls_source_class_name(const struct ls_source *source, int label) {
    bool named = source->ops->class_name && label >= 0 && label < source->classes;
    return named ? source->ops->class_name(source, label) : NULL;
}
