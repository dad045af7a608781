/* lockstep convert of weights, behind tools.h. */
#include <lockstep/tools.h>
#include <stdio.h>
#include <string.h>

#include "base/shape.h"
#include "base/memory.h"
#include "base/need.h"
#include "base/status.h"
#include "weights/arrays.h"
#include "weights/weights.h"

static ls_status tell_convert_weights(const struct ls_weights *weights, const char *to, char **text) {
    long long parameters = 0;
    size_t size = strlen(to) + 100;
    for (size_t i = 0; i < weights->count; i++) parameters += ls_shape_count(&weights->items[i].shape);
    char *made = ls_alloc(size);
    if (!made) return ls_fail_memory("a summary", size);
    (void)snprintf(made, size, "%s: %zu variables, %lld parameters", to, weights->count, parameters);
    *text = made;
    return LS_OK;
}

ls_status ls_tools_convert_weights(const char *from, const char *to, char **text) {
    LS_NEED(from, to, text);
    struct ls_weights weights;
    ls_status status = ls_weights_read(from, &weights);
    if (status) return status;
    status = ls_weights_arrays_write(to, &weights);
    if (!status) status = tell_convert_weights(&weights, to, text);
    ls_weights_free(&weights);
    return status;
}
