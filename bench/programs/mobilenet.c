/* MobileNetV2 at 224 x 224 in Lockstep: images/s and peak memory, as one JSON line. The images lie in memory as
 * float32; the first step is not timed. With TF_CONFIG the images/s are those of all workers.
 *
 * usage: mobilenet BATCH-OF-A-WORKER THREADS STEPS */
#include <lockstep/lockstep.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/resource.h>

#define SIZE 224

struct bench {
    int64_t batch, steps;
    ls_strategy *strategy;
    ls_dataset *data;
    ls_model *model;
    float *images;
    int32_t *labels;
};

static ls_status fill(struct bench *bench) {
    size_t count = (size_t)bench->batch * SIZE * SIZE * 3;
    bench->images = malloc(count * sizeof(float));
    bench->labels = malloc((size_t)bench->batch * sizeof(int32_t));
    if (!bench->images || !bench->labels) return LS_RESOURCE_EXHAUSTED;
    for (size_t i = 0; i < count; i++) bench->images[i] = (float)(i * 2654435761U % 65536) / 32768.0F - 1;
    for (int64_t i = 0; i < bench->batch; i++) bench->labels[i] = (int32_t)(i % 2);
    return LS_OK;
}

static ls_status make(struct bench *bench, int threads) {
    ls_layer *layers = NULL;
    size_t count = 0;
    ls_status st = ls_multi_worker_mirrored_strategy_new(LS_STRATEGY(.devices = "1", .threads_per_replica = threads),
                                                         &bench->strategy);
    if (!st) bench->batch *= ls_num_replicas_in_sync(bench->strategy);
    if (!st) st = fill(bench);
    if (!st)
        st = ls_dataset_arrays(bench->images, LS_SHAPE(SIZE, SIZE, 3), bench->labels, bench->batch, 2,
                               LS_DATASET(.batch_size = bench->batch, .repeat = bench->steps), &bench->data);
    if (!st) st = ls_application("mobilenet_v2", LS_APPLICATION(.classes = 2), &layers, &count);
    if (!st) st = ls_model_new(bench->strategy, layers, count, &bench->model);
    ls_memory_free(layers);
    return st ? st : ls_model_compile(bench->model, ls_adam(0.001F), LS_SPARSE_CATEGORICAL_CROSSENTROPY);
}

int main(int count, char **arguments) {
    struct bench bench = {0};
    struct rusage usage;
    ls_result result = {0};
    if (count != 4) return 2;
    bench.batch = atoll(arguments[1]);
    bench.steps = 1 + atoll(arguments[3]);
    ls_status st = make(&bench, atoi(arguments[2]));
    if (!st) st = ls_model_fit(bench.model, bench.data, LS_FIT(.verbose = -1), &result);
    if (!st && !getrusage(RUSAGE_SELF, &usage))
        (void)printf("{\"images_per_second\": %.6g, \"peak_megabytes\": %ld, \"loss\": %.6g}\n",
                     result.samples_per_second, usage.ru_maxrss / 1024, result.loss);
    ls_model_free(bench.model);
    ls_dataset_free(bench.data);
    ls_strategy_free(bench.strategy);
    free(bench.images);
    free(bench.labels);
    return ls_exit(st);
}
