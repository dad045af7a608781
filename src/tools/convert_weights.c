/* lockstep convert of weights, behind tools.h. */
#include <lockstep/tools.h>
#include <stdio.h>

#include "base/memory.h"
#include "base/shape.h"
#include "base/need.h"
#include "base/text.h"
#include "data/files.h"
#include "weights/arrays.h"
#include "weights/huggingface.h"
#include "weights/huggingface_folder.h"
#include "weights/read.h"

static ls_status tell_totals(const struct ls_weights *weights, const char *to, char **text) {
    long long parameters = 0;
    for (size_t i = 0; i < weights->count; i++) parameters += ls_shape_count(&weights->items[i].shape);
    return LS_TEXT(out, fprintf(out, "%s: %zu variables, %lld parameters", to, weights->count, parameters), "a summary",
                   text);
}

/* An archive of arrays has no text that says its format. A path without an ending of weights is a folder's. */
static ls_status write_huggingface(const char *from, const char *to, struct ls_weights *weights) {
    if (ls_files_has_ending(to, ".npz") || ls_files_has_ending(to, ".h5") || ls_files_has_ending(to, ".keras"))
        return ls_fail(LS_INVALID_ARGUMENT, "'%s': Hugging Face's weights are written as .safetensors, or a folder",
                       to);
    if (!ls_files_has_ending(to, ".safetensors")) return ls_huggingface_folder_write(from, to, weights);
    ls_status status = ls_huggingface_write(from, weights);
    return status ? status : ls_weights_arrays_write(to, weights);
}

ls_status ls_tools_convert_weights(const char *from, const char *to, bool huggingface, char **text) {
    LS_NEED(from, to, text);
    LS_CLEANUP(ls_weights_free) struct ls_weights weights = {0};
    ls_status status = ls_weights_read(from, &weights);
    if (!status) status = ls_huggingface_read(from, &weights);
    if (!status) status = huggingface ? write_huggingface(from, to, &weights) : ls_weights_arrays_write(to, &weights);
    return status ? status : tell_totals(&weights, to, text);
}
