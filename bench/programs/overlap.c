/* Times a training step of dense layers and its parts, for bench/overlap: one process a worker, all started alike but
 * for RANK; rank 0 prints one line of JSON.
 *
 * usage: overlap RANK HOST,HOST,... PORT INPUTS UNITS,UNITS,... BATCH STEPS ROUNDS [BYTES,BYTES,...]
 *
 * In each round, one after the other: "compute", a step of one worker with BATCH examples, every process for itself,
 * all at the same time; "wire", all-reduces of BYTES back to back; "overlapped", a step of all workers with BATCH
 * examples each, as it is shipped; "apart", the same with one bucket for all gradients, so that nothing overlaps.
 * Seconds, for the wire processor seconds of the whole machine too, means over STEPS. Without BYTES: "overlapped" only.
 * Ports PORT to PORT + 2 are used. A last layer of 10 units, the classes, is added to UNITS. */
#include <lockstep/lockstep.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/prctl.h>
#include <time.h>
#include <unistd.h>

enum { CLASSES = 10, MOST = 64 };

struct plan {
    int rank, workers;
    const char *hosts; /* with commas */
    int port, inputs, batch, steps, rounds;
    int units[MOST], layers;
    size_t bytes[MOST]; /* of the buckets */
    int buckets;
};

/* A strategy with a model of its own on data of its own. */
struct trainer {
    const struct plan *plan;
    ls_strategy *strategy;
    ls_dataset *data;
    ls_model *model;
    float *features;
    int32_t *labels;
};

static int give_up(const char *why) {
    (void)fprintf(stderr, "overlap: %s\n", why);
    return 2;
}

static double now(void) {
    struct timespec time;
    (void)clock_gettime(CLOCK_MONOTONIC, &time);
    return (double)time.tv_sec + 1e-9 * (double)time.tv_nsec;
}

/* Processor seconds that this machine has spent so far, for the kernel's part of the network too. */
static double busy(void) {
    unsigned long long user = 0, nice = 0, system = 0, idle = 0, wait = 0, irq = 0, softirq = 0;
    FILE *file = fopen("/proc/stat", "re");
    if (!file) return 0;
    int read =
        fscanf(file, "cpu %llu %llu %llu %llu %llu %llu %llu", &user, &nice, &system, &idle, &wait, &irq, &softirq);
    (void)fclose(file);
    return read == 7 ? (double)(user + nice + system + irq + softirq) / (double)sysconf(_SC_CLK_TCK) : 0;
}

static void *allocate(size_t bytes) {
    void *memory = malloc(bytes);
    if (!memory) exit(give_up("out of memory"));
    return memory;
}

/* ---- reading the command line ---- */

static int split(const char *text, long *values) {
    int count = 0;
    for (char *end; *text && count < MOST; text = *end == ',' ? end + 1 : end) {
        values[count] = strtol(text, &end, 10);
        if (end == text || values[count++] < 1 || (*end && *end != ',')) return 0;
    }
    return *text ? 0 : count;
}

static int read_plan(int argc, char **argv, struct plan *plan) {
    long values[MOST];
    if (argc < 9 || argc > 10) return give_up("usage: see the head of bench/programs/overlap.c");
    *plan = (struct plan){.rank = atoi(argv[1]),
                          .workers = 1,
                          .hosts = argv[2],
                          .port = atoi(argv[3]),
                          .inputs = atoi(argv[4]),
                          .batch = atoi(argv[6]),
                          .steps = atoi(argv[7]),
                          .rounds = atoi(argv[8])};
    for (const char *at = plan->hosts; *at; at++) plan->workers += *at == ',';
    if (plan->inputs < 1 || plan->batch < 1 || plan->steps < 1 || plan->rounds < 1)
        return give_up("INPUTS, BATCH, STEPS and ROUNDS must be 1 or more");
    plan->layers = split(argv[5], values);
    if (!plan->layers || plan->layers == MOST) return give_up("UNITS must be up to 63 numbers with commas");
    for (int i = 0; i < plan->layers; i++) plan->units[i] = (int)values[i];
    plan->buckets = argc == 10 ? split(argv[9], values) : 0;
    for (int i = 0; i < plan->buckets; i++) plan->bytes[i] = (size_t)values[i];
    return argc == 10 && !plan->buckets ? give_up("BYTES must be numbers with commas") : 0;
}

/* A TF_CONFIG of its own for each cluster: port is PORT and what follows. */
static void write_config(const struct plan *plan, int port, char *text, size_t size) {
    size_t used = (size_t)snprintf(text, size, "{\"cluster\":{\"worker\":[");
    for (const char *at = plan->hosts; at && used < size; at = strchr(at, ',') ? strchr(at, ',') + 1 : NULL)
        used += (size_t)snprintf(text + used, size - used, "%s\"%.*s:%d\"", at == plan->hosts ? "" : ",",
                                 (int)strcspn(at, ","), at, port);
    if (used < size)
        (void)snprintf(text + used, size - used, "]},\"task\":{\"type\":\"worker\",\"index\":%d}}", plan->rank);
}

/* ---- training ---- */

static void fill(struct trainer *trainer, int64_t rows) {
    size_t count = (size_t)rows * (size_t)trainer->plan->inputs;
    unsigned state = 1;
    trainer->features = allocate(count * sizeof(float));
    trainer->labels = allocate((size_t)rows * sizeof(int32_t));
    for (size_t i = 0; i < count; i++) {
        state = state * 1664525U + 1013904223U;
        trainer->features[i] = (float)(state >> 8) / (float)(1 << 24);
    }
    for (int64_t i = 0; i < rows; i++) trainer->labels[i] = (int32_t)(i % CLASSES);
}

static ls_status make_model(struct trainer *trainer) {
    const struct plan *plan = trainer->plan;
    ls_layer layers[MOST];
    for (int i = 0; i < plan->layers; i++) layers[i] = ls_dense(plan->units[i], LS_RELU);
    layers[plan->layers] = ls_dense(CLASSES);
    ls_status status = ls_model_new(trainer->strategy, layers, (size_t)plan->layers + 1, &trainer->model);
    return status ? status : ls_model_compile(trainer->model, ls_sgd(0.001F), LS_SPARSE_CATEGORICAL_CROSSENTROPY);
}

/* One batch of examples for all replicas of the strategy, seen at every step. */
static ls_status make_trainer(const struct plan *plan, ls_strategy *strategy, struct trainer *trainer) {
    int64_t rows = (int64_t)plan->batch * ls_num_replicas_in_sync(strategy);
    *trainer = (struct trainer){.plan = plan, .strategy = strategy};
    fill(trainer, rows);
    ls_status status = ls_dataset_arrays(trainer->features, LS_SHAPE(plan->inputs), trainer->labels, rows, CLASSES,
                                         LS_DATASET(.batch_size = rows, .shuffle = LS_SHUFFLE_NEVER), &trainer->data);
    return status ? status : make_model(trainer);
}

/* Workers train together; alone, there is no TF_CONFIG. One bucket for all: a pack that is never full. */
static ls_status open_trainer(const struct plan *plan, int port, size_t bytes_per_pack, struct trainer *trainer) {
    char config[4096];
    ls_strategy *strategy = NULL;
    write_config(plan, port, config, sizeof(config));
    ls_status status = port ? ls_multi_worker_mirrored_strategy_new(
                                  LS_STRATEGY(.tf_config = config, .bytes_per_pack = bytes_per_pack), &strategy)
                            : ls_mirrored_strategy_new(NULL, &strategy);
    return status ? status : make_trainer(plan, strategy, trainer);
}

static ls_status close_trainer(struct trainer *trainer, ls_status status) {
    ls_model_free(trainer->model);
    ls_dataset_free(trainer->data);
    free(trainer->features);
    free(trainer->labels);
    return ls_strategy_close(trainer->strategy, status);
}

/* Seconds a step, without the first, which the library leaves out. */
static ls_status time_steps(struct trainer *trainer, double *seconds) {
    ls_result result;
    ls_status status = ls_model_fit(trainer->model, trainer->data,
                                    LS_FIT(.steps_per_epoch = trainer->plan->steps + 1, .verbose = -1), &result);
    if (!status)
        *seconds = trainer->plan->batch * ls_num_replicas_in_sync(trainer->strategy) / result.samples_per_second;
    return status;
}

/* ---- the wire alone ---- */

static ls_status time_wire(const struct plan *plan, ls_communicator *communicator, float *vector, double *seconds,
                           double *processor) {
    double started = now(), spent = busy();
    for (int step = 0; step < plan->steps; step++) {
        float *at = vector;
        for (int i = 0; i < plan->buckets; i++) {
            size_t count = plan->bytes[i] / sizeof(float);
            ls_status status = ls_all_reduce(communicator, LS_ALL_REDUCE("bucket", at, at, count));
            if (status) return status;
            at += count;
        }
    }
    *seconds = (now() - started) / plan->steps;
    *processor = (busy() - spent) / plan->steps;
    return LS_OK;
}

/* ---- rounds ---- */

struct bench {
    struct plan plan;
    ls_communicator *communicator;
    void *vector;
    struct trainer alone, overlapped, apart;
};
struct times {
    double compute, wire, wire_processor, overlapped, apart;
};

static ls_status open_bench(struct bench *bench) {
    const struct plan *plan = &bench->plan;
    char config[4096];
    size_t size = 0;
    write_config(plan, plan->port + 1, config, sizeof(config));
    for (int i = 0; i < plan->buckets; i++) size += plan->bytes[i];
    ls_status status = open_trainer(plan, plan->port, 0, &bench->overlapped);
    if (status || !plan->buckets) return status;
    status = ls_communicator_new(LS_STRATEGY(.tf_config = config), &bench->communicator);
    if (!status) status = ls_communicator_allocate(bench->communicator, size, &bench->vector);
    if (!status) status = open_trainer(plan, plan->port + 2, (size_t)1 << 40, &bench->apart);
    return status ? status : open_trainer(plan, 0, 0, &bench->alone);
}

/* Everybody begins together. */
static ls_status run_round(struct bench *bench, struct times *times) {
    ls_communicator *communicator = bench->communicator;
    if (!bench->plan.buckets) return time_steps(&bench->overlapped, &times->overlapped);
    ls_status status = ls_barrier(communicator, "compute");
    if (!status) status = time_steps(&bench->alone, &times->compute);
    if (!status) status = ls_barrier(communicator, "wire");
    if (!status) status = time_wire(&bench->plan, communicator, bench->vector, &times->wire, &times->wire_processor);
    if (!status) status = time_steps(&bench->overlapped, &times->overlapped);
    return status ? status : time_steps(&bench->apart, &times->apart);
}

static void print_rounds(const struct bench *bench, const struct times *times) {
    (void)printf("{\"workers\": %d, \"batch\": %d, \"rounds\": [", bench->plan.workers, bench->plan.batch);
    for (int i = 0; i < bench->plan.rounds; i++)
        (void)printf(
            "%s{\"compute\": %.9g, \"wire\": %.9g, \"wire_processor\": %.9g, \"overlapped\": %.9g, \"apart\": %.9g}",
            i ? ", " : "", times[i].compute, times[i].wire, times[i].wire_processor, times[i].overlapped,
            times[i].apart);
    (void)printf("]}\n");
}

static ls_status close_bench(struct bench *bench, ls_status status) {
    status = close_trainer(&bench->overlapped, status);
    if (!bench->plan.buckets) return status;
    status = close_trainer(&bench->alone, status);
    status = close_trainer(&bench->apart, status);
    if (bench->communicator) ls_communicator_release(bench->communicator, bench->vector);
    return ls_communicator_close(bench->communicator, status);
}

int main(int argc, char **argv) {
    struct bench bench = {0};
    (void)prctl(PR_SET_PDEATHSIG, SIGKILL);
    int wrong = read_plan(argc, argv, &bench.plan);
    if (wrong) return wrong;
    struct times *times = allocate((size_t)bench.plan.rounds * sizeof(*times));
    memset(times, 0, (size_t)bench.plan.rounds * sizeof(*times));
    ls_status status = open_bench(&bench);
    for (int i = 0; !status && i < bench.plan.rounds; i++) status = run_round(&bench, &times[i]);
    if (!status && !bench.plan.rank) print_rounds(&bench, times);
    free(times);
    return ls_exit(close_bench(&bench, status));
}
