/* Batch normalization against the oracle, fused and not; the oracle against finite differences; the same bits with any
 * number of threads. */
#include "base/status.h"
#include "device/op_fixture.h"
#include "device/reference_image.h"
#include "harness.h"

extern void omp_set_num_threads(int count);

static const struct size {
    int64_t rows, channels;
} sizes[] = {{6, 1},     {7, 3},    {49, 16},  {50, 17}, {300, 5},  {1000, 33}, {40, 1280},
             {30, 3000}, {4097, 2}, {700, 64}, {5, 8},   {2051, 8}, {771, 24},  {333, 40}};
#define SIZE_COUNT ((int)(sizeof(sizes) / sizeof(sizes[0])))
static const ls_activation activations[] = {LS_LINEAR, LS_RELU, LS_RELU6};
#define VARIANTS 6 /* three activations, without and with a residual */
/* Under a sanitizer every second one, dealt out over the sizes. */
#define EACH_VARIANT(variant)                                                                                          \
    int variant = SANITIZED ? _i % 2 : 0;                                                                              \
    variant < VARIANTS;                                                                                                \
    variant += 1 + SANITIZED

struct norm {
    int64_t rows, channels;
    ls_activation activation;
    bool residual;
    float scale;
    struct reference_norm oracle;
    struct pair x, gamma, beta, r, y, mean, variance, saved, shifts, dmean, dvariance, dy, dx, dr, dgamma, dbeta;
};

/* x is far from 0, as after a convolution without bias; some of y is above 6. */
static struct norm make_norm(struct size size, int variant) {
    int64_t count = size.rows * size.channels, c = size.channels;
    struct norm n = {size.rows,
                     c,
                     activations[variant % 3],
                     variant >= 3,
                     0.25F / (float)size.rows,
                     {0},
                     make_random(1, count),
                     make_random(2, c),
                     make_random(3, c),
                     make_random(4, count),
                     make_pair(count),
                     make_random(5, c),
                     make_random(6, c),
                     make_pair(2 * c),
                     make_pair(2 * c),
                     make_pair(c),
                     make_pair(c),
                     make_random(7, count),
                     make_pair(count),
                     make_pair(count),
                     make_pair(c),
                     make_pair(c)};
    for (int64_t i = 0; i < count; i++) n.x.oracle[i] = (double)(n.x.device[i] = n.x.device[i] * 2 + 30);
    for (int64_t i = 0; i < c; i++) {
        n.gamma.oracle[i] = (double)(n.gamma.device[i] = 3 * n.gamma.device[i]);
        n.variance.oracle[i] = (double)(n.variance.device[i] = n.variance.device[i] * n.variance.device[i]);
    }
    return n;
}

static void free_norm(struct norm *n) {
    struct pair *pairs[] = {&n->x,      &n->gamma, &n->beta,      &n->r,  &n->y,  &n->mean, &n->variance, &n->saved,
                            &n->shifts, &n->dmean, &n->dvariance, &n->dy, &n->dx, &n->dr,   &n->dgamma,   &n->dbeta};
    for (size_t i = 0; i < sizeof(pairs) / sizeof(pairs[0]); i++) free_pair(pairs[i]);
}

static struct reference_norm oracle_of(const struct norm *n, double *mean, double *variance) {
    return (struct reference_norm){n->rows,
                                   n->channels,
                                   (double)0.001F,
                                   n->activation == LS_LINEAR ? (double)-INFINITY : 0,
                                   n->activation == LS_RELU6 ? 6 : (double)INFINITY,
                                   n->x.oracle,
                                   n->gamma.oracle,
                                   n->beta.oracle,
                                   n->residual ? n->r.oracle : NULL,
                                   n->y.oracle,
                                   mean,
                                   variance,
                                   n->dy.oracle,
                                   n->dx.oracle,
                                   n->dgamma.oracle,
                                   n->dbeta.oracle,
                                   n->dr.oracle};
}

static struct ls_op norm_op(const struct norm *n, enum ls_op_kind kind) {
    struct ls_op op = {
        .kind = kind, .activation = n->activation, .epsilon = 0.001F, .momentum = 0.9F, .scale = &n->scale};
    ls_shape image = LS_SHAPE(n->rows, n->channels), c = LS_SHAPE(n->channels);
    op.tensors[LS_ARG_X] = tensor(&n->x, image);
    op.tensors[LS_ARG_GAMMA] = tensor(&n->gamma, c);
    op.tensors[LS_ARG_BETA] = tensor(&n->beta, c);
    op.tensors[LS_ARG_Y] = tensor(&n->y, image);
    op.tensors[LS_ARG_SAVED] = tensor(&n->saved, LS_SHAPE(2, n->channels));
    op.tensors[LS_ARG_SHIFTS] = tensor(&n->shifts, LS_SHAPE(2, n->channels));
    op.tensors[LS_ARG_MEAN] = tensor(&n->mean, c);
    op.tensors[LS_ARG_VARIANCE] = tensor(&n->variance, c);
    op.tensors[LS_ARG_DMEAN] = tensor(&n->dmean, c);
    op.tensors[LS_ARG_DVARIANCE] = tensor(&n->dvariance, c);
    op.tensors[LS_ARG_DY] = tensor(&n->dy, image);
    op.tensors[LS_ARG_DX] = tensor(&n->dx, image);
    op.tensors[LS_ARG_DGAMMA] = tensor(&n->dgamma, c);
    op.tensors[LS_ARG_DBETA] = tensor(&n->dbeta, c);
    if (n->residual) op.tensors[LS_ARG_R] = tensor(&n->r, image);
    if (n->residual && n->activation != LS_LINEAR) op.tensors[LS_ARG_DR] = tensor(&n->dr, image);
    return op;
}

static void run_kind(struct ls_device *device, const struct norm *n, enum ls_op_kind kind) {
    struct ls_op op = norm_op(n, kind);
    assert_ok(run_op(device, &op));
}

static double *doubles(int64_t count) {
    double *made = ls_alloc_array((size_t)count, sizeof(double));
    ck_assert_ptr_nonnull(made);
    return made;
}

/* The change of the moving statistics is (1 - momentum) (batch - moving) times the replica's share: a quarter. */
static void check_moving(const struct norm *n, const double *mean, const double *variance) {
    for (int64_t c = 0; c < n->channels; c++) {
        n->dmean.oracle[c] = (1 - (double)0.9F) * (mean[c] - n->mean.oracle[c]) / 4;
        n->dvariance.oracle[c] = (1 - (double)0.9F) * (variance[c] - n->variance.oracle[c]) / 4;
    }
    assert_pair("dmean", &n->dmean);
    assert_pair("dvariance", &n->dvariance);
}

static void check_backward(const struct norm *n) {
    if (n->residual && n->activation != LS_LINEAR) assert_pair("dresidual", &n->dr);
    assert_pair("dgamma", &n->dgamma);
    assert_pair("dbeta", &n->dbeta);
    assert_pair("dx", &n->dx);
}

/* No gradient where an element lies so near to the ends of the activation that rounding decides. */
static void clear_edges(const struct norm *n, struct reference_norm oracle) {
    oracle.low = (double)-INFINITY, oracle.high = (double)INFINITY;
    reference_norm_forward(&oracle);
    for (int64_t i = 0; i < n->y.count; i++)
        if (fabs(oracle.y[i]) < 1e-3 || fabs(oracle.y[i] - 6) < 1e-3) n->dy.oracle[i] = n->dy.device[i] = 0;
}

TEST_EACH(training_equals_the_oracle, SIZE_COUNT) {
    struct ls_device *device = open_device();
    for (EACH_VARIANT(variant)) {
        struct norm n = make_norm(sizes[_i], variant);
        double *mean = doubles(n.channels), *variance = doubles(n.channels);
        struct reference_norm oracle = oracle_of(&n, mean, variance);
        clear_edges(&n, oracle);
        reference_norm_forward(&oracle);
        reference_norm_backward(&oracle);
        run_kind(device, &n, LS_OP_BATCH_NORM_FORWARD);
        assert_pair("y", &n.y);
        check_moving(&n, mean, variance);
        run_kind(device, &n, LS_OP_BATCH_NORM_BACKWARD);
        check_backward(&n);
        ls_free(mean), ls_free(variance);
        free_norm(&n);
    }
    ls_device_close(device);
}

TEST_EACH(inference_equals_the_oracle, SIZE_COUNT) {
    struct ls_device *device = open_device();
    for (EACH_VARIANT(variant)) {
        struct norm n = make_norm(sizes[_i], variant);
        run_kind(device, &n, LS_OP_BATCH_NORM_INFERENCE);
        for (int64_t i = 0; i < n.y.count; i++) {
            int64_t c = i % n.channels;
            double scaled = (n.x.oracle[i] - n.mean.oracle[c]) / sqrt(n.variance.oracle[c] + (double)0.001F);
            double y = scaled * n.gamma.oracle[c] + n.beta.oracle[c] + (n.residual ? n.r.oracle[i] : 0);
            n.y.oracle[i] =
                n.activation == LS_LINEAR ? y : fmin(fmax(y, 0), n.activation == LS_RELU6 ? 6 : (double)INFINITY);
        }
        assert_pair("y", &n.y);
        free_norm(&n);
    }
    ls_device_close(device);
}

TEST_EACH(another_run_gives_the_same_bits, SIZE_COUNT) {
    struct ls_device *device = open_device();
    struct norm n = make_norm(sizes[_i], 5);
    run_kind(device, &n, LS_OP_BATCH_NORM_FORWARD);
    struct pair first = n.y;
    n.y = make_pair(first.count);
    run_kind(device, &n, LS_OP_BATCH_NORM_AGAIN);
    ck_assert_int_eq(memcmp(first.device, n.y.device, (size_t)first.count * sizeof(float)), 0);
    free_pair(&first);
    free_norm(&n);
    ls_device_close(device);
}

/* dx over dy, dresidual over dy, y over the residual. */
TEST_EACH(results_in_place_have_the_same_bits, SIZE_COUNT) {
    struct ls_device *device = open_device();
    struct norm apart = make_norm(sizes[_i], 5), together = make_norm(sizes[_i], 5);
    run_kind(device, &apart, LS_OP_BATCH_NORM_FORWARD);
    run_kind(device, &apart, LS_OP_BATCH_NORM_BACKWARD);
    struct ls_op forward = norm_op(&together, LS_OP_BATCH_NORM_FORWARD);
    struct ls_op backward = norm_op(&together, LS_OP_BATCH_NORM_BACKWARD);
    forward.tensors[LS_ARG_Y] = backward.tensors[LS_ARG_Y] = forward.tensors[LS_ARG_R];
    backward.tensors[LS_ARG_DR] = backward.tensors[LS_ARG_DY];
    assert_ok(run_op(device, &forward));
    assert_ok(run_op(device, &backward));
    size_t size = (size_t)apart.x.count * sizeof(float);
    ck_assert_int_eq(memcmp(apart.y.device, together.r.device, size), 0);
    ck_assert_int_eq(memcmp(apart.dr.device, together.dy.device, size), 0);
    ck_assert_int_eq(memcmp(apart.dx.device, together.dx.device, size), 0);
    free_norm(&apart);
    free_norm(&together);
    ls_device_close(device);
}

/* ---- statistics of all replicas ---- */

/* Another replica has just the same. */
static ls_status add_the_same(void *context, double *values, size_t count) {
    const struct norm *n = context;
    ck_assert_uint_eq(count, 2 * (size_t)n->channels + 1);
    ck_assert(values[count - 1] == (double)n->rows);
    for (size_t i = 0; i < count; i++) values[i] *= 2;
    return LS_OK;
}

/* So means and variances are those of one; this replica's gradients of gamma and beta are its own. */
TEST_EACH(sums_of_two_replicas_are_those_of_one, SIZE_COUNT) {
    struct ls_device *device = open_device();
    for (EACH_VARIANT(variant)) {
        struct norm n = make_norm(sizes[_i], variant);
        double *mean = doubles(n.channels), *variance = doubles(n.channels);
        struct reference_norm oracle = oracle_of(&n, mean, variance);
        struct ls_exchange exchange = {add_the_same, &n};
        struct ls_op forward = norm_op(&n, LS_OP_BATCH_NORM_FORWARD), backward = norm_op(&n, LS_OP_BATCH_NORM_BACKWARD);
        forward.exchange = backward.exchange = &exchange;
        clear_edges(&n, oracle);
        reference_norm_forward(&oracle);
        reference_norm_backward(&oracle);
        assert_ok(run_op(device, &forward));
        assert_ok(run_op(device, &backward));
        assert_pair("y", &n.y);
        check_moving(&n, mean, variance);
        check_backward(&n);
        ls_free(mean), ls_free(variance);
        free_norm(&n);
    }
    ls_device_close(device);
}

static ls_status fail_to_add(void *context, double *values, size_t count) {
    (void)context, (void)values, (void)count;
    return ls_fail(LS_ABORTED, "the other replica is lost");
}

TEST_EACH(a_failed_exchange_is_passed_on, 2) {
    struct ls_device *device = open_device();
    struct norm n = make_norm(sizes[_i], 0);
    struct ls_exchange exchange = {fail_to_add, NULL};
    for (int k = 0; k < 2; k++) {
        struct ls_op op = norm_op(&n, k ? LS_OP_BATCH_NORM_BACKWARD : LS_OP_BATCH_NORM_FORWARD);
        op.exchange = &exchange;
        assert_fails(run_op(device, &op), LS_ABORTED, "the other replica is lost");
        run_kind(device, &n, LS_OP_BATCH_NORM_FORWARD);
    }
    free_norm(&n);
    ls_device_close(device);
}

/* The moving variance of TensorFlow's fused kernel is over one value less, where there is more than one. */
TEST(the_fused_variance_is_that_of_tensorflow) {
    struct ls_device *device = open_device();
    for (int64_t rows = 1; rows < 4; rows++) {
        struct norm n = make_norm((struct size){rows, 5}, 0);
        double *mean = doubles(n.channels), *variance = doubles(n.channels);
        struct reference_norm oracle = oracle_of(&n, mean, variance);
        struct ls_op op = norm_op(&n, LS_OP_BATCH_NORM_FORWARD);
        op.fused = true;
        reference_norm_forward(&oracle);
        assert_ok(run_op(device, &op));
        for (int64_t c = 0; rows > 1 && c < n.channels; c++) variance[c] *= (double)rows / (double)(rows - 1);
        check_moving(&n, mean, variance);
        ls_free(mean), ls_free(variance);
        free_norm(&n);
    }
    ls_device_close(device);
}

TEST_EACH(threads_change_no_bit, SIZE_COUNT) {
    struct norm runs[3];
    for (int i = 0; i < 3; i++) {
        struct ls_device *device = open_device();
        runs[i] = make_norm(sizes[_i], 2);
        omp_set_num_threads(i + 1);
        run_kind(device, &runs[i], LS_OP_BATCH_NORM_FORWARD);
        run_kind(device, &runs[i], LS_OP_BATCH_NORM_BACKWARD);
        ls_device_close(device);
    }
    for (int i = 1; i < 3; i++) {
        ck_assert_int_eq(memcmp(runs[0].y.device, runs[i].y.device, (size_t)runs[0].y.count * sizeof(float)), 0);
        ck_assert_int_eq(memcmp(runs[0].dx.device, runs[i].dx.device, (size_t)runs[0].dx.count * sizeof(float)), 0);
        ck_assert_int_eq(memcmp(runs[0].dgamma.device, runs[i].dgamma.device, (size_t)runs[0].channels * sizeof(float)),
                         0);
    }
    for (int i = 0; i < 3; i++) free_norm(&runs[i]);
}

TEST_RANGE(the_oracle_agrees_with_differences, 1, 4) {
    for (EACH_VARIANT(variant)) {
        struct norm n = make_norm(sizes[_i], variant);
        double *mean = doubles(n.channels), *variance = doubles(n.channels);
        struct reference_norm oracle = oracle_of(&n, mean, variance);
        clear_edges(&n, oracle);
        reference_norm_forward(&oracle);
        reference_norm_backward(&oracle);
        for (int64_t i = 0; i < n.x.count; i += 1 + n.x.count / 20) {
            double held = n.x.oracle[i], sums[2] = {0};
            for (int side = 0; side < 2; side++) {
                n.x.oracle[i] = held + (side ? 1e-6 : -1e-6);
                reference_norm_forward(&oracle);
                for (int64_t k = 0; k < n.y.count; k++) sums[side] += n.y.oracle[k] * n.dy.oracle[k];
            }
            n.x.oracle[i] = held;
            ck_assert_double_le(fabs((sums[1] - sums[0]) / 2e-6 - n.dx.oracle[i]), 1e-5);
        }
        ls_free(mean), ls_free(variance);
        free_norm(&n);
    }
}

/* Memory that is aligned to a float only, as far as threads take several at once elsewhere. */
TEST_EACH(misaligned_memory_is_computed, SIZE_COUNT) {
    struct ls_device *device = open_device();
    struct norm n = make_norm(sizes[_i], 1);
    double *mean = doubles(n.channels), *variance = doubles(n.channels);
    struct reference_norm oracle = oracle_of(&n, mean, variance);
    struct ls_op forward = norm_op(&n, LS_OP_BATCH_NORM_FORWARD), backward = norm_op(&n, LS_OP_BATCH_NORM_BACKWARD);
    struct pair moved = make_pair(n.x.count + 1);
    clear_edges(&n, oracle);
    reference_norm_forward(&oracle);
    reference_norm_backward(&oracle);
    memcpy(moved.device + 1, n.x.device, (size_t)n.x.count * sizeof(float));
    forward.tensors[LS_ARG_X].data = backward.tensors[LS_ARG_X].data = moved.device + 1;
    assert_ok(run_op(device, &forward));
    assert_ok(run_op(device, &backward));
    assert_pair("y", &n.y);
    check_moving(&n, mean, variance);
    check_backward(&n);
    ls_free(mean), ls_free(variance);
    free_pair(&moved);
    free_norm(&n);
    ls_device_close(device);
}

/* A GPU takes a batch as a whole. */
TEST(only_host_memory_takes_parts) {
    struct ls_device *device = open_device();
    struct norm n = make_norm(sizes[2], 0);
    struct ls_op op = norm_op(&n, LS_OP_BATCH_NORM_AGAIN);
    op.parts = 2;
    ck_assert_int_eq(run_op(device, &op), device->host_memory ? LS_OK : LS_UNIMPLEMENTED);
    free_norm(&n);
    ls_device_close(device);
}

TEST(misuse_is_named) {
    struct ls_device *device = open_device();
    struct norm n = make_norm(sizes[2], 4);
    struct ls_op good = norm_op(&n, LS_OP_BATCH_NORM_FORWARD), op = good;
    op.scale = NULL;
    assert_refused(device->ops->build(device, &op), "batch norm forward: scale is missing");
    op = good;
    op.tensors[LS_ARG_SAVED].data = NULL;
    assert_refused(device->ops->build(device, &op), "argument saved is missing");
    op = good;
    op.activation = LS_TANH;
    assert_refused(device->ops->build(device, &op), "activation 5 is none that this op has");
    op = norm_op(&n, LS_OP_BATCH_NORM_BACKWARD);
    op.tensors[LS_ARG_Y].data = NULL;
    assert_refused(device->ops->build(device, &op), "argument y is missing");
    op = norm_op(&n, LS_OP_BATCH_NORM_INFERENCE);
    op.tensors[LS_ARG_VARIANCE].shape = LS_SHAPE(3);
    assert_refused(device->ops->build(device, &op), "argument variance has shape (3), but must have (16)");
    free_norm(&n);
    ls_device_close(device);
}

TESTS("batch_norm", .seconds = 60)
