/* lockstep info of a file, behind tools.h: its model, layer by layer, or its variables. */
#include <lockstep/tools.h>
#include <stdio.h>

#include "base/json.h"
#include "base/memory.h"
#include "base/need.h"
#include "base/shape.h"
#include "base/status.h"
#include "base/text.h"
#include "model/summary.h"
#include "weights/read.h"

/* In quotes: a class may be a new line. */
static void tell_classes(FILE *out, const ls_tools_about *about) {
    for (int i = 0; i < about->class_count; i++) ls_json_print(out, "%-s%s", i ? ", " : "classes: ", about->classes[i]);
    if (about->class_count) (void)fputc('\n', out);
}

static void tell_facts(FILE *out, const ls_tools_about *about) {
    char shape[192];
    ls_shape_text(&about->input, shape, sizeof(shape));
    (void)fprintf(out, "input: %s%s\noutputs: %d\n", shape, about->integers ? " of ids" : "", about->outputs);
    if (about->loss) (void)fprintf(out, "loss: %s\n", about->loss);
    tell_classes(out, about);
    if (about->note) (void)fprintf(out, "note: %s\n", about->note);
}

static ls_status describe_layers(const ls_tools_about *about, const char *path, char **text) {
    LS_CLEANUP(ls_free_pointer) ls_layer *layers = NULL;
    LS_CLEANUP(ls_free_pointer) char *table = NULL;
    struct ls_network *network = NULL;
    size_t count = 0;
    ls_status status = ls_tools_about_layers(about, path, &layers, &count);
    if (status) return status;
    status = ls_network_new(layers, count, &about->input, &network);
    if (!status) status = ls_network_summary(network, &table);
    ls_network_free(network);
    if (status) return ls_fail_context(status, "'%s'", path);
    return LS_TEXT(out, (fputs(table, out), tell_facts(out, about)), "a description of a model", text);
}

static void tell_variables(FILE *out, const struct ls_weights *weights) {
    char shape[192];
    for (size_t i = 0; i < weights->count; i++) {
        const struct ls_weight *weight = &weights->items[i];
        ls_shape_text(&weight->shape, shape, sizeof(shape));
        (void)fprintf(out, "%s %s\n", weight->name, weight->unread[0] ? weight->unread : shape);
    }
}

static ls_status describe_variables(const char *path, char **text) {
    LS_CLEANUP(ls_weights_free) struct ls_weights weights = {0};
    ls_status status = ls_weights_read(path, &weights);
    return status ? status : LS_TEXT(out, tell_variables(out, &weights), "a list of variables", text);
}

ls_status ls_tools_describe_model(const char *path, char **text) {
    LS_NEED(path, text);
    ls_tools_about *about = NULL;
    ls_status status = ls_tools_about_file(path, &about);
    if (!status) status = about->layered ? describe_layers(about, path, text) : describe_variables(path, text);
    ls_tools_about_free(about);
    return status;
}
