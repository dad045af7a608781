/* Counting by a bit a class. */
#include "data/class_count.h"

#include "base/memory.h"
#include "base/settings.h"
#include "base/status.h"

#define UNCOUNTED (-1.0F)

ls_status ls_class_count_new(struct ls_class_count *count) {
    *count = (struct ls_class_count){.seen = ls_alloc_array(LS_MAX_CLASSES / 8, 1), .greatest = -1};
    return count->seen ? LS_OK : ls_fail_memory("the classes of a dataset", LS_MAX_CLASSES / 8);
}

void ls_class_count_add(struct ls_class_count *count, int64_t label, int64_t example) {
    uint8_t *byte = &count->seen[label / 8], bit = (uint8_t)(1U << label % 8);
    count->occurring += !(*byte & bit);
    *byte |= bit;
    if (label <= count->greatest) return;
    count->greatest = label;
    count->example = example;
}

bool ls_class_count_number(struct ls_whole_numbers *whole, int64_t example, float value, bool several) {
    if (several && value == UNCOUNTED) {
        whole->uncounted = true;
        return true;
    }
    if (!(value >= 0 && value < (float)LS_MAX_CLASSES && value == (float)(int)value)) {
        *whole = (struct ls_whole_numbers){0, example, value};
        return false;
    }
    if ((int)value >= whole->classes) whole->classes = (int)value + 1;
    return true;
}

ls_status ls_class_count_end(struct ls_class_count *count, ls_status status, const char *path,
                             struct ls_source *source) {
    struct ls_settings settings;
    ls_free(ls_steal(count->seen));
    if (!status) status = ls_settings_read(&settings);
    if (status) return status;
    source->classes = (int)(count->greatest < 0 ? 1 : count->greatest + 1);
    source->occurring = count->occurring;
    source->greatest_at = count->example;
    if (source->classes <= settings.max_classes) return LS_OK;
    return ls_fail(LS_INVALID_ARGUMENT,
                   "'%s': example %lld has label %lld, which makes %d classes, of which %lld occur; at most %lld are "
                   "possible (LOCKSTEP_MAX_CLASSES)",
                   path, (long long)count->example, (long long)count->greatest, source->classes,
                   (long long)count->occurring, (long long)settings.max_classes);
}
