/* lockstep predict: a saved model's outputs, as an array, a table or lines of JSON. */
#include <lockstep/tools.h>
#include <stdio.h>
#include <string.h>

#include "cli/commands.h"
#include "cli/config.h"
#include "cli/saved_model.h"
#include "cli/signals.h"

static const char about[] =
    "lockstep predict: write what a saved model says of each example, in their order\n"
    "\n"
    "usage: lockstep predict --weights WHAT --output FILE.npy|FILE.csv|FILE.jsonl [OPTIONS] [FILE|FOLDER...]\n"
    "\n"
    "Of the examples of --dataset; or of files without labels: images, folders with images in them and below them, "
    ".txt\n"
    "files with a path a line; or of one .npy or .npz of x, or one .csv.\n"
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
    ls_dataset *data; /* owns: it names the examples' files */
};

/* ---- formats ---- */

static int64_t width_of(const struct prediction *prediction) {
    return ls_outputs_width(&prediction->shape);
}

static int64_t rows_of(const struct prediction *prediction) {
    return ls_outputs_rows(&prediction->shape);
}

/* Rows of one example: more than one where the model has outputs for each position. */
static int64_t positions_of(const struct prediction *prediction) {
    return prediction->shape.dims[0] ? rows_of(prediction) / prediction->shape.dims[0] : 1;
}

static void put_npy(FILE *out, const struct prediction *prediction) {
    char header[256];
    int length = snprintf(header, sizeof(header), "{'descr': '<f4', 'fortran_order': False, 'shape': (");
    for (int i = 0; i < prediction->shape.rank; i++)
        length +=
            snprintf(header + length, sizeof(header) - (size_t)length, "%lld, ", (long long)prediction->shape.dims[i]);
    length += snprintf(header + length, sizeof(header) - (size_t)length, "), }");
    int padded = (10 + length + 1 + 63) / 64 * 64 - 10; /* the values begin at a multiple of 64 bytes */
    (void)fwrite("\x93NUMPY\x01\x00", 1, 8, out);
    (void)fputc(padded & 255, out);
    (void)fputc(padded >> 8, out);
    (void)fprintf(out, "%-*s\n", padded - 1, header);
    (void)fwrite(prediction->values, sizeof(float), (size_t)(rows_of(prediction) * width_of(prediction)), out);
}

static const char *name_of(const struct prediction *prediction, int64_t class) {
    const char *name = ls_saved_model_class(&prediction->saved, (int)class);
    return name ? name : "";
}

static bool has_paths(const struct prediction *prediction) {
    return ls_dataset_example_path(prediction->data, 0) != NULL;
}

static bool has_names(const struct prediction *prediction) {
    return prediction->saved.name_count && !prediction->numbers;
}

/* As RFC 4180 has it. */
static void put_csv_text(FILE *out, const char *text) {
    bool plain = !text[strcspn(text, ",\"\r\n")];
    (void)fputs(plain ? "," : ",\"", out);
    for (; *text; text++) (void)fprintf(out, !plain && *text == '"' ? "\"%c" : "%c", *text);
    if (!plain) (void)fputc('"', out);
}

static void put_csv_head(FILE *out, const struct prediction *prediction) {
    (void)fputs(positions_of(prediction) > 1 ? "example,position" : "example", out);
    if (has_paths(prediction)) (void)fputs(",file", out);
    if (!prediction->numbers) (void)fputs(",class", out);
    if (has_names(prediction)) (void)fputs(prediction->raw ? ",name" : ",name,probability", out);
    for (int64_t i = 0; i < width_of(prediction); i++) (void)fprintf(out, ",%lld", (long long)i);
    (void)fputc('\n', out);
}

static void put_csv(FILE *out, const struct prediction *prediction) {
    int64_t rows = rows_of(prediction), width = width_of(prediction), positions = positions_of(prediction);
    put_csv_head(out, prediction);
    for (int64_t r = 0; r < rows; r++) {
        const float *values = prediction->values + r * width;
        int64_t class = ls_outputs_class(values, width, prediction->raw);
        (void)fprintf(out, "%lld", (long long)(r / positions));
        if (positions > 1) (void)fprintf(out, ",%lld", (long long)(r % positions));
        if (has_paths(prediction)) put_csv_text(out, ls_dataset_example_path(prediction->data, r / positions));
        if (!prediction->numbers) (void)fprintf(out, ",%lld", (long long)class);
        if (has_names(prediction)) put_csv_text(out, name_of(prediction, class));
        if (has_names(prediction) && !prediction->raw)
            (void)fprintf(out, ",%.9g", ls_outputs_probability(values, width, class));
        for (int64_t i = 0; i < width; i++) (void)fprintf(out, ",%.9g", (double)values[i]);
        (void)fputc('\n', out);
    }
}

static void put_lines(FILE *out, const struct prediction *prediction) {
    int64_t rows = rows_of(prediction), width = width_of(prediction), positions = positions_of(prediction);
    for (int64_t r = 0; r < rows; r++) {
        const float *values = prediction->values + r * width;
        int64_t class = ls_outputs_class(values, width, prediction->raw);
        (void)fprintf(out, "{\"example\": %lld, ", (long long)(r / positions));
        if (positions > 1) (void)fprintf(out, "\"position\": %lld, ", (long long)(r % positions));
        if (has_paths(prediction))
            ls_tools_print_json(out, "'file': %s, ", ls_dataset_example_path(prediction->data, r / positions));
        if (!prediction->numbers) (void)fprintf(out, "\"class\": %lld, ", (long long)class);
        if (has_names(prediction)) ls_tools_print_json(out, "'name': %s, ", name_of(prediction, class));
        if (has_names(prediction) && !prediction->raw)
            (void)fprintf(out, "\"probability\": %.9g, ", ls_outputs_probability(values, width, class));
        (void)fputs("\"values\": [", out);
        for (int64_t i = 0; i < width; i++) ls_tools_print_json(out, "%-s%.9g", i ? ", " : "", (double)values[i]);
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

/* The name of the loss of the training, NULL if nobody says it. */
static const char *loss_of(const struct prediction *prediction) {
    const struct ls_saved_model *saved = &prediction->saved;
    if (saved->about && saved->about->loss) return saved->about->loss;
    return ls_option_given(saved->line, "loss") ? ls_rules_loss(&saved->model.rules) : NULL;
}

/* Several classes at once, or numbers, are no class. */
static void activate(struct prediction *prediction) {
    const char *loss = loss_of(prediction);
    if (prediction->raw || (prediction->numbers && !loss)) return;
    bool probable = ls_outputs_probable(loss, prediction->values, rows_of(prediction), width_of(prediction));
    prediction->numbers = prediction->numbers || !probable;
}

/* The targets are numbers, and no classes of positions. */
static bool compares_numbers(const struct prediction *prediction) {
    ls_shape shape;
    bool classes = ls_dataset_whole_classes(prediction->data) && prediction->shape.rank > 2;
    return ls_dataset_targets(prediction->data, &shape) && !classes;
}

static ls_status predict(struct prediction *prediction, ls_strategy *strategy) {
    ls_model *model = NULL;
    ls_status status = ls_is_chief(strategy) ? ls_tools_try_file("--output", prediction->output) : LS_OK;
    if (!status) status = ls_saved_model_open(&prediction->saved, strategy, &model, &prediction->data);
    if (!status) status = ls_model_predict(model, prediction->data, &prediction->values, &prediction->shape);
    if (!status) prediction->numbers = compares_numbers(prediction);
    if (!status) activate(prediction);
    ls_model_free(model);
    return status;
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
    ls_dataset_free(prediction->data);
    ls_saved_model_end(&prediction->saved);
    return ls_signals_exit(status);
}

#define AT(field) LS_OPTION_AT(struct prediction, field)

static const struct ls_option rows[] = {
    {"output", "FILE",
     ".npy: an array (examples, classes) of float32; .csv: example, file, class, its name and probability, and the "
     "values of all classes, in columns, of which those stay out that are not known; .jsonl: the same, a JSON object a "
     "line. A model with outputs for each position gives (examples, positions, classes), and a row or line each. A "
     "model that was trained with numbers gives its outputs as they are, and no class",
     AT(output)},
    {"loss", NULL,
     "of the training, where the weights do not say it: outputs become what it wants (default: the first)",
     AT(saved.model.rules.loss), LS_SPARSE_CATEGORICAL_CROSSENTROPY, .words = ls_rules_losses},
    {"raw", NULL,
     "the model's outputs as they are, and not probabilities (softmax of them; sigmoid after binary_crossentropy)",
     AT(raw), true},
    {0}};
static const struct ls_option_table tables[] = {
    LS_SAVED_TABLES, {"output", rows, 0}, {"configuration", ls_config_options, 0}, {0}};

int predict_main(int argc, char **argv) {
    struct ls_command_line line = {"lockstep predict", argc, argv, about, more, tables, 0};
    struct prediction prediction = {.output = NULL};
    ls_saved_model_begin(&prediction.saved);
    prediction.saved.any_loss = true;
    int code = ls_options_read(&line, &prediction);
    if (code >= 0) return code;
    prediction.saved.paths = (const char *const *)line.argv + line.next;
    prediction.saved.path_count = (size_t)(line.argc - line.next);
    for (int i = line.next; i < line.argc; i++)
        if (!strncmp(line.argv[i], "--", 2))
            return ls_usage_error(&line, "option '%s' stands behind a file", line.argv[i]);
    if (!ls_check_saved_options(&line, &prediction.saved)) return LS_EXIT_USAGE;
    if (!find_format(prediction.output))
        return ls_usage_error(&line, "--output needs a name that ends with .npy, .csv or .jsonl");
    if (!ls_check_weights(&line, prediction.saved.weights)) return LS_EXIT_USAGE;
    return run(&prediction);
}
