/* lockstep predict: a saved model's outputs, as an array, a table or lines of JSON. */
#include <errno.h>
#include <lockstep/lockstep.h>
#include <math.h>
#include <stdio.h>
#include <string.h>

#include "cli/commands.h"
#include "cli/saved_model.h"

static const char help[] =
    "lockstep predict: write what a saved model says of each example, in the order of the dataset\n"
    "\n"
    "usage: lockstep predict --weights WHAT --output FILE.npy|FILE.csv|FILE.jsonl [OPTIONS]\n"
    "\n"
    "  --output FILE           .npy: an array (examples, classes) of float32; .csv: example, class and the values of\n"
    "                          all classes in columns; .jsonl: the same, a JSON object a line\n"
    "  --raw                   the model's outputs as they are, and not probabilities (softmax of them)\n" LS_SAVED_HELP
    "  --help                  print this text\n"
    "\n"
    "With TF_CONFIG, or under lockstep run, the workers share the work; the chief writes.\n"
    "\n"
    "exit status: 0 done; 2 a bad command line or TF_CONFIG; 138 a peer was lost or a deadline passed; 1 anything "
    "else.\n";

enum { OUTPUT = LS_SAVED_END, RAW };
static const struct option long_options[] = {LS_SAVED_OPTIONS,
                                             {"output", required_argument, NULL, OUTPUT},
                                             {"raw", no_argument, NULL, RAW},
                                             {"help", no_argument, NULL, 'h'},
                                             {0}};

struct prediction {
    struct ls_saved_model saved;
    const char *output;
    bool raw;
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
    (void)fputs("example,class", out);
    for (int64_t i = 0; i < width; i++) (void)fprintf(out, ",%lld", (long long)i);
    for (int64_t r = 0; r < rows; r++) {
        const float *values = prediction->values + r * width;
        (void)fprintf(out, "\n%lld,%lld", (long long)r, (long long)largest(values, width));
        for (int64_t i = 0; i < width; i++) (void)fprintf(out, ",%.9g", (double)values[i]);
    }
    (void)fputc('\n', out);
}

static void put_lines(FILE *out, const struct prediction *prediction) {
    int64_t rows = prediction->shape.dims[0], width = prediction->shape.dims[1];
    for (int64_t r = 0; r < rows; r++) {
        const float *values = prediction->values + r * width;
        (void)fprintf(out, "{\"example\": %lld, \"class\": %lld, \"values\": [", (long long)r,
                      (long long)largest(values, width));
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

static int write_output(const struct prediction *prediction) {
    FILE *out = fopen(prediction->output, "we");
    if (out) find_format(prediction->output)(out, prediction);
    bool failed = !out || ferror(out);
    if (out && fclose(out)) failed = true;
    if (failed) (void)fprintf(stderr, "lockstep predict: cannot write '%s': %s\n", prediction->output, strerror(errno));
    return failed;
}

/* ---- the command ---- */

static ls_status predict(struct prediction *prediction, ls_strategy *strategy) {
    ls_dataset *data = NULL;
    ls_model *model = NULL;
    ls_status status = ls_saved_model_open(&prediction->saved, strategy, &model, &data);
    if (!status) status = ls_model_predict(model, data, &prediction->values, &prediction->shape);
    ls_model_free(model);
    ls_dataset_free(data);
    if (status || prediction->raw) return status;
    int64_t width = prediction->shape.dims[1];
    for (int64_t r = 0; r < prediction->shape.dims[0]; r++) softmax(prediction->values + r * width, width);
    return LS_OK;
}

static int run(struct prediction *prediction) {
    ls_strategy *strategy = NULL;
    ls_status status = ls_multi_worker_mirrored_strategy_new(&prediction->saved.strategy, &strategy);
    if (status) return ls_exit(status);
    status = predict(prediction, strategy);
    bool chief = ls_is_chief(strategy);
    status = ls_strategy_close(strategy, status);
    int failed = !status && chief ? write_output(prediction) : 0;
    ls_memory_free(prediction->values);
    return failed ? failed : ls_exit(status);
}

int predict_main(int argc, char **argv) {
    const struct ls_command_line line = {"lockstep predict", argc, argv, "h", long_options};
    struct prediction prediction = {.output = NULL};
    ls_saved_model_begin(&prediction.saved);
    for (int option; (option = ls_next_option(&line)) != LS_OPTION_END;) {
        if (option == 'h') return fputs(help, stdout) < 0;
        if (option == LS_OPTION_BAD || !ls_read_saved_option(&line, option, &prediction.saved)) return LS_EXIT_USAGE;
        if (option == OUTPUT) prediction.output = optarg;
        if (option == RAW) prediction.raw = true;
    }
    if (!ls_no_arguments(&line) || !ls_check_saved_options(&line, &prediction.saved)) return LS_EXIT_USAGE;
    if (!find_format(prediction.output))
        return ls_usage_error(&line, "--output needs a name that ends with .npy, .csv or .jsonl");
    return run(&prediction);
}
