/* A model of images in Lockstep: images/s, peak memory of the host, and memory of the first device as planned and as it
 * was at the most (0: it does not tell), as one JSON line. The images lie in
 * memory as float32. Three steps before are not timed.
 * With TF_CONFIG the images/s are those of all workers.
 *
 * usage: images MODEL DEVICES PRECISION BATCH-OF-A-WORKER THREADS STEPS [CLASSES [IMAGE-SIZE]], such as
 *        images mobilenet_v2 1 float32 32 1 8, or images resnet50 gpu:0 mixed_bfloat16 256 1 50 1000 */
#include <lockstep/lockstep.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/resource.h>

#define SIZE 224 /* of the images, unless it is given */

struct bench {
    const char *name, *devices;
    ls_precision precision;
    int64_t batch, steps;
    int threads, classes, size;
    ls_strategy *strategy;
    ls_dataset *data;
    ls_model *model;
    float *images;
    int32_t *labels;
};

static ls_status fill(struct bench *bench) {
    size_t count = (size_t)bench->batch * (size_t)bench->size * (size_t)bench->size * 3;
    bench->images = malloc(count * sizeof(float));
    bench->labels = malloc((size_t)bench->batch * sizeof(int32_t));
    if (!bench->images || !bench->labels) return LS_RESOURCE_EXHAUSTED;
    for (size_t i = 0; i < count; i++) bench->images[i] = (float)(i * 2654435761U % 65536) / 32768.0F - 1;
    for (int64_t i = 0; i < bench->batch; i++) bench->labels[i] = (int32_t)(i % bench->classes);
    return LS_OK;
}

static ls_status make(struct bench *bench) {
    ls_layer *layers = NULL;
    size_t count = 0;
    ls_status st = ls_multi_worker_mirrored_strategy_new(
        LS_STRATEGY(.devices = bench->devices, .threads_per_replica = bench->threads), &bench->strategy);
    if (!st) bench->batch *= ls_num_replicas_in_sync(bench->strategy);
    if (!st) st = fill(bench);
    if (!st)
        st = ls_dataset_arrays(bench->images, LS_SHAPE(bench->size, bench->size, 3), bench->labels, bench->batch,
                               bench->classes, LS_DATASET(.batch_size = bench->batch, .repeat = bench->steps),
                               &bench->data);
    if (!st) st = ls_application(bench->name, LS_APPLICATION(.classes = bench->classes), &layers, &count);
    if (!st) st = ls_model_new(bench->strategy, layers, count, &bench->model);
    ls_memory_free(layers);
    return st ? st
              : ls_model_compile_with(bench->model, ls_adam(0.001F), LS_SPARSE_CATEGORICAL_CROSSENTROPY,
                                      LS_COMPILE(.precision = bench->precision));
}

/* The program's own arguments; false for too few, or for a precision that it does not know. */
static bool read_arguments(int count, char **arguments, struct bench *bench) {
    static const char *const precisions[] = {[LS_PRECISION_FLOAT32] = "float32",
                                             [LS_PRECISION_TF32] = "tf32",
                                             [LS_MIXED_BFLOAT16] = "mixed_bfloat16",
                                             [LS_MIXED_FLOAT16] = "mixed_float16"};
    if (count < 7 || count > 9) return false;
    *bench = (struct bench){.name = arguments[1],
                            .devices = arguments[2],
                            .batch = atoll(arguments[4]),
                            .steps = 1 + atoll(arguments[6]),
                            .threads = atoi(arguments[5]),
                            .classes = count > 7 ? atoi(arguments[7]) : 2,
                            .size = count > 8 ? atoi(arguments[8]) : SIZE};
    for (size_t i = 0; i < sizeof(precisions) / sizeof(precisions[0]); i++) {
        bench->precision = (ls_precision)i;
        if (!strcmp(precisions[i], arguments[3])) return bench->classes > 0 && bench->size > 0;
    }
    return false;
}

static double megabytes(int64_t bytes) {
    return (double)bytes / (1 << 20);
}

int main(int count, char **arguments) {
    struct bench bench;
    struct rusage usage;
    ls_result result = {0};
    if (!read_arguments(count, arguments, &bench)) return 2;
    ls_status st = make(&bench);
    if (!st) st = ls_model_fit(bench.model, bench.data, LS_FIT(.verbose = -1, .steps_per_epoch = 2), &result);
    if (!st) st = ls_model_fit(bench.model, bench.data, LS_FIT(.verbose = -1), &result);
    if (!st && !getrusage(RUSAGE_SELF, &usage))
        (void)printf("{\"images_per_second\": %.6g, \"peak_megabytes\": %ld, \"loss\": %.6g, "
                     "\"arena_megabytes\": %.6g, \"planned_megabytes\": %.6g, \"allocated_megabytes\": %.6g}\n",
                     result.samples_per_second, usage.ru_maxrss / 1024, result.loss, megabytes(result.arena_bytes),
                     megabytes(result.planned_bytes), megabytes(result.peak_bytes));
    ls_model_free(bench.model);
    ls_dataset_free(bench.data);
    ls_strategy_free(bench.strategy);
    free(bench.images);
    free(bench.labels);
    return ls_exit(st);
}
