/* A layer with a tenth of the learning rate and one that is frozen, beside torch's parameter groups
 * (tests/golden/record_groups.py), with its epsilon, decay, momentum and clipped norm; on one and on several replicas.
 */
#include <math.h>
#include <string.h>

#include "golden/golden.h"
#include "harness.h"
#include "train/model.h"

enum { EXAMPLES = 24, CLASSES = 5, STEPS = 20 };

static const struct job {
    const char *name;
    ls_optimizer rule;
} jobs[] = {
    {"adamw", ls_adamw(0.01F, .beta_2 = 0.99F, .epsilon = 1e-2F, .torch_epsilon = true, .weight_decay = 0.05F,
                       .global_clipnorm = 0.3F)},
    {"momentum", ls_sgd(0.05F, .momentum = 0.9F, .global_clipnorm = 0.3F)},
};
static const char *const devices[] = {"1", "3"};

static ls_status write_weights(void *context, const ls_callback_call *call) {
    const struct ls_model_built *built = &call->model->built;
    for (int i = 0; i < built->replica_count; i++)
        for (int v = 0; v < ls_network_variable_count(built->network); v++) {
            const struct ls_network_variable *variable = ls_network_variable(built->network, v);
            memcpy(built->replicas[i].parameters + variable->offset,
                   golden_find(context, "before/%s", variable->name)->values, variable->count * sizeof(float));
        }
    return LS_OK;
}

static ls_dataset *open_data(const struct golden *golden, int32_t labels[EXAMPLES]) {
    const struct golden_tensor *x = golden_find(golden, "x"), *given = golden_find(golden, "labels");
    ls_dataset *data = NULL;
    for (int i = 0; i < EXAMPLES; i++) labels[i] = (int32_t)given->values[i];
    assert_ok(ls_dataset_arrays(x->values, LS_SHAPE(x->shape.dims[1]), labels, EXAMPLES, CLASSES,
                                LS_DATASET(.batch_size = EXAMPLES, .shuffle = LS_SHUFFLE_NEVER), &data));
    return data;
}

static void check_variables(const ls_model *model, const struct golden *golden, const char *job) {
    for (int i = 0; i < ls_model_num_variables(model); i++) {
        const char *name;
        const float *values;
        ls_shape shape;
        assert_ok(ls_model_variable(model, i, &name, &shape, &values));
        const struct golden_tensor *wanted = golden_find(golden, "%s/%s", job, name);
        for (int64_t k = 0; k < wanted->count; k++)
            ck_assert_msg(fabs((double)values[k] - (double)wanted->values[k]) <= 1e-6,
                          "%s, %s[%d]: %.9g, torch has %.9g", job, name, (int)k, (double)values[k],
                          (double)wanted->values[k]);
    }
}

TEST_EACH(trainings_follow_parameter_groups, COUNT_OF(jobs) * COUNT_OF(devices)) {
    const struct job *job = &jobs[(size_t)_i / COUNT_OF(devices)];
    struct golden *golden = golden_open("groups.txt");
    ls_callback callback = LS_CALLBACK(.name = "weights", .context = golden, .on_build = write_weights);
    ls_strategy *strategy = NULL;
    ls_model *model = NULL;
    int32_t labels[EXAMPLES];
    ls_dataset *data = open_data(golden, labels);
    assert_ok(ls_mirrored_strategy_new(LS_STRATEGY(.devices = devices[(size_t)_i % COUNT_OF(devices)]), &strategy));
    assert_ok(ls_model_new(strategy,
                           LS_LAYERS(ls_dense(8, LS_TANH, .name = "first", .rate_multiplier = 0.1F),
                                     ls_dense(7, LS_TANH, .name = "middle", .frozen = true),
                                     ls_dense(CLASSES, .name = "last")),
                           &model));
    assert_ok(ls_model_compile(model, job->rule, LS_SPARSE_CATEGORICAL_CROSSENTROPY));
    assert_ok(
        ls_model_fit(model, data, LS_FIT(.epochs = STEPS, .verbose = -1, .callbacks = LS_CALLBACKS(&callback)), NULL));
    check_variables(model, golden, job->name);
    ls_model_free(model);
    ls_strategy_free(strategy);
    ls_dataset_free(data);
    golden_close(golden);
}

TESTS("train/groups")
