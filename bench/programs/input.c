/* Reads images for so many seconds as a training would, and prints how many came for a second of processor
 * time, which other programs on the machine do not change much: one JSON line.
 *
 * usage: input DATASET SIDE WORKERS SECONDS [scaled]   (WORKERS: threads beside the caller's; -1: the caller reads) */
#include <lockstep/lockstep.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

#define BATCH 32

/* Seconds of a clock. */
static double now(clockid_t clock) {
    struct timespec time;
    (void)clock_gettime(clock, &time);
    return (double)time.tv_sec + 1e-9 * (double)time.tv_nsec;
}

struct sums {
    ls_iterator *iterator;
    int64_t images;
    double first; /* of the last batch, so that nothing is left out as useless */
};

static ls_status take(ls_replica *replica, void *context) {
    struct sums *sums = context;
    ls_batch batch;
    ls_status status = ls_iterator_batch(sums->iterator, replica, &batch);
    if (status) return status;
    sums->images += batch.rows;
    sums->first = (double)batch.features[0];
    return LS_OK;
}

/* Batches until so many seconds have passed. */
static ls_status read_for(ls_strategy *strategy, struct sums *sums, double seconds) {
    ls_status status = LS_OK;
    for (double end = now(CLOCK_MONOTONIC) + seconds; now(CLOCK_MONOTONIC) < end && !status;) {
        bool over = true;
        status = ls_iterator_next(sums->iterator, &over);
        if (!status && !over) status = ls_strategy_run(strategy, take, sums);
    }
    return status;
}

int main(int argc, char **argv) {
    if (argc < 5) return fprintf(stderr, "usage: input DATASET SIDE WORKERS SECONDS [scaled]\n") < 0 ? 1 : 2;
    int side = atoi(argv[2]);
    double seconds = atof(argv[4]), begun;
    ls_strategy *strategy = NULL;
    ls_dataset *dataset = NULL;
    struct sums sums = {0};
    ls_status status = ls_one_device_strategy_new("cpu:0", &strategy);
    if (!status)
        status = ls_dataset_open(argv[1],
                                 LS_DATASET(.batch_size = BATCH, .image_height = side, .image_width = side,
                                            .image_channels = 3, .workers = atoi(argv[3]),
                                            .scaled_decode = argc > 5 && !strcmp(argv[5], "scaled")),
                                 &dataset);
    if (!status) status = ls_iterator_new(strategy, dataset, &sums.iterator);
    if (!status) status = read_for(strategy, &sums, seconds / 5);
    sums.images = 0;
    begun = now(CLOCK_PROCESS_CPUTIME_ID);
    if (!status) status = read_for(strategy, &sums, seconds);
    if (!status)
        (void)printf("{\"images_per_second\": %.2f, \"first\": %g}\n",
                     (double)sums.images / (now(CLOCK_PROCESS_CPUTIME_ID) - begun), sums.first);
    ls_iterator_free(sums.iterator);
    ls_dataset_free(dataset);
    return ls_exit(ls_strategy_close(strategy, status));
}
