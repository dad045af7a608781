/* The writer of that object; src/tools/about_weights.c reads it. */
#include "train/about.h"

#include <math.h>
#include <stdio.h>
#include <string.h>

#include "base/json.h"
#include "base/memory.h"
#include "base/need.h"
#include "base/text.h"
#include "model/layer_json.h"

static void put_classes(FILE *out, const ls_dataset *data) {
    for (int i = 0; i < ls_dataset_num_classes(data); i++)
        ls_json_print(out, "%-s%s", i ? ", " : "[", ls_dataset_class_name(data, i));
    (void)fputc(']', out);
}

ls_status ls_about_keep_text(const char *text, const char *what, char **kept) {
    char *copy = text ? ls_strdup(text) : NULL;
    if (text && !copy) return ls_fail_memory(what, strlen(text));
    ls_free(*kept);
    *kept = copy;
    return LS_OK;
}

ls_status ls_about_keep_data(ls_model *model, const ls_dataset *data) {
    /* one that was trained without a table has none */
    ls_status status = ls_about_keep_text(ls_dataset_transform(data), "a transform", &model->spec.transform);
    if (status) return status;
    char *classes = NULL;
    struct ls_text made;
    if (!ls_dataset_class_name(data, 0)) return LS_OK;
    FILE *out = ls_text_open(&made, 1);
    if (out) put_classes(out, data);
    status = ls_text_close(&made, LS_OK, "a description of the model", &classes);
    if (status) return status;
    ls_free(model->spec.classes);
    model->spec.classes = classes;
    return LS_OK;
}

static void put_last(FILE *out, const ls_result *last) {
    const struct {
        const char *name;
        double value;
    } numbers[] = {{"loss", last->loss},
                   {"accuracy", last->accuracy},
                   {"val_loss", last->val_loss},
                   {"val_accuracy", last->val_accuracy}};
    (void)fprintf(out, ", \"last\": {\"steps\": %lld", (long long)last->steps);
    for (size_t i = 0; i < sizeof(numbers) / sizeof(numbers[0]); i++)
        if (isfinite(numbers[i].value)) ls_json_print(out, ", %s: %.9g", numbers[i].name, numbers[i].value);
    (void)fputc('}', out);
}

static void put_json(FILE *out, const ls_model *model) {
    const ls_shape *input = &model->built.input;
    (void)fputs("{\"input\": [", out);
    for (int i = 0; i < input->rank; i++) (void)fprintf(out, i ? ", %lld" : "%lld", (long long)input->dims[i]);
    ls_json_print(out, "], 'integers': %i, 'outputs': %lld", ls_network_takes_integers(model->built.network),
                  (long long)ls_network_outputs(model->built.network));
    bool compiled = model->spec.compiled && !model->spec.implied;
    const char *loss = compiled ? ls_objective_loss_name(model->spec.objective.loss) : model->spec.loss;
    if (loss) ls_json_print(out, ", 'loss': %s", loss);
    if (model->spec.classes) (void)fprintf(out, ", \"classes\": %s", model->spec.classes);
    if (model->spec.transform) (void)fprintf(out, ", \"transform\": %s", model->spec.transform);
    if (model->spec.note) ls_json_print(out, ", 'note': %s", model->spec.note);
    if (model->spec.last.steps) put_last(out, &model->spec.last);
    (void)fputs(", \"" LS_LAYERS_MEMBER "\": ", out);
    ls_layer_json_write(model->built.network, out);
    (void)fputc('}', out);
}

ls_status ls_about_write(const ls_model *model, char **text) {
    struct ls_text made;
    FILE *out = ls_text_open(&made, 1);
    if (out) put_json(out, model);
    return ls_text_close(&made, LS_OK, "a description of the model", text);
}

ls_status ls_about_keep(ls_model *model, const char **text) {
    char *made = NULL;
    ls_status status = ls_about_write(model, &made);
    if (status) return status;
    ls_free(model->spec.about);
    *text = model->spec.about = made;
    return LS_OK;
}

ls_status ls_model_note(ls_model *model, const char *note) {
    LS_NEED(model, note);
    return ls_about_keep_text(*note ? note : NULL, "a note", &model->spec.note);
}
