/* The number of classes, counted from labels where no option says it. One wrong label could make a model of any size.
 */
#pragma once
#include <lockstep/lockstep.h>

#include "data/dataset.h"

#define LS_MAX_CLASSES (1 << 24) /* labels are below */

struct ls_class_count {
    uint8_t *seen;                        /* owns; a bit a class */
    int64_t occurring, greatest, example; /* classes; the greatest label, and the first example that has it */
};
ls_status ls_class_count_new(struct ls_class_count *count);
/* label is from 0 to below LS_MAX_CLASSES. */
void ls_class_count_add(struct ls_class_count *count, int64_t label, int64_t example);
/* Goes on with the next example's number; false at one that is no class. Of several an example, -1 is a position that
 * does not count. */
bool ls_class_count_number(struct ls_whole_numbers *whole, int64_t example, float value, bool several);
/* Frees count. With LS_OK fills in what source knows of classes: INVALID_ARGUMENT, naming the example, where they are
 * more than LOCKSTEP_MAX_CLASSES. Returns status, or its own. */
ls_status ls_class_count_end(struct ls_class_count *count, ls_status status, const char *path,
                             struct ls_source *source);
