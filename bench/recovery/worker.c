/* One worker of bench/recovery on Lockstep's side: the MLP 784-128-64-10 on random data, a step a period. An epoch is
 * one step, so that on_epoch sees every step as soon as it is committed, and sleeps until the period is over.
 *
 * usage: worker LOG STEPS PERIOD [CHECKPOINT]     PERIOD in seconds; CHECKPOINT, a folder, is written every 20 steps
 *
 * LOG-RANK-PID receives lines of monotonic seconds and what happened: "loaded", before the other workers are asked for;
 * "training", before the training and what restores it; then the number of each step. */
#include <fcntl.h>
#include <lockstep/lockstep.h>
#include <stdio.h>
#include <stdlib.h>
#include <time.h>
#include <unistd.h>

enum { INPUTS = 784, CLASSES = 10, BATCH = 64, ROWS = 640, CHECKPOINT_STEPS = 20 };

struct log {
    int file;
    double period, next; /* seconds; when the step's period ends */
};

static double now(void) {
    struct timespec time;
    (void)clock_gettime(CLOCK_MONOTONIC, &time);
    return (double)time.tv_sec + 1e-9 * (double)time.tv_nsec;
}

/* In one write, so that a killed worker leaves whole lines. */
static void write_line(const struct log *log, double time, const char *what) {
    (void)dprintf(log->file, "%.6f %s\n", time, what);
}

static ls_status end_step(void *context, int epoch, const ls_result *result) {
    struct log *log = context;
    double time = now();
    char step[24];
    (void)result;
    (void)snprintf(step, sizeof step, "%d", epoch + 1);
    write_line(log, time, step);
    log->next = log->next + log->period > time ? log->next + log->period : time;
    double rest = log->next - time;
    (void)nanosleep(&(struct timespec){(time_t)rest, (long)(1e9 * (rest - (double)(time_t)rest))}, NULL);
    return LS_OK;
}

static void fill(float *features, int32_t *labels) {
    unsigned state = 1;
    for (size_t i = 0; i < (size_t)ROWS * INPUTS; i++) {
        state = state * 1664525U + 1013904223U;
        features[i] = (float)(state >> 8) / (float)(1 << 24);
    }
    for (int i = 0; i < ROWS; i++) labels[i] = i % CLASSES;
}

static ls_status train(ls_strategy *strategy, ls_dataset *data, int steps, const char *folder, struct log *log) {
    ls_model *model = NULL;
    ls_status status =
        ls_model_new(strategy, LS_LAYERS(ls_dense(128, LS_RELU), ls_dense(64, LS_RELU), ls_dense(CLASSES)), &model);
    if (!status) status = ls_model_compile(model, ls_sgd(0.01F), LS_SPARSE_CATEGORICAL_CROSSENTROPY);
    if (!status)
        status = ls_model_fit(
            model, data,
            LS_FIT(.epochs = steps, .steps_per_epoch = 1, .verbose = -1, .on_epoch = end_step, .context = log,
                   .checkpoint = folder ? LS_CHECKPOINT(.folder = folder, .every_steps = CHECKPOINT_STEPS) : NULL),
            NULL);
    ls_model_free(model);
    return status;
}

/* The rank is known from here on; "loaded" was before. */
static int open_log(const char *start, int rank) {
    char name[4096];
    (void)snprintf(name, sizeof name, "%s-%d-%ld", start, rank, (long)getpid());
    return open(name, O_WRONLY | O_CREAT | O_APPEND | O_CLOEXEC, 0666);
}

int main(int argc, char **argv) {
    static float features[ROWS * INPUTS];
    static int32_t labels[ROWS];
    ls_strategy *strategy = NULL;
    ls_dataset *data = NULL;
    if (argc < 4 || argc > 5 || atoi(argv[2]) < 1 || strtod(argv[3], NULL) <= 0) {
        (void)fprintf(stderr, "usage: see the head of bench/recovery/worker.c\n");
        return 2;
    }
    fill(features, labels);
    double loaded = now();
    ls_status status = ls_multi_worker_mirrored_strategy_new(NULL, &strategy);
    if (status) return ls_exit(status);
    struct log log = {.file = open_log(argv[1], ls_worker_rank(strategy)), .period = strtod(argv[3], NULL)};
    if (log.file < 0) perror("worker: cannot write the log");
    write_line(&log, loaded, "loaded");
    write_line(&log, now(), "training");
    log.next = now();
    status = ls_dataset_arrays(features, LS_SHAPE(INPUTS), labels, ROWS, CLASSES,
                               LS_DATASET(.batch_size = (int64_t)BATCH * ls_num_replicas_in_sync(strategy)), &data);
    if (!status) status = train(strategy, data, atoi(argv[2]), argc > 4 ? argv[4] : NULL, &log);
    ls_dataset_free(data);
    (void)close(log.file);
    return ls_exit(ls_strategy_close(strategy, status));
}
