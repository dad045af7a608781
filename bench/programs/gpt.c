/* A GPT in Lockstep: tokens/s by the clock and by processor time, and peak memory, as one JSON line. Two steps before
 * are not timed. Activations are kept for backward, as torch keeps them. The tokens are a file of uint16, below
 * VOCABULARY.
 *
 * usage: gpt FILE VOCABULARY LAYERS HEADS WIDTH CONTEXT BATCH THREADS STEPS PRECISION, such as
 *        gpt tokens 65 4 4 128 64 12 1 100 float32 */
#include <lockstep/lockstep.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/resource.h>
#include <time.h>

struct bench {
    const char *file;
    int vocabulary, layers, heads, width;
    int64_t context, batch;
    int threads;
    int64_t steps;
    ls_precision precision;
    ls_strategy *strategy;
    ls_dataset *data;
    ls_model *model;
};

static ls_status make(struct bench *bench) {
    ls_layer *layers = NULL;
    size_t count = 0;
    ls_status st = ls_mirrored_strategy_new(LS_STRATEGY(.threads_per_replica = bench->threads), &bench->strategy);
    if (!st)
        st = ls_dataset_tokens(bench->file,
                               LS_DATASET(.tokens = LS_TOKENS_UINT16, .vocabulary = bench->vocabulary,
                                          .context = bench->context, .batch_size = bench->batch,
                                          .repeat = bench->steps + 2),
                               &bench->data);
    if (!st)
        st = ls_application("gpt",
                            LS_APPLICATION(.classes = bench->vocabulary, .layers = bench->layers, .heads = bench->heads,
                                           .width = bench->width),
                            &layers, &count);
    if (!st) st = ls_model_new(bench->strategy, layers, count, &bench->model);
    ls_memory_free(layers);
    return st ? st
              : ls_model_compile_with(bench->model, ls_adamw(1e-4F, .weight_decay = 0.1F),
                                      LS_SPARSE_CATEGORICAL_CROSSENTROPY,
                                      LS_COMPILE(.precision = bench->precision, .recompute = LS_RECOMPUTE_NONE));
}

static bool read_arguments(int count, char **arguments, struct bench *bench) {
    if (count != 11) return false;
    *bench = (struct bench){.file = arguments[1],
                            .vocabulary = atoi(arguments[2]),
                            .layers = atoi(arguments[3]),
                            .heads = atoi(arguments[4]),
                            .width = atoi(arguments[5]),
                            .context = atoll(arguments[6]),
                            .batch = atoll(arguments[7]),
                            .threads = atoi(arguments[8]),
                            .steps = 1 + atoll(arguments[9])};
    bool bfloat16 = !strcmp(arguments[10], "mixed_bfloat16");
    bench->precision = bfloat16 ? LS_MIXED_BFLOAT16 : LS_PRECISION_FLOAT32;
    return bfloat16 || !strcmp(arguments[10], "float32");
}

/* Of this process, in seconds. */
static double processor_time(void) {
    return (double)clock() / CLOCKS_PER_SEC;
}

int main(int count, char **arguments) {
    struct bench bench;
    struct rusage usage;
    ls_result result = {0};
    if (!read_arguments(count, arguments, &bench)) return 2;
    ls_status st = make(&bench);
    if (!st) st = ls_model_fit(bench.model, bench.data, LS_FIT(.verbose = -1, .steps_per_epoch = 2), &result);
    double before = processor_time();
    if (!st) st = ls_model_fit(bench.model, bench.data, LS_FIT(.verbose = -1, .steps_per_epoch = bench.steps), &result);
    double seconds = processor_time() - before, tokens = (double)(bench.steps * bench.batch * bench.context);
    if (!st && !getrusage(RUSAGE_SELF, &usage))
        (void)printf("{\"tokens_per_second\": %.6g, \"tokens_per_processor_second\": %.6g, \"peak_megabytes\": %ld, "
                     "\"loss\": %.6g}\n",
                     result.samples_per_second * (double)bench.context, tokens / seconds, usage.ru_maxrss / 1024,
                     result.loss);
    ls_model_free(bench.model);
    ls_dataset_free(bench.data);
    ls_strategy_free(bench.strategy);
    return ls_exit(st);
}
