/* Draws and checks that stages share. */
#include "data/stage.h"

#include <string.h>

#include "base/shape.h"
#include "base/status.h"

float ls_stage_uniform(uint32_t word) {
    return (float)(word >> 8) * 0x1p-24F;
}

float ls_stage_between(uint32_t word, const float range[2]) {
    return range[0] + ls_stage_uniform(word) * (range[1] - range[0]);
}

int64_t ls_stage_below(uint32_t word, int64_t limit) {
    return (int64_t)((uint64_t)word * (uint64_t)limit >> 32);
}

ls_status ls_stage_copy(const struct ls_stage *stage) {
    memcpy(stage->output, stage->input, (size_t)ls_shape_count(stage->shape) * sizeof(*stage->output));
    return LS_OK;
}

ls_status ls_stage_check_range(const char *name, const float range[2], float low, float high) {
    if (range[0] >= low && range[0] <= range[1] && range[1] <= high) return LS_OK;
    return ls_fail(LS_INVALID_ARGUMENT, "its %s is {%g, %g}: give a lower and an upper number in [%g, %g]", name,
                   (double)range[0], (double)range[1], (double)low, (double)high);
}
