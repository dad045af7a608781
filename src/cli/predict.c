/* lockstep predict: a saved model's outputs, as an array, a table or lines of JSON. */
#include <lockstep/tools.h>
#include <math.h>
#include <stdio.h>
#include <string.h>

#include "cli/commands.h"
#include "cli/saved_model.h"
#include "cli/signals.h"

static const char about[] =
    "lockstep predict: write what a saved model says of each example, in the order of the dataset\n"
    "\n"
    "usage: lockstep predict --weights WHAT --output FILE.npy|FILE.csv|FILE.jsonl [OPTIONS]\n"
    "\n"
    "With TF_CONFIG, or under lockstep run, the workers share the work; the chief writes.\n";
static const char more[] =
    "signals:\n" LS_SIGNALS_HELP "\n"
    "exit status: 0 done; 2 a bad command line or TF_CONFIG; 138 a peer was lost or a deadline passed; 143 stopped by\n"
    "SIGTERM, 130 by SIGINT; 1 anything else.\n";

struct prediction {
    struct ls_saved_model saved;
    const char *output;
    bool raw, numbers; /* numbers: the predictions are no classes */
    float *values;
    ls_shape shape;
};

static void softmax(float *values, int64_t count) {
    double most = (double)values[0], sum = 0;
    for (int64_t i = 1; i < count; i++) most = fmax(most, (double)values[i]);
    for (int64_t i = 0; i < count; i++) sum += exp((double)values[i] - most);
    for (int64_t i = 0; i < count; i++) values[i] = (float)(exp((double)values[i] - most) / sum);
}

static int64_t largest(const float *values, int64_t count) {
    int64_t best = 0;
    for (int64_t i = 1; i < count; i++)
        if (values[i] > values[best]) best = i;
    return best;
}

/* ---- formats ---- */

static void put_npy(FILE *out, const struct prediction *prediction) {
    char header[128];
    int length = snprintf(header, sizeof(header), "{'descr': '<f4', 'fortran_order': False, 'shape': (%lld, %lld), }",
                          (long long)prediction->shape.dims[0], (long long)prediction->shape.dims[1]);
    int padded = (10 + length + 1 + 63) / 64 * 64 - 10; /* the values begin at a multiple of 64 bytes */
    (void)fwrite("\x93NUMPY\x01\x00", 1, 8, out);
    (void)fputc(padded & 255, out);
    (void)fputc(padded >> 8, out);
    (void)fprintf(out, "%-*s\n", padded - 1, header);
    (void)fwrite(prediction->values, sizeof(float), (size_t)(prediction->shape.dims[0] * prediction->shape.dims[1]),
                 out);
}

static void put_csv(FILE *out, const struct prediction *prediction) {
    int64_t rows = prediction->shape.dims[0], width = prediction->shape.dims[1];
    (void)fputs(prediction->numbers ? "example" : "example,class", out);
    for (int64_t i = 0; i < width; i++) (void)fprintf(out, ",%lld", (long long)i);
    for (int64_t r = 0; r < rows; r++) {
        const float *values = prediction->values + r * width;
        (void)fprintf(out, "\n%lld", (long long)r);
        if (!prediction->numbers) (void)fprintf(out, ",%lld", (long long)largest(values, width));
        for (int64_t i = 0; i < width; i++) (void)fprintf(out, ",%.9g", (double)values[i]);
    }
    (void)fputc('\n', out);
}

static void put_lines(FILE *out, const struct prediction *prediction) {
    int64_t rows = prediction->shape.dims[0], width = prediction->shape.dims[1];
    for (int64_t r = 0; r < rows; r++) {
        const float *values = prediction->values + r * width;
        (void)fprintf(out, "{\"example\": %lld, ", (long long)r);
        if (!prediction->numbers) (void)fprintf(out, "\"class\": %lld, ", (long long)largest(values, width));
        (void)fputs("\"values\": [", out);
        for (int64_t i = 0; i < width; i++)
            (void)fprintf(out, isfinite(values[i]) ? "%s%.9g" : "%snull", i ? ", " : "", (double)values[i]);
        (void)fputs("]}\n", out);
    }
}

typedef void put_fn(FILE *out, const struct prediction *prediction);

static put_fn *find_format(const char *path) {
    static const struct {
        const char *ending;
        put_fn *put;
    } formats[] = {{".npy", put_npy}, {".csv", put_csv}, {".jsonl", put_lines}};
    const char *ending = path ? strrchr(path, '.') : NULL;
    for (size_t i = 0; ending && i < sizeof(formats) / sizeof(formats[0]); i++)
        if (!strcmp(ending, formats[i].ending)) return formats[i].put;
    return NULL;
}

static void put_output(void *context, FILE *out) {
    const struct prediction *prediction = context;
    find_format(prediction->output)(out, prediction);
}

/* ---- the command ---- */

static ls_status predict(struct prediction *prediction, ls_strategy *strategy) {
    ls_dataset *data = NULL;
    ls_model *model = NULL;
    ls_status status = ls_is_chief(strategy) ? ls_tools_try_file("--output", prediction->output) : LS_OK;
    if (!status) status = ls_saved_model_open(&prediction->saved, strategy, &model, &data);
    if (!status) prediction->numbers = ls_dataset_targets(data, &prediction->shape);
    if (!status) status = ls_model_predict(model, data, &prediction->values, &prediction->shape);
    ls_model_free(model);
    ls_dataset_free(data);
    if (status || prediction->raw || prediction->numbers) return status;
    int64_t width = prediction->shape.dims[1];
    for (int64_t r = 0; r < prediction->shape.dims[0]; r++) softmax(prediction->values + r * width, width);
    return LS_OK;
}

static int run(struct prediction *prediction) {
    ls_strategy *strategy = NULL;
    ls_signals_install(false);
    ls_status status = ls_multi_worker_mirrored_strategy_new(&prediction->saved.strategy, &strategy);
    if (status) return ls_signals_exit(status);
    status = predict(prediction, strategy);
    bool chief = ls_is_chief(strategy);
    status = ls_strategy_close(strategy, status);
    if (!status && chief) status = ls_tools_write_file("--output", prediction->output, put_output, prediction);
    ls_memory_free(prediction->values);
    return ls_signals_exit(status);
}

#define AT(field) LS_OPTION_AT(struct prediction, field)

static const struct ls_option rows[] = {
    {"output", "FILE",
     ".npy: an array (examples, classes) of float32; .csv: example, class and the values of all classes in columns; "
     ".jsonl: the same, a JSON object a line. Where the dataset's y are numbers: the outputs as they are, and no class",
     AT(output)},
    {"raw", NULL, "the model's outputs as they are, and not probabilities (softmax of them)", AT(raw), true},
    {0}};
static const struct ls_option_table tables[] = {LS_SAVED_TABLES, {"output", rows, 0}, {0}};

int predict_main(int argc, char **argv) {
    struct ls_command_line line = {"lockstep predict", argc, argv, about, more, tables, 0};
    struct prediction prediction = {.output = NULL};
    ls_saved_model_begin(&prediction.saved);
    prediction.saved.any_loss = true;
    int code = ls_options_read(&line, &prediction);
    if (code >= 0) return code;
    if (!ls_no_arguments(&line) || !ls_check_saved_options(&line, &prediction.saved)) return LS_EXIT_USAGE;
    if (!find_format(prediction.output))
        return ls_usage_error(&line, "--output needs a name that ends with .npy, .csv or .jsonl");
    return run(&prediction);
}
