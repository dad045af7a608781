/* lockstep convert of weights, behind tools.h. */
#include <lockstep/tools.h>
#include <stdio.h>

#include "base/shape.h"
#include "base/need.h"
#include "base/text.h"
#include "weights/arrays.h"
#include "weights/weights.h"

static ls_status tell_totals(const struct ls_weights *weights, const char *to, char **text) {
    struct ls_text made;
    long long parameters = 0;
    for (size_t i = 0; i < weights->count; i++) parameters += ls_shape_count(&weights->items[i].shape);
    FILE *out = ls_text_open(&made, 0);
    if (out) (void)fprintf(out, "%s: %zu variables, %lld parameters", to, weights->count, parameters);
    return ls_text_close(&made, LS_OK, "a summary", text);
}

ls_status ls_tools_convert_weights(const char *from, const char *to, char **text) {
    LS_NEED(from, to, text);
    struct ls_weights weights;
    ls_status status = ls_weights_read(from, &weights);
    if (status) return status;
    status = ls_weights_arrays_write(to, &weights);
    if (!status) status = tell_totals(&weights, to, text);
    ls_weights_free(&weights);
    return status;
}
