/* ReLU, softmax cross-entropy and one-hot against the oracle; ties, extremes and bad labels. */
#include "device/op_fixture.h"
#include "device/reference.h"
#include "harness.h"

static const struct size { int64_t rows, classes; } sizes[] = {{1, 1}, {1, 10}, {64, 10}, {7, 3}, {5, 1001}, {129, 2}};
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
    ck_assert_int_eq(run_op(device, &op), LS_OK);
    assert_pair("dlogits", &loss->dlogits);
    ck_assert_double_le(fabs(loss->sums.loss - sums.loss), 1e-6 * fabs(sums.loss));
    ck_assert_int_eq(loss->sums.correct, sums.correct);
    ck_assert_int_eq(loss->sums.rows, loss->size.rows);
}

START_TEST(test_oracle) {
    struct ls_device *device = open_device();
    for (int sparse = 0; sparse < 2; sparse++) {
        struct loss loss;
        make_loss(sizes[_i], &loss);
        check_against_oracle(device, &loss, sparse);
        free_loss(&loss);
    }
    ls_device_close(device);
}
END_TEST

START_TEST(test_one_hot_is_sparse) {
    struct ls_device *device = open_device();
    struct loss sparse, dense;
    make_loss(sizes[_i], &sparse);
    make_loss(sizes[_i], &dense);
    struct ls_op a = loss_op(&sparse, true), b = loss_op(&dense, false);
    ck_assert_int_eq(run_op(device, &a), LS_OK);
    ck_assert_int_eq(run_op(device, &b), LS_OK);
    ck_assert(sparse.sums.loss == dense.sums.loss && sparse.sums.correct == dense.sums.correct);
    ck_assert_int_eq(memcmp(sparse.dlogits.device, dense.dlogits.device, (size_t)dense.dlogits.count * 4), 0);
    free_loss(&sparse);
    free_loss(&dense);
    ls_device_close(device);
}
END_TEST

/* The first of equal maxima is the prediction; logits far apart stay finite. */
START_TEST(test_ties_and_extremes) {
    struct ls_device *device = open_device();
    struct loss loss;
    make_loss((struct size){3, 3}, &loss);
    const float logits[9] = {2, 2, 1, 1e4F, -1e4F, 0, -3e38F, -3e38F, 3e38F};
    const int32_t labels[3] = {1, 0, 2};
    memcpy(loss.logits.device, logits, sizeof(logits));
    memcpy(loss.labels, labels, sizeof(labels));
    struct ls_op op = loss_op(&loss, true);
    ck_assert_int_eq(run_op(device, &op), LS_OK);
    ck_assert_int_eq(loss.sums.correct, 2);
    ck_assert_double_le(fabs(loss.sums.loss - 0.8619948040582511), 1e-7); /* log(2 + exp(-1)) */
    for (int i = 3; i < 9; i++) ck_assert(loss.dlogits.device[i] == 0);
    free_loss(&loss);
    ls_device_close(device);
}
END_TEST

START_TEST(test_evaluation) {
    struct ls_device *device = open_device();
    struct loss loss, with;
    make_loss((struct size){9, 4}, &loss);
    make_loss((struct size){9, 4}, &with);
    struct ls_op op = loss_op(&loss, true), full = loss_op(&with, true);
    op.scale = NULL;
    op.tensors[LS_ARG_DLOGITS] = (struct ls_tensor){0};
    ck_assert_int_eq(run_op(device, &op), LS_OK);
    ck_assert_int_eq(run_op(device, &full), LS_OK);
    ck_assert(loss.sums.loss == with.sums.loss && loss.sums.correct == with.sums.correct);
    ck_assert(isnan(loss.dlogits.device[0]));
    free_loss(&loss);
    free_loss(&with);
    ls_device_close(device);
}
END_TEST

START_TEST(test_scale_is_read_at_each_run) {
    struct ls_device *device = open_device();
    struct loss loss;
    make_loss((struct size){2, 3}, &loss);
    struct ls_op op = loss_op(&loss, true);
    struct mirror mirror;
    ck_assert_int_eq(mirror_build(&mirror, device, &op), LS_OK);
    ck_assert_int_eq(mirror_run(&mirror), LS_OK);
    float before = loss.dlogits.device[1];
    loss.scale *= 2;
    ck_assert_int_eq(mirror_run(&mirror), LS_OK);
    ck_assert(loss.dlogits.device[1] == 2 * before && before != 0);
    mirror_discard(&mirror);
    free_loss(&loss);
    ls_device_close(device);
}
END_TEST

START_TEST(test_bad_labels) {
    struct ls_device *device = open_device();
    struct loss loss;
    make_loss((struct size){4, 3}, &loss);
    struct ls_op op = loss_op(&loss, true), expand = {.kind = LS_OP_ONE_HOT};
    expand.tensors[LS_ARG_LABELS] = op.tensors[LS_ARG_LABELS];
    expand.tensors[LS_ARG_ONE_HOT] = tensor(&loss.one_hot, LS_SHAPE(4, 3));
    loss.labels[2] = 3;
    assert_fails(run_op(device, &op), "row 2 has label 3, but the model has 3 classes: 0 to 2");
    assert_fails(run_op(device, &expand), "row 2 has label 3");
    loss.labels[1] = -1;
    assert_fails(run_op(device, &op), "row 1 has label -1");
    op.sums = NULL;
    assert_fails(device->ops->build(device, &op), "sums is missing");
    op = loss_op(&loss, true);
    op.scale = NULL;
    assert_fails(device->ops->build(device, &op), "scale is missing");
    free_loss(&loss);
    ls_device_close(device);
}
END_TEST

START_TEST(test_one_hot) {
    struct ls_device *device = open_device();
    struct loss loss;
    make_loss(sizes[_i], &loss);
    struct pair made = make_pair(loss.one_hot.count);
    struct ls_op op = {.kind = LS_OP_ONE_HOT};
    op.tensors[LS_ARG_LABELS] = (struct ls_tensor){loss.labels, LS_INT32, LS_SHAPE(loss.size.rows)};
    op.tensors[LS_ARG_ONE_HOT] = tensor(&made, LS_SHAPE(loss.size.rows, loss.size.classes));
    ck_assert_int_eq(run_op(device, &op), LS_OK);
    ck_assert_int_eq(memcmp(made.device, loss.one_hot.device, (size_t)made.count * sizeof(float)), 0);
    free_pair(&made);
    free_loss(&loss);
    ls_device_close(device);
}
END_TEST

START_TEST(test_relu) {
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
    ck_assert_int_eq(run_op(device, &forward), LS_OK);
    ck_assert_int_eq(run_op(device, &backward), LS_OK);
    reference_relu_forward(x.oracle, y.oracle, count);
    reference_relu_backward(y.oracle, dy.oracle, dx.oracle, count);
    assert_pair("y", &y);
    assert_pair("dx", &dx);
    forward.tensors[LS_ARG_Y].shape = LS_SHAPE(count);
    assert_fails(device->ops->build(device, &forward), "activation forward: argument y has shape");
    struct pair *pairs[] = {&x, &y, &dy, &dx};
    for (int i = 0; i < 4; i++) free_pair(pairs[i]);
    ls_device_close(device);
}
END_TEST

int main(void) {
    Suite *suite = suite_create("loss");
    TCase *tests = tcase_create("loss");
    tcase_add_loop_test(tests, test_oracle, 0, SIZE_COUNT);
    tcase_add_loop_test(tests, test_one_hot_is_sparse, 0, SIZE_COUNT);
    tcase_add_loop_test(tests, test_one_hot, 0, SIZE_COUNT);
    tcase_add_loop_test(tests, test_relu, 0, 12);
    tcase_add_test(tests, test_ties_and_extremes);
    tcase_add_test(tests, test_evaluation);
    tcase_add_test(tests, test_scale_is_read_at_each_run);
    tcase_add_test(tests, test_bad_labels);
    suite_add_tcase(suite, tests);
    return run_suite(suite);
}
