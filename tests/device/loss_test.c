/* ReLU, softmax cross-entropy and one-hot against the oracle; ties, extremes and bad labels. */
#include "device/op_fixture.h"
#include "device/reference.h"
#include "harness.h"

static const struct size {
    int64_t rows, classes;
} sizes[] = {{1, 1}, {1, 10}, {64, 10}, {7, 3}, {5, 1001}, {129, 2}, {3, 2063}};
#define SIZE_COUNT ((int)(sizeof(sizes) / sizeof(sizes[0])))

struct loss {
    struct size size;
    struct pair logits, one_hot, dlogits;
    int32_t *labels;
    float scale;
    struct ls_loss_sums sums;
};

static void make_loss(struct size size, struct loss *loss) {
    *loss = (struct loss){.size = size,
                          .logits = make_random(1, size.rows * size.classes),
                          .one_hot = make_zeros(size.rows * size.classes),
                          .dlogits = make_pair(size.rows * size.classes),
                          .labels = ls_alloc_array((size_t)size.rows, sizeof(int32_t)),
                          .scale = 0.25F};
    for (int64_t r = 0; r < size.rows; r++) {
        loss->labels[r] = (int32_t)(ls_random_bits(7, 2, (uint64_t)r) % (uint64_t)size.classes);
        loss->one_hot.device[r * size.classes + loss->labels[r]] = 1;
    }
}

static void free_loss(struct loss *loss) {
    free_pair(&loss->logits);
    free_pair(&loss->one_hot);
    free_pair(&loss->dlogits);
    ls_free(loss->labels);
}

static struct ls_op loss_op(struct loss *loss, bool sparse) {
    struct ls_op op = {.kind = LS_OP_SOFTMAX_CROSSENTROPY, .scale = &loss->scale, .sums = &loss->sums};
    ls_shape shape = LS_SHAPE(loss->size.rows, loss->size.classes);
    op.tensors[LS_ARG_LOGITS] = tensor(&loss->logits, shape);
    op.tensors[LS_ARG_LABELS] =
        sparse ? (struct ls_tensor){loss->labels, LS_INT32, LS_SHAPE(loss->size.rows)} : tensor(&loss->one_hot, shape);
    op.tensors[LS_ARG_DLOGITS] = tensor(&loss->dlogits, shape);
    return op;
}

static struct reference_sums run_oracle(const struct loss *loss, bool sparse) {
    struct reference_loss oracle = {.rows = loss->size.rows,
                                    .classes = loss->size.classes,
                                    .logits = loss->logits.oracle,
                                    .labels = loss->labels,
                                    .one_hot = sparse ? NULL : loss->one_hot.oracle,
                                    .scale = (double)loss->scale,
                                    .dlogits = loss->dlogits.oracle};
    return reference_softmax_crossentropy(&oracle);
}

static void check_against_oracle(struct ls_device *device, struct loss *loss, bool sparse) {
    struct ls_op op = loss_op(loss, sparse);
    reference_one_hot(loss->labels, loss->size.rows, loss->size.classes, loss->one_hot.oracle);
    struct reference_sums sums = run_oracle(loss, sparse);
    assert_ok(run_op(device, &op));
    assert_pair("dlogits", &loss->dlogits);
    ck_assert_double_le(fabs(loss->sums.loss - sums.loss), 1e-6 * fabs(sums.loss));
    ck_assert_int_eq(loss->sums.correct, sums.correct);
    ck_assert_int_eq(loss->sums.rows, loss->size.rows);
}

TEST_EACH(losses_equal_the_oracle, SIZE_COUNT) {
    struct ls_device *device = open_device();
    for (int sparse = 0; sparse < 2; sparse++) {
        struct loss loss;
        make_loss(sizes[_i], &loss);
        check_against_oracle(device, &loss, sparse);
        free_loss(&loss);
    }
    ls_device_close(device);
}

/* Targets that are numbers: squared, absolute and Huber's errors, weighted and not, in random sizes. */
TEST_EACH(regression_losses_equal_the_oracle, 24) {
    static const enum ls_op_kind kinds[] = {LS_OP_SQUARED_ERROR, LS_OP_ABSOLUTE_ERROR, LS_OP_HUBER};
    struct ls_device *device = open_device();
    struct size size = {1 + (int64_t)(ls_random_bits(9, 1, (uint64_t)_i) % 200),
                        1 + (int64_t)(ls_random_bits(9, 2, (uint64_t)_i) % 300)};
    double weight = 0;
    struct loss loss;
    make_loss(size, &loss);
    struct pair targets = make_random(3, size.rows * size.classes), weights = make_random(4, size.rows);
    struct ls_op op = loss_op(&loss, false);
    bool weighted = _i / 3 % 2;
    loss.logits.device[0] = targets.device[0], loss.logits.oracle[0] = targets.oracle[0]; /* no error at all */
    op.kind = kinds[_i % 3];
    op.beta = 0.75F;
    op.tensors[LS_ARG_LABELS] = tensor(&targets, LS_SHAPE(size.rows, size.classes));
    if (weighted) op.tensors[LS_ARG_WEIGHTS] = tensor(&weights, LS_SHAPE(size.rows));
    struct reference_loss oracle = {.rows = size.rows,
                                    .classes = size.classes,
                                    .logits = loss.logits.oracle,
                                    .one_hot = targets.oracle,
                                    .scale = (double)loss.scale,
                                    .dlogits = loss.dlogits.oracle};
    struct reference_sums sums =
        reference_error((enum reference_error)(_i % 3), 0.75, weighted ? weights.oracle : NULL, &oracle);
    assert_ok(run_op(device, &op));
    assert_pair("dlogits", &loss.dlogits);
    for (int64_t r = 0; r < size.rows; r++) weight += weighted ? weights.oracle[r] : 1;
    ck_assert_double_le(fabs(loss.sums.loss - sums.loss), 1e-6 * (fabs(sums.loss) + 1));
    ck_assert_double_le(fabs(loss.sums.weight - weight), 1e-9 * (double)size.rows);
    ck_assert(loss.sums.correct == 0 && loss.sums.rows == size.rows);
    free_pair(&targets);
    free_pair(&weights);
    free_loss(&loss);
    ls_device_close(device);
}

/* A loss of two parts of the rows, the second of which adds, in place of the logits: the bits of one run beside them.
 */
static void check_parts(struct ls_device *device, enum ls_op_kind kind, struct size size, int round) {
    struct loss whole, parts;
    make_loss(size, &whole);
    make_loss(size, &parts);
    int64_t cut = 1 + round % (size.rows - 1);
    struct ls_op op = loss_op(&whole, round % 2), part = loss_op(&parts, round % 2);
    op.kind = part.kind = kind;
    op.alpha = part.alpha = round / 2 % 2 ? 0.1F : 0;
    op.beta = part.beta = 0.75F;
    for (int64_t i = 0; i < whole.logits.count && (kind == LS_OP_CROSSENTROPY || kind == LS_OP_BINARY_CROSSENTROPY);
         i++)
        whole.logits.device[i] = parts.logits.device[i] = fabsf(whole.logits.device[i]) / 8 + 0.01F;
    assert_ok(run_op(device, &op));
    part.tensors[LS_ARG_DLOGITS] = part.tensors[LS_ARG_LOGITS];
    for (int p = 0; p < 2; p++) {
        struct ls_tensor *labels = &part.tensors[LS_ARG_LABELS], *logits = &part.tensors[LS_ARG_LOGITS];
        labels->shape.dims[0] = logits->shape.dims[0] = p ? size.rows - cut : cut;
        part.tensors[LS_ARG_DLOGITS] = *logits;
        part.adds = p;
        assert_ok(run_op(device, &part));
        logits->data = parts.logits.device + cut * size.classes;
        labels->data = round % 2 ? (void *)(parts.labels + cut) : parts.one_hot.device + cut * size.classes;
    }
    ck_assert_int_eq(memcmp(whole.dlogits.device, parts.logits.device, (size_t)whole.dlogits.count * 4), 0);
    ck_assert_double_le(fabs(whole.sums.loss - parts.sums.loss), device->host_memory ? 0 : 1e-12 * whole.sums.loss);
    ck_assert(whole.sums.correct == parts.sums.correct && whole.sums.rows == parts.sums.rows);
    ck_assert_double_le(fabs(whole.sums.weight - parts.sums.weight), 0);
    free_loss(&whole);
    free_loss(&parts);
}

TEST_EACH(a_loss_may_be_made_of_parts_in_place, 8) {
    struct ls_device *device = open_device();
    for (int kind = LS_OP_SOFTMAX_CROSSENTROPY; kind <= LS_OP_HUBER; kind++)
        check_parts(device, (enum ls_op_kind)kind, sizes[2 + _i % 4], _i + 3 * kind);
    ls_device_close(device);
}

TEST_EACH(one_hot_labels_give_the_bits_of_sparse_ones, SIZE_COUNT) {
    struct ls_device *device = open_device();
    struct loss sparse, dense;
    make_loss(sizes[_i], &sparse);
    make_loss(sizes[_i], &dense);
    struct ls_op a = loss_op(&sparse, true), b = loss_op(&dense, false);
    assert_ok(run_op(device, &a));
    assert_ok(run_op(device, &b));
    ck_assert(sparse.sums.loss == dense.sums.loss && sparse.sums.correct == dense.sums.correct);
    ck_assert_int_eq(memcmp(sparse.dlogits.device, dense.dlogits.device, (size_t)dense.dlogits.count * 4), 0);
    free_loss(&sparse);
    free_loss(&dense);
    ls_device_close(device);
}

/* Of (rows, 2, 3, classes): those of as many rows, with the mean over the positions for each row, by its one weight. */
TEST_EACH(a_loss_of_positions_is_their_mean, 2) {
    struct ls_device *device = open_device();
    enum { ROWS = 4, POSITIONS = 6, CLASSES = 5 };
    const ls_shape shapes[] = {LS_SHAPE(ROWS, 2, 3, CLASSES), LS_SHAPE(ROWS, 2, 3)};
    struct loss flat, deep;
    double value = NAN, flat_value = NAN;
    make_loss((struct size){ROWS * POSITIONS, CLASSES}, &flat);
    make_loss((struct size){ROWS * POSITIONS, CLASSES}, &deep);
    struct pair weights = make_random(4, ROWS), repeated = make_zeros(ROWS * POSITIONS);
    for (int i = 0; i < ROWS * POSITIONS; i++) repeated.device[i] = weights.device[i / POSITIONS];
    struct ls_op want = loss_op(&flat, !_i), op = loss_op(&deep, !_i);
    flat.scale = deep.scale / POSITIONS;
    want.tensors[LS_ARG_WEIGHTS] = tensor(&repeated, LS_SHAPE(ROWS * POSITIONS));
    op.tensors[LS_ARG_WEIGHTS] = tensor(&weights, LS_SHAPE(ROWS));
    op.tensors[LS_ARG_LABELS].shape = shapes[!_i];
    op.tensors[LS_ARG_LOGITS].shape = op.tensors[LS_ARG_DLOGITS].shape = shapes[0];
    assert_ok(run_op(device, &want));
    assert_ok(run_op(device, &op));
    ck_assert_double_le(fabs(deep.sums.loss * POSITIONS - flat.sums.loss), 1e-9 * fabs(flat.sums.loss));
    ck_assert_double_le(fabs(deep.sums.weight * POSITIONS - flat.sums.weight), 1e-9);
    ck_assert(deep.sums.rows == ROWS && deep.sums.correct == flat.sums.correct);
    for (int i = 0; i < ROWS * POSITIONS * CLASSES; i++)
        ck_assert_float_le(fabsf(deep.dlogits.device[i] - flat.dlogits.device[i]), 1e-7F);
    want.kind = op.kind = LS_OP_METRIC;
    want.metric = op.metric = (ls_metric){.kind = LS_METRIC_SPARSE_CATEGORICAL_ACCURACY};
    want.tensors[LS_ARG_DLOGITS] = op.tensors[LS_ARG_DLOGITS] = (struct ls_tensor){0};
    want.value = &flat_value, op.value = &value;
    assert_ok(run_op(device, &want));
    assert_ok(run_op(device, &op));
    ck_assert_double_le(fabs(value * POSITIONS - flat_value), 1e-9);
    op.tensors[LS_ARG_LABELS].shape = LS_SHAPE(ROWS, 3, 2);
    assert_refused(device->ops->build(device, &op), "argument labels has shape (4, 3, 2");
    free_pair(&weights);
    free_pair(&repeated);
    free_loss(&flat);
    free_loss(&deep);
    ls_device_close(device);
}

/* Rows (2, 3) of positions: those with label -1, whose outputs may be anything, change nothing but the number that is
 * left out, and a row's weight counts by the part that counts. Random patterns; in the first no position counts. */
TEST_EACH(positions_without_a_label_are_left_out, 12) {
    struct ls_device *device = open_device();
    enum { ROWS = 7, POSITIONS = 6, CLASSES = 5, ALL = ROWS * POSITIONS };
    static const enum ls_op_kind kinds[] = {LS_OP_SOFTMAX_CROSSENTROPY, LS_OP_CROSSENTROPY};
    struct loss loss, one;
    double want = 0, weight = 0, value = NAN, right = 0;
    int64_t uncounted = 0;
    make_loss((struct size){ALL, CLASSES}, &loss);
    make_loss((struct size){1, CLASSES}, &one);
    struct pair weights = make_random(4, ROWS);
    for (int i = 0; _i % 2 && i < ALL * CLASSES; i++) loss.logits.device[i] = 0.1F + fabsf(loss.logits.device[i]);
    struct ls_op op = loss_op(&loss, true), single = loss_op(&one, true);
    op.kind = single.kind = kinds[_i % 2];
    op.tensors[LS_ARG_LOGITS].shape = op.tensors[LS_ARG_DLOGITS].shape = LS_SHAPE(ROWS, 2, 3, CLASSES);
    op.tensors[LS_ARG_LABELS].shape = LS_SHAPE(ROWS, 2, 3);
    op.tensors[LS_ARG_WEIGHTS] = tensor(&weights, LS_SHAPE(ROWS));
    for (int r = 0; r < ALL; r++)
        if (!_i || ls_random_bits(5, (uint64_t)_i, (uint64_t)r) % 3 == 0 || r / POSITIONS == 2) loss.labels[r] = -1;
    for (int r = 0; r < ALL; r++)
        if (loss.labels[r] < 0) loss.logits.device[r * CLASSES] = NAN;
    assert_ok(run_op(device, &op));
    for (int r = 0; r < ALL; r++) {
        const float *gradient = loss.dlogits.device + r * CLASSES;
        double part = (double)weights.device[r / POSITIONS] / POSITIONS;
        for (int c = 0; loss.labels[r] < 0 && c < CLASSES; c++) ck_assert(gradient[c] == 0);
        uncounted += loss.labels[r] < 0;
        if (loss.labels[r] < 0) continue;
        memcpy(one.logits.device, loss.logits.device + r * CLASSES, CLASSES * sizeof(float));
        one.labels[0] = loss.labels[r];
        assert_ok(run_op(device, &single));
        want += one.sums.loss * part;
        weight += part;
        right += (double)one.sums.correct * part;
        for (int c = 0; c < CLASSES; c++)
            ck_assert(fabs((double)gradient[c] - (double)one.dlogits.device[c] * part) < 1e-6);
    }
    ck_assert_double_le(fabs(loss.sums.loss - want), 1e-9 * (1 + fabs(want)));
    ck_assert_double_le(fabs(loss.sums.weight - weight), 1e-9);
    ck_assert(loss.sums.uncounted == uncounted && loss.sums.rows == ROWS && uncounted >= POSITIONS);
    op.kind = LS_OP_METRIC;
    op.metric = (ls_metric){.kind = LS_METRIC_SPARSE_CATEGORICAL_ACCURACY};
    op.tensors[LS_ARG_DLOGITS] = (struct ls_tensor){0};
    op.value = &value;
    assert_ok(run_op(device, &op));
    ck_assert_double_le(fabs(value - right), 1e-9);
    loss.labels[1] = -2;
    assert_refused(run_op(device, &op), "row 1 has label -2, but the model has 5 classes: 0 to 4");
    free_pair(&weights);
    free_loss(&loss);
    free_loss(&one);
    ls_device_close(device);
}

/* The first of equal maxima is the prediction; logits far apart stay finite. */
TEST(ties_and_extremes_stay_finite) {
    struct ls_device *device = open_device();
    struct loss loss;
    make_loss((struct size){3, 3}, &loss);
    const float logits[9] = {2, 2, 1, 1e4F, -1e4F, 0, -3e38F, -3e38F, 3e38F};
    const int32_t labels[3] = {1, 0, 2};
    memcpy(loss.logits.device, logits, sizeof(logits));
    memcpy(loss.labels, labels, sizeof(labels));
    struct ls_op op = loss_op(&loss, true);
    assert_ok(run_op(device, &op));
    ck_assert_int_eq(loss.sums.correct, 2);
    ck_assert_double_le(fabs(loss.sums.loss - 0.8619948040582511), 1e-7); /* log(2 + exp(-1)) */
    for (int i = 3; i < 9; i++) ck_assert(loss.dlogits.device[i] == 0);
    free_loss(&loss);
    ls_device_close(device);
}

/* One output that is no number makes the loss none, and its own gradient; those of other rows stay numbers. */
TEST_EACH(nan_is_not_hidden, 5) {
    static const enum ls_op_kind kinds[] = {LS_OP_SOFTMAX_CROSSENTROPY, LS_OP_CROSSENTROPY, LS_OP_SIGMOID_CROSSENTROPY,
                                            LS_OP_BINARY_CROSSENTROPY, LS_OP_SQUARED_ERROR};
    struct ls_device *device = open_device();
    for (int at = 3; at < 6; at++) {
        struct loss loss;
        make_loss((struct size){3, 3}, &loss);
        for (int i = 0; i < 9; i++) loss.logits.device[i] = 0.1F + 0.08F * (float)i;
        loss.logits.device[at] = NAN;
        struct ls_op op = loss_op(&loss, true);
        op.kind = kinds[_i];
        assert_ok(run_op(device, &op));
        ck_assert_msg(isnan(loss.sums.loss), "kind %d, output %d: loss %g", (int)op.kind, at, loss.sums.loss);
        ck_assert_msg(isnan(loss.dlogits.device[at]), "kind %d, output %d: gradient %g", (int)op.kind, at,
                      (double)loss.dlogits.device[at]);
        for (int i = 0; i < 9; i++) ck_assert(i / 3 == 1 || isfinite(loss.dlogits.device[i]));
        free_loss(&loss);
    }
    ls_device_close(device);
}

TEST(evaluation_sees_the_same_loss) {
    struct ls_device *device = open_device();
    struct loss loss, with;
    make_loss((struct size){9, 4}, &loss);
    make_loss((struct size){9, 4}, &with);
    struct ls_op op = loss_op(&loss, true), full = loss_op(&with, true);
    op.scale = NULL;
    op.tensors[LS_ARG_DLOGITS] = (struct ls_tensor){0};
    assert_ok(run_op(device, &op));
    assert_ok(run_op(device, &full));
    ck_assert(loss.sums.loss == with.sums.loss && loss.sums.correct == with.sums.correct);
    ck_assert(isnan(loss.dlogits.device[0]));
    free_loss(&loss);
    free_loss(&with);
    ls_device_close(device);
}

TEST(the_scale_is_read_at_each_run) {
    struct ls_device *device = open_device();
    struct loss loss;
    make_loss((struct size){2, 3}, &loss);
    struct ls_op op = loss_op(&loss, true);
    struct mirror mirror;
    assert_ok(mirror_build(&mirror, device, &op));
    assert_ok(mirror_run(&mirror));
    float before = loss.dlogits.device[1];
    loss.scale *= 2;
    assert_ok(mirror_run(&mirror));
    ck_assert(loss.dlogits.device[1] == 2 * before && before != 0);
    mirror_discard(&mirror);
    free_loss(&loss);
    ls_device_close(device);
}

TEST(a_bad_label_is_named) {
    struct ls_device *device = open_device();
    struct loss loss;
    make_loss((struct size){4, 3}, &loss);
    struct ls_op op = loss_op(&loss, true), expand = {.kind = LS_OP_ONE_HOT};
    expand.tensors[LS_ARG_LABELS] = op.tensors[LS_ARG_LABELS];
    expand.tensors[LS_ARG_ONE_HOT] = tensor(&loss.one_hot, LS_SHAPE(4, 3));
    loss.labels[2] = 3;
    assert_refused(run_op(device, &op), "row 2 has label 3, but the model has 3 classes: 0 to 2");
    assert_refused(run_op(device, &expand), "row 2 has label 3");
    loss.labels[1] = -1;
    assert_refused(run_op(device, &op), "row 1 has label -1");
    op.sums = NULL;
    assert_refused(device->ops->build(device, &op), "sums is missing");
    op = loss_op(&loss, true);
    op.scale = NULL;
    assert_refused(device->ops->build(device, &op), "scale is missing");
    free_loss(&loss);
    ls_device_close(device);
}

TEST_EACH(one_hot_equals_the_oracle, SIZE_COUNT) {
    struct ls_device *device = open_device();
    struct loss loss;
    make_loss(sizes[_i], &loss);
    struct pair made = make_pair(loss.one_hot.count);
    struct ls_op op = {.kind = LS_OP_ONE_HOT};
    op.tensors[LS_ARG_LABELS] = (struct ls_tensor){loss.labels, LS_INT32, LS_SHAPE(loss.size.rows)};
    op.tensors[LS_ARG_ONE_HOT] = tensor(&made, LS_SHAPE(loss.size.rows, loss.size.classes));
    assert_ok(run_op(device, &op));
    ck_assert_int_eq(memcmp(made.device, loss.one_hot.device, (size_t)made.count * sizeof(float)), 0);
    free_pair(&made);
    free_loss(&loss);
    ls_device_close(device);
}

TEST_EACH(relu_equals_the_oracle, 12) {
    struct ls_device *device = open_device();
    int64_t count = 3 * _i * _i + 1;
    struct pair x = make_random(1, count), y = make_pair(count), dy = make_random(2, count), dx = make_pair(count);
    struct ls_op forward = {.kind = LS_OP_ACTIVATION_FORWARD, .activation = LS_RELU};
    struct ls_op backward = {.kind = LS_OP_ACTIVATION_BACKWARD, .activation = LS_RELU};
    x.device[0] = 0, x.oracle[0] = 0;
    forward.tensors[LS_ARG_X] = tensor(&x, LS_SHAPE(1, count));
    forward.tensors[LS_ARG_Y] = backward.tensors[LS_ARG_Y] = tensor(&y, LS_SHAPE(1, count));
    backward.tensors[LS_ARG_DY] = tensor(&dy, LS_SHAPE(1, count));
    backward.tensors[LS_ARG_DX] = tensor(&dx, LS_SHAPE(1, count));
    assert_ok(run_op(device, &forward));
    assert_ok(run_op(device, &backward));
    reference_relu_forward(x.oracle, y.oracle, count);
    reference_relu_backward(y.oracle, dy.oracle, dx.oracle, count);
    assert_pair("y", &y);
    assert_pair("dx", &dx);
    forward.tensors[LS_ARG_Y].shape = LS_SHAPE(count);
    assert_refused(device->ops->build(device, &forward), "activation forward: argument y has shape");
    struct pair *pairs[] = {&x, &y, &dy, &dx};
    for (int i = 0; i < 4; i++) free_pair(pairs[i]);
    ls_device_close(device);
}

TESTS("loss")
