/* The gpt application on a text that every Debian has, beside a reference in torch whose initial values come from a
 * hash (tests/golden/gpt.py): the losses of its first steps, the norm of the first gradient, and one digest whatever
 * the layout of replicas. */
#include <math.h>
#include <stdio.h>
#include <string.h>

#include "harness.h"
#include "strategy/workers.h"
#include "train/model.h"

#define TEXT "/usr/share/common-licenses/GPL-3"
enum { STEPS = SANITIZED ? 3 : 11, LAYERS = 4, WIDTH = 128, CONTEXT = 64, BATCH = 12, BYTES = 256 };

/* Of tests/golden/gpt.py, which torch has added in float64 too: they agree to 1e-6. */
static const double losses[] = {5.563522, 5.175644, 4.853966, 4.701124, 4.571270, 4.481842,
                                4.321206, 4.187083, 4.079176, 3.940327, 3.829519};
#define NORM 6.014140 /* of the first gradient, over all variables */

/* A hash of 32 bits (Ellis 2018's multipliers), as a number in [-1, 1). */
static double hashed(uint64_t x) {
    x *= UINT64_C(2654435761);
    x = (x ^ x >> 15) & UINT32_MAX;
    x = x * UINT64_C(2246822519) & UINT32_MAX;
    x ^= x >> 13;
    x = x * UINT64_C(3266489917) & UINT32_MAX;
    x ^= x >> 16;
    return (double)x / 2147483648.0 - 1;
}

/* The place of a variable in the reference's list; -1: its values stay, gains 1 and biases 0. */
static int number_of(const char *name) {
    static const char *const parts[] = {"norm_1/gamma",      "norm_1/beta",     "qkv/kernel",      "qkv/bias",
                                        "projection/kernel", "projection/bias", "norm_2/gamma",    "norm_2/beta",
                                        "expand/kernel",     "expand/bias",     "contract/kernel", "contract/bias"};
    int block, used = 0;
    if (!strcmp(name, "token_embedding/embeddings")) return 0;
    if (!strcmp(name, "position_embedding/embeddings")) return 1;
    if (sscanf(name, "block_%d_%n", &block, &used) != 1 || !used) return -1;
    for (int i = 0; i < (int)COUNT_OF(parts); i++)
        if (!strcmp(name + used, parts[i])) return strstr(name, "kernel") ? 2 + block * (int)COUNT_OF(parts) + i : -1;
    return -1;
}

/* Kernels are (in, out), and torch's (out, in); tables are alike. */
static void hash_variable(const struct ls_network_variable *variable, float *values) {
    int number = number_of(variable->name);
    bool kernel = strstr(variable->name, "kernel") != NULL;
    int64_t rows = variable->shape.dims[0], columns = variable->shape.rank > 1 ? variable->shape.dims[1] : 1;
    if (number < 0) return;
    for (int64_t r = 0; r < rows; r++)
        for (int64_t c = 0; c < columns; c++) {
            uint64_t element = (uint64_t)(kernel ? c * rows + r : r * columns + c);
            values[r * columns + c] = (float)(0.035 * hashed(element + (uint64_t)number * 1000003));
        }
}

struct training {
    double means[STEPS], norm;
    char sha256[MAX_WORKERS][65];
};

static ls_status hash_weights(void *context, const ls_callback_call *call) {
    (void)context;
    const ls_model *model = call->model;
    for (int i = 0; i < model->built.replica_count; i++)
        for (int v = 0; v < ls_network_variable_count(model->built.network); v++) {
            const struct ls_network_variable *variable = ls_network_variable(model->built.network, v);
            hash_variable(variable, model->built.replicas[i].parameters + variable->offset);
        }
    return LS_OK;
}

/* Adam's first moment after one step is a tenth of the gradient. */
static double first_norm(const ls_model *model) {
    const float *moments = model->built.replicas[0].moments[0];
    double squares = 0;
    for (size_t i = 0; i < ls_network_trainable_count(model->built.network); i++)
        squares += (double)moments[i] * (double)moments[i];
    return sqrt(squares) / 0.1;
}

static ls_status keep_loss(void *context, const ls_callback_call *call) {
    struct training *training = context;
    double mean = 0;
    if (!call->writes) return LS_OK; /* all are told the same, and one keeps it */
    (void)ls_callback_value(call, "loss", &mean);
    if (call->step == 1) training->norm = first_norm(call->model);
    if (call->step >= 1 && call->step <= STEPS) training->means[call->step - 1] = mean;
    return LS_OK;
}

static ls_status train(struct worker *worker) {
    struct training *training = worker->context;
    ls_dataset *data = NULL;
    ls_model *model = NULL;
    ls_layer *layers = NULL;
    size_t count = 0;
    ls_callback callback =
        LS_CALLBACK(.name = "losses", .context = training, .on_build = hash_weights, .on_train_batch_end = keep_loss);
    ls_status status = ls_dataset_tokens(
        TEXT,
        LS_DATASET(.tokens = LS_TOKENS_BYTES, .context = CONTEXT, .batch_size = BATCH, .shuffle = LS_SHUFFLE_NEVER),
        &data);
    if (!status)
        status =
            ls_application("gpt", LS_APPLICATION(.classes = BYTES, .layers = LAYERS, .width = WIDTH), &layers, &count);
    if (!status) status = ls_model_new(worker->strategy, layers, count, &model);
    if (!status)
        status = ls_model_compile(model, ls_adam(1e-3F, .beta_2 = 0.99F, .epsilon = 1e-8F, .torch_epsilon = true),
                                  LS_SPARSE_CATEGORICAL_CROSSENTROPY);
    if (!status)
        status = ls_model_fit(
            model, data, LS_FIT(.steps_per_epoch = STEPS, .verbose = -1, .callbacks = LS_CALLBACKS(&callback)), NULL);
    if (!status) status = ls_model_weights_sha256(model, training->sha256[worker->rank]);
    ls_model_free(model);
    ls_dataset_free(data);
    ls_memory_free(layers);
    return status;
}

/* The mean of an epoch so far is what a callback is told. */
static void check_losses(const struct training *training) {
    ck_assert_msg(fabs(training->norm - NORM) <= 1e-4, "the first gradient's norm is %.6f, not %.6f", training->norm,
                  NORM);
    for (int s = 0; s < STEPS; s++) {
        double before = s ? training->means[s - 1] * s : 0, loss = training->means[s] * (s + 1) - before;
        ck_assert_msg(fabs(loss - losses[s]) <= (s ? 1e-4 : 1e-5), "step %d: loss %.6f, and the reference has %.6f", s,
                      loss, losses[s]);
    }
}

TEST(losses_are_those_of_torch_in_any_layout) {
    static const int layouts[][3] = {{1}, {4}, {2, 2}, {1, 2, 1}};
    static struct training trainings[COUNT_OF(layouts)];
    for (int i = 0; i < (int)COUNT_OF(layouts); i++) {
        struct worker_cluster cluster = {.fn = train, .context = &trainings[i]};
        for (int w = 0; w < 3 && layouts[i][w]; w++) cluster.devices[cluster.count++] = layouts[i][w];
        run_workers_ok(&cluster);
        check_losses(&trainings[i]);
        for (int w = 0; w < cluster.count; w++) ck_assert_str_eq(trainings[i].sha256[w], trainings[i].sha256[0]);
        if (i > 1) ck_assert_str_eq(trainings[i].sha256[0], trainings[1].sha256[0]); /* as many replicas */
    }
}

TESTS("gpt", .seconds = 120)
