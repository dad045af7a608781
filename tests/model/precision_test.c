/* Plans in 16 bits: which tensors are of them, where they are converted, that kernels are the variables' copies, and
 * that the numbers are those of float32 but for rounding; what scaling the loss is for. */
#include "harness.h"
#include "base/options.h"
#include "model/plan_run.h"
#include "model/rounding_device.h"

static const ls_precision mixed[] = {LS_MIXED_BFLOAT16, LS_MIXED_FLOAT16};

static const ls_layer dense_layers[] = {ls_flatten(), ls_dense(16, LS_RELU), ls_dense(9, LS_TANH), ls_dense(4)};
/* Every layer that there is; batch normalization with and without what it does along. */
static const ls_layer image_layers[] = {ls_rescaling(0.5F, 0.1F),
                                        ls_conv2d(6, 3, .padding = LS_SAME, .name = "first"),
                                        ls_batch_normalization(),
                                        ls_relu6(),
                                        ls_zero_padding2d(1, 1, 1, 1),
                                        ls_depthwise_conv2d(3, .no_bias = true),
                                        ls_batch_normalization(),
                                        ls_add("first"),
                                        ls_relu(),
                                        ls_dropout(0.25F),
                                        ls_conv2d(6, 1, .activation = LS_RELU),
                                        ls_concatenate("re_lu_1"),
                                        ls_max_pooling2d(2),
                                        ls_batch_normalization(),
                                        ls_average_pooling2d(2),
                                        ls_global_average_pooling2d(),
                                        ls_dense(5, LS_SIGMOID),
                                        ls_dense(4)};

/* A transformer's: activations whose slope follows from x, normalizations of positions, a product. */
static const ls_layer position_layers[] = {ls_dense(12, LS_GELU, .per_position = true, .name = "first"),
                                           ls_layer_normalization(.name = "norm"),
                                           ls_dense(12, LS_SILU, .per_position = true, .name = "gate"),
                                           ls_dense(12, .per_position = true, .input = "norm"),
                                           ls_multiply("gate"),
                                           ls_add("first"),
                                           ls_rms_normalization(),
                                           ls_dense(9, LS_GELU_TANH),
                                           ls_activation(LS_SILU),
                                           ls_dense(4)};

/* Layers over sequences. */
static const ls_layer sequence_layers[] = {ls_conv1d(8, 3, .padding = LS_CAUSAL, .activation = LS_TANH),
                                           ls_lstm(6, .return_sequences = true),
                                           ls_max_pooling1d(2, 1),
                                           ls_gru(5, .return_sequences = true),
                                           ls_average_pooling1d(2),
                                           ls_gru(5),
                                           ls_dense(4)};

static const struct network {
    const ls_layer *layers;
    size_t count;
    ls_shape input;
} networks[] = {
    {dense_layers, COUNT_OF(dense_layers), LS_SHAPE(6, 5)},
    {image_layers, COUNT_OF(image_layers), LS_SHAPE(8, 8, 3)},
    {position_layers, COUNT_OF(position_layers), LS_SHAPE(6, 5)},
    {sequence_layers, COUNT_OF(sequence_layers), LS_SHAPE(9, 4)},
};

struct subject {
    struct replica replica;
    struct rounding rounding;
    struct ls_optimizer_step step;
    float gradient_scale;
    bool any_order;
    struct ls_plan *plan;
};

static void make_plan(struct subject *subject, const struct network *network, ls_precision precision, bool training) {
    subject->replica = new_replica(network->layers, network->count, network->input, 8);
    rounding_open(subject->replica.device, false, &subject->rounding);
    subject->replica.device = &subject->rounding.device;
    subject->gradient_scale = subject->replica.scale;
    subject->step = (struct ls_optimizer_step){.iteration = 1};
    struct ls_plan_config config = plan_config(&subject->replica, LS_SPARSE_CATEGORICAL_CROSSENTROPY);
    config.objective.precision = precision;
    config.objective.nondeterministic_ops = subject->any_order;
    config.gradient_scale = &subject->gradient_scale;
    config.step = &subject->step;
    config.training = training;
    assert_ok(ls_plan_new(&config, &subject->plan));
}

static void free_subject(struct subject *subject) {
    ls_plan_free(subject->plan);
    free_replica(&subject->replica);
}

/* ---- types ---- */

/* The type that the op must have at that place. */
static ls_dtype wanted_type(const struct ls_op *op, int place, ls_dtype type) {
    bool product = op->kind <= LS_OP_DEPTHWISE_BACKWARD || op->kind == LS_OP_RECURRENT_FORWARD ||
                   op->kind == LS_OP_RECURRENT_BACKWARD;
    bool loss = op->kind == LS_OP_SOFTMAX_CROSSENTROPY;
    if (loss) return place == LS_ARG_LABELS ? LS_INT32 : LS_FLOAT32;
    switch (place) {
    case LS_ARG_X:
    case LS_ARG_Y:
    case LS_ARG_DY:
    case LS_ARG_DX:
    case LS_ARG_R:
    case LS_ARG_DR:
        return type;
    case LS_ARG_W:
        return product || op->kind == LS_OP_ADD || op->kind == LS_OP_MULTIPLY ? type : LS_FLOAT32;
    default:
        return LS_FLOAT32;
    }
}

static void check_types(const struct ls_op *op, ls_dtype type) {
    for (int t = 0; op->kind != LS_OP_CAST && t < LS_OP_TENSORS; t++)
        if (op->tensors[t].data)
            ck_assert_msg(op->tensors[t].dtype == wanted_type(op, t, type), "%s: argument %d is %s",
                          ls_op_name(op->kind), t, ls_dtype_name(op->tensors[t].dtype));
}

static int count_kind(const struct rounding *rounding, enum ls_op_kind kind) {
    int count = 0;
    for (int i = 0; i < rounding->count; i++) count += rounding->built[i].kind == kind;
    return count;
}

/* Features and variables once before all, outputs before the loss, and its gradient behind it: no other casts. */
static void check_casts(const struct subject *subject, ls_dtype type, bool training) {
    const struct ls_op *built = subject->rounding.built;
    ck_assert_int_eq(count_kind(&subject->rounding, LS_OP_CAST), training ? 4 : 3);
    ck_assert(built[0].kind == LS_OP_CAST && built[0].tensors[LS_ARG_X].data == subject->replica.features);
    ck_assert(built[1].kind == LS_OP_CAST && built[1].tensors[LS_ARG_X].data == subject->replica.parameters);
    ck_assert_int_eq(built[0].tensors[LS_ARG_Y].dtype, type);
    ck_assert_int_eq(built[1].tensors[LS_ARG_Y].dtype, type);
    ck_assert_int_eq(built[1].tensors[LS_ARG_Y].shape.dims[0],
                     (int64_t)ls_network_trainable_count(subject->replica.network));
    int loss = 0;
    while (built[loss].kind != LS_OP_SOFTMAX_CROSSENTROPY) loss++;
    ck_assert(built[loss - 1].kind == LS_OP_CAST && built[loss - 1].tensors[LS_ARG_Y].dtype == LS_FLOAT32);
    if (training) ck_assert(built[loss + 1].kind == LS_OP_CAST && built[loss + 1].tensors[LS_ARG_Y].dtype == type);
    if (!training) ck_assert_int_eq(loss, subject->rounding.count - 1);
}

TEST_EACH(tensors_have_the_type_of_the_precision, 16) {
    ls_precision precision = mixed[_i / 8];
    ls_dtype type = ls_option_names_precision_dtype(precision);
    bool training = _i % 2;
    struct subject subject = {0};
    make_plan(&subject, &networks[_i / 2 % 4], precision, training);
    for (int i = 0; i < subject.rounding.count; i++) check_types(&subject.rounding.built[i], type);
    check_casts(&subject, type, training);
    free_subject(&subject);
}

TEST_EACH(float32_has_no_casts, 4) {
    struct subject subject = {.any_order = _i / 2};
    make_plan(&subject, &networks[_i / 2], _i % 2 ? LS_PRECISION_TF32 : LS_PRECISION_FLOAT32, true);
    ck_assert_int_eq(count_kind(&subject.rounding, LS_OP_CAST), 0);
    for (int i = 0; i < subject.rounding.count; i++) {
        check_types(&subject.rounding.built[i], LS_FLOAT32);
        ck_assert_int_eq(subject.rounding.built[i].tf32, _i % 2);
        ck_assert_int_eq(subject.rounding.built[i].nondeterministic, _i / 2);
    }
    free_subject(&subject);
}

/* Each kernel is the part of the copy that the variable is of the blob; biases and the like are the variables. */
TEST_EACH(kernels_are_parts_of_the_copy, 2) {
    struct subject subject = {0};
    make_plan(&subject, &networks[1], mixed[_i], true);
    const char *copy = subject.rounding.built[1].tensors[LS_ARG_Y].data;
    int seen = 0;
    for (int i = 2; i < subject.rounding.count; i++) {
        const struct ls_op *op = &subject.rounding.built[i];
        const struct ls_tensor *kernel = &op->tensors[LS_ARG_W], *bias = &op->tensors[LS_ARG_B];
        if (op->kind > LS_OP_DEPTHWISE_BACKWARD || !kernel->data) continue;
        size_t offset = (size_t)((const char *)kernel->data - copy) / sizeof(uint16_t);
        int v = 0;
        while (ls_network_variable(subject.replica.network, v)->offset != offset) v++;
        const struct ls_network_variable *variable = ls_network_variable(subject.replica.network, v);
        ck_assert_int_eq(ls_shape_count(&kernel->shape), (int64_t)variable->count);
        ck_assert_ptr_nonnull(strstr(variable->name, "/kernel"));
        if (bias->data) ck_assert_ptr_eq(bias->data, subject.replica.parameters + variable[1].offset);
        seen++;
    }
    ck_assert_int_eq(seen, 9); /* five forward; backward all but the first convolution's, for its data */
    free_subject(&subject);
}

TEST_EACH(half_precision_takes_half_the_memory, 2) {
    struct subject wide = {0}, half = {0};
    make_plan(&wide, &networks[1], LS_PRECISION_FLOAT32, true);
    make_plan(&half, &networks[1], mixed[_i], true);
    /* the copy of the variables comes to it; the workspace is that of the CPU's ops */
    size_t copy = ls_network_trainable_count(half.replica.network) / 2;
    ck_assert_uint_le(half.plan->floats, wide.plan->floats * 6 / 10 + copy);
    free_subject(&wide);
    free_subject(&half);
}

/* ---- numbers ---- */

/* The length of the difference over that of what it should be. */
static double relative_error(const float *values, const float *wanted, size_t count) {
    double off = 0, length = 0;
    for (size_t i = 0; i < count; i++) {
        off += pow((double)values[i] - (double)wanted[i], 2);
        length += pow((double)wanted[i], 2);
    }
    return sqrt(off / length);
}

/* Of single gradients more is lost, where a maximum or a mask is decided otherwise. */
TEST_EACH(gradients_are_near_those_of_float32, 8) {
    const struct network *network = &networks[_i / 2];
    const double tolerance = _i % 2 ? 0.01 : 0.08; /* 11 bits, 8 bits */
    struct subject wide = {0}, half = {0};
    make_plan(&wide, network, LS_PRECISION_FLOAT32, true);
    make_plan(&half, network, mixed[_i % 2], true);
    assert_ok(ls_plan_run(wide.plan, NULL, NULL));
    assert_ok(ls_plan_run(half.plan, NULL, NULL));
    double off = fabs(half.replica.sums.loss - wide.replica.sums.loss) / wide.replica.sums.loss;
    ck_assert_msg(off > 0 && off < tolerance / 10, "the loss is off by %g", off);
    size_t trainable = ls_network_trainable_count(wide.replica.network), all = wide.replica.blob;
    off = relative_error(half.replica.gradients, wide.replica.gradients, trainable);
    ck_assert_msg(off > 0 && off < tolerance, "the gradients are off by %g", off);
    if (all > trainable)
        off = relative_error(half.replica.gradients + trainable, wide.replica.gradients + trainable, all - trainable);
    ck_assert_msg(off > 0 && off < tolerance, "the statistics are off by %g", off);
    free_subject(&wide);
    free_subject(&half);
}

/* Running again gives the same bits, also where another plan has made the arena larger: copies are made anew. */
TEST_EACH(another_run_gives_the_same_bits, 2) {
    struct subject first = {0}, second = {0};
    make_plan(&first, &networks[1], mixed[_i], true);
    make_plan(&second, &networks[1], mixed[_i], true);
    assert_ok(ls_plan_run(first.plan, NULL, NULL));
    for (int i = 0; i < 3; i++) assert_ok(ls_plan_run(second.plan, NULL, NULL));
    ck_assert_mem_eq(first.replica.gradients, second.replica.gradients, first.replica.blob * sizeof(float));
    first.replica.parameters[0] += 1;
    assert_ok(ls_plan_run(first.plan, NULL, NULL));
    ck_assert(memcmp(first.replica.gradients, second.replica.gradients, first.replica.blob * sizeof(float)) != 0);
    free_subject(&first);
    free_subject(&second);
}

static double largest_gradient(const struct subject *subject) {
    double largest = 0;
    for (size_t i = 0; i < ls_network_trainable_count(subject->replica.network); i++)
        largest = fmax(largest, fabs((double)subject->replica.gradients[i]));
    return largest;
}

static double count_not_finite(struct subject *subject) {
    double count = -1;
    struct ls_op op = {.kind = LS_OP_FINITE, .value = &count};
    op.tensors[LS_ARG_X] =
        (struct ls_tensor){subject->replica.gradients, LS_FLOAT32, LS_SHAPE((int64_t)subject->replica.blob), 0};
    assert_ok(subject->rounding.cpu->ops->build(subject->rounding.cpu, &op));
    assert_ok(op.run(&op));
    subject->rounding.cpu->ops->discard(subject->rounding.cpu, &op);
    return count;
}

/* Gradients that float16 has no place for come back with a scaled loss; where it is scaled too much they are no
 * numbers, which is seen. The moving statistics' changes have nothing to do with it. */
TEST(a_scaled_loss_saves_small_gradients) {
    struct subject wide = {0}, half = {0};
    const float tiny = 1e-9F, scale = 0x1p15F;
    make_plan(&wide, &networks[0], LS_PRECISION_FLOAT32, true);
    make_plan(&half, &networks[0], LS_MIXED_FLOAT16, true);
    wide.gradient_scale = half.gradient_scale = tiny;
    assert_ok(ls_plan_run(wide.plan, NULL, NULL));
    assert_ok(ls_plan_run(half.plan, NULL, NULL));
    ck_assert(largest_gradient(&wide) > 0 && largest_gradient(&half) == 0);
    half.gradient_scale = tiny * scale;
    assert_ok(ls_plan_run(half.plan, NULL, NULL));
    ck_assert(count_not_finite(&half) == 0);
    ck_assert(fabs(largest_gradient(&half) / (double)scale / largest_gradient(&wide) - 1) < 0.02);
    half.gradient_scale = 0x1p20F;
    assert_ok(ls_plan_run(half.plan, NULL, NULL));
    ck_assert(count_not_finite(&half) > 0);
    free_subject(&wide);
    free_subject(&half);
}

TEST(statistics_are_not_scaled) {
    struct subject one = {0}, other = {0};
    make_plan(&one, &networks[1], LS_MIXED_FLOAT16, true);
    make_plan(&other, &networks[1], LS_MIXED_FLOAT16, true);
    other.gradient_scale *= 1024;
    assert_ok(ls_plan_run(one.plan, NULL, NULL));
    assert_ok(ls_plan_run(other.plan, NULL, NULL));
    size_t trainable = ls_network_trainable_count(one.replica.network);
    ck_assert_mem_eq(one.replica.gradients + trainable, other.replica.gradients + trainable,
                     (one.replica.blob - trainable) * sizeof(float));
    ck_assert(largest_gradient(&other) > 900 * largest_gradient(&one));
    free_subject(&one);
    free_subject(&other);
}

/* ---- who has no 16-bit types ---- */

TEST_EACH(the_cpu_refuses_16_bits, 4) {
    struct ls_device *cpu = open_cpu();
    uint16_t memory[32] = {0};
    struct ls_op op = {.kind = _i % 2 ? LS_OP_ADD : LS_OP_ACTIVATION_FORWARD};
    ls_dtype type = ls_option_names_precision_dtype(mixed[_i / 2]);
    op.tensors[LS_ARG_X] = op.tensors[LS_ARG_W] = op.tensors[LS_ARG_Y] =
        (struct ls_tensor){memory, type, LS_SHAPE(32), 0};
    assert_fails(cpu->ops->build(cpu, &op), LS_UNIMPLEMENTED, "cpu:0 has no op");
    ck_assert_ptr_nonnull(strstr(ls_error(), "values of 16 bits need a GPU"));
    ls_device_close(cpu);
}

TESTS("precision", .seconds = 60)
