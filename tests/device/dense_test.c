/* Dense ops against the oracle over many shapes; equal bits again, elsewhere in memory, and on another device. */
#include <pthread.h>

#include "base/half.h"
#include "device/op_fixture.h"
#include "device/reference.h"
#include "harness.h"

static const struct size {
    int64_t rows, in, out;
} sizes[] = {{1, 1, 1},    {1, 5, 3},    {7, 1, 4},    {5, 9, 1},    {64, 784, 128}, {3, 17, 1},
             {33, 31, 29}, {2, 256, 10}, {130, 7, 65}, {2, 1030, 3}, {1040, 5, 4}};
/* The last two are too deep for a GPU's kernels of small layers: forward's product, and backward's. */
#define SIZE_COUNT ((int)(sizeof(sizes) / sizeof(sizes[0])))

struct dense {
    struct size size;
    ls_activation activation;
    struct pair x, w, b, y, dy, dx, dw, db;
    bool bfloat16;
};

static struct dense make_dense(struct size size, ls_activation activation) {
    return (struct dense){.size = size,
                          .activation = activation,
                          .x = make_random(1, size.rows * size.in),
                          .w = make_random(2, size.in * size.out),
                          .b = make_random(3, size.out),
                          .y = make_pair(size.rows * size.out),
                          .dy = make_random(4, size.rows * size.out),
                          .dx = make_pair(size.rows * size.in),
                          .dw = make_pair(size.in * size.out),
                          .db = make_pair(size.out)};
}

static void free_dense(struct dense *d) {
    struct pair *pairs[] = {&d->x, &d->w, &d->b, &d->y, &d->dy, &d->dx, &d->dw, &d->db};
    for (size_t i = 0; i < sizeof(pairs) / sizeof(pairs[0]); i++) free_pair(pairs[i]);
}

static struct ls_op dense_op(const struct dense *d, enum ls_op_kind kind) {
    struct ls_op op = {.kind = kind, .activation = d->activation, .bfloat16 = d->bfloat16};
    op.tensors[LS_ARG_X] = tensor(&d->x, LS_SHAPE(d->size.rows, d->size.in));
    op.tensors[LS_ARG_W] = tensor(&d->w, LS_SHAPE(d->size.in, d->size.out));
    op.tensors[LS_ARG_B] = tensor(&d->b, LS_SHAPE(d->size.out));
    op.tensors[LS_ARG_Y] = tensor(&d->y, LS_SHAPE(d->size.rows, d->size.out));
    op.tensors[LS_ARG_DY] = tensor(&d->dy, LS_SHAPE(d->size.rows, d->size.out));
    op.tensors[LS_ARG_DX] = tensor(&d->dx, LS_SHAPE(d->size.rows, d->size.in));
    op.tensors[LS_ARG_DW] = tensor(&d->dw, LS_SHAPE(d->size.in, d->size.out));
    op.tensors[LS_ARG_DB] = tensor(&d->db, LS_SHAPE(d->size.out));
    return op;
}

static void run_dense(struct ls_device *device, const struct dense *d) {
    struct ls_op forward = dense_op(d, LS_OP_DENSE_FORWARD), backward = dense_op(d, LS_OP_DENSE_BACKWARD);
    assert_ok(run_op(device, &forward));
    assert_ok(run_op(device, &backward));
}

static struct reference_dense oracle_of(const struct dense *d) {
    return (struct reference_dense){.rows = d->size.rows,
                                    .in = d->size.in,
                                    .out = d->size.out,
                                    .relu = d->activation == LS_RELU,
                                    .x = d->x.oracle,
                                    .w = d->w.oracle,
                                    .b = d->b.oracle,
                                    .y = d->y.oracle,
                                    .dy = d->dy.oracle,
                                    .dx = d->dx.oracle,
                                    .dw = d->dw.oracle,
                                    .db = d->db.oracle};
}

static void check_against_oracle(struct ls_device *device, struct dense *d) {
    struct reference_dense oracle = oracle_of(d);
    run_dense(device, d);
    reference_dense_forward(&oracle);
    assert_pair("y", &d->y);
    for (int64_t i = 0; i < d->y.count; i++) d->y.oracle[i] = (double)d->y.device[i]; /* the same mask near 0 */
    reference_dense_backward(&oracle);
    assert_pair("dx", &d->dx);
    assert_pair("dw", &d->dw);
    assert_pair("db", &d->db);
}

TEST_EACH(dense_ops_equal_the_oracle, SIZE_COUNT) {
    struct ls_device *device = open_device();
    for (int relu = 0; relu < 2; relu++) {
        struct dense dense = make_dense(sizes[_i], relu ? LS_RELU : LS_LINEAR);
        check_against_oracle(device, &dense);
        free_dense(&dense);
    }
    ls_device_close(device);
}

static void assert_same_bits(const struct dense *a, const struct dense *b) {
    const struct pair *left[] = {&a->y, &a->dx, &a->dw, &a->db};
    const struct pair *right[] = {&b->y, &b->dx, &b->dw, &b->db};
    for (size_t i = 0; i < sizeof(left) / sizeof(left[0]); i++)
        ck_assert_int_eq(memcmp(left[i]->device, right[i]->device, (size_t)left[i]->count * sizeof(float)), 0);
}

/* ---- factors of bfloat16 ---- */

/* The product of the processor; without AVX-512 oneDNN has none, and says so. */
static bool has_bfloat16(struct ls_device *device) {
    struct dense one = make_dense((struct size){1, 1, 1}, LS_LINEAR);
    struct ls_op op = dense_op(&one, LS_OP_DENSE_FORWARD);
    op.bfloat16 = true;
    ls_status status = device->rounds_factors ? run_op(device, &op) : LS_UNIMPLEMENTED;
    if (device->rounds_factors && status) assert_fails(status, LS_UNIMPLEMENTED, "needs AVX-512");
    free_dense(&one);
    return !status;
}

static void round_pair(struct pair *pair) {
    for (int64_t i = 0; i < pair->count; i++)
        pair->oracle[i] = (double)ls_half_bfloat16_to_float(ls_half_bfloat16_from_float(pair->device[i]));
}

/* db is a sum, so it takes what is not rounded. */
TEST_EACH(factors_are_rounded_to_bfloat16, SIZE_COUNT) {
    struct ls_device *device = open_device();
    struct dense dense = make_dense(sizes[_i], LS_LINEAR), exact = make_dense(sizes[_i], LS_LINEAR);
    dense.bfloat16 = true;
    if (has_bfloat16(device)) {
        struct reference_dense oracle = oracle_of(&dense);
        round_pair(&dense.x);
        round_pair(&dense.w);
        round_pair(&dense.dy);
        run_dense(device, &dense);
        run_dense(device, &exact);
        reference_dense_forward(&oracle);
        reference_dense_backward(&oracle);
        assert_pair("y", &dense.y);
        assert_pair("dx", &dense.dx);
        assert_pair("dw", &dense.dw);
        ck_assert_mem_eq(dense.db.device, exact.db.device, (size_t)dense.db.count * sizeof(float));
        ck_assert(memcmp(dense.dw.device, exact.dw.device, (size_t)dense.dw.count * sizeof(float)) != 0);
    }
    free_dense(&dense);
    free_dense(&exact);
    ls_device_close(device);
}

TEST_EACH(threads_change_no_bit_of_bfloat16, 12) {
    struct ls_device *devices[LS_MAX_LOCAL_DEVICES];
    struct dense made[2];
    int count;
    for (int i = 0; i < 2; i++) {
        const uint64_t draw = ls_random_bits(5, 6, (uint64_t)_i);
        const struct size size = {16 + (int64_t)(draw % 240), 1 + (int64_t)(draw >> 10 & 511),
                                  1 + (int64_t)(draw >> 20 & 511)};
        made[i] = make_dense(size, LS_RELU);
        made[i].bfloat16 = true;
        assert_ok(ls_devices_open("cpu:0", 1 + i, devices, &count));
        assert_ok(devices[0]->ops->enter(devices[0], &(struct ls_thread_state){0}));
        if (has_bfloat16(devices[0])) run_dense(devices[0], &made[i]);
        ls_device_close(devices[0]);
    }
    assert_same_bits(&made[0], &made[1]);
    for (int i = 0; i < 2; i++) free_dense(&made[i]);
}

TEST(dx_is_optional) {
    struct ls_device *device = open_device();
    struct dense dense = make_dense((struct size){4, 6, 5}, LS_LINEAR);
    struct ls_op op = dense_op(&dense, LS_OP_DENSE_BACKWARD);
    op.tensors[LS_ARG_DX] = op.tensors[LS_ARG_Y] = (struct ls_tensor){0};
    assert_ok(run_op(device, &op));
    ck_assert(isnan(dense.dx.device[0]) && !isnan(dense.dw.device[0]));
    free_dense(&dense);
    ls_device_close(device);
}

/* Of two runs over the same rows, the second adds: twice the gradient. */
TEST_EACH(gradients_of_kernels_are_added_up, SIZE_COUNT) {
    struct ls_device *device = open_device();
    struct dense dense = make_dense(sizes[_i], LS_LINEAR);
    struct reference_dense oracle = oracle_of(&dense);
    struct ls_op op = dense_op(&dense, LS_OP_DENSE_BACKWARD);
    assert_ok(run_op(device, &op));
    op.adds = true;
    assert_ok(run_op(device, &op));
    reference_dense_backward(&oracle);
    for (int64_t i = 0; i < dense.dw.count; i++) dense.dw.oracle[i] *= 2;
    for (int64_t i = 0; i < dense.db.count; i++) dense.db.oracle[i] *= 2;
    assert_pair("dw", &dense.dw);
    assert_pair("db", &dense.db);
    assert_pair("dx", &dense.dx);
    free_dense(&dense);
    ls_device_close(device);
}

/* NaN must reach the loss, not vanish in ReLU. */
TEST(dw_and_db_are_optional) {
    struct dense without = make_dense(sizes[6], LS_LINEAR), with = make_dense(sizes[6], LS_LINEAR);
    struct ls_op op = dense_op(&without, LS_OP_DENSE_BACKWARD), whole = dense_op(&with, LS_OP_DENSE_BACKWARD);
    struct ls_device *device = open_device();
    op.tensors[LS_ARG_DW].data = op.tensors[LS_ARG_DB].data = NULL;
    assert_ok(run_op(device, &op));
    assert_ok(run_op(device, &whole));
    for (int64_t i = 0; i < with.dx.count; i++) ck_assert(fabsf(without.dx.device[i] - with.dx.device[i]) <= 1e-5F);
    free_dense(&without);
    free_dense(&with);
    ls_device_close(device);
}

TEST(nan_reaches_the_output) {
    struct ls_device *device = open_device();
    struct dense dense = make_dense((struct size){2, 3, 2}, LS_RELU);
    dense.x.device[0] = NAN;
    struct ls_op op = dense_op(&dense, LS_OP_DENSE_FORWARD);
    assert_ok(run_op(device, &op));
    ck_assert(isnan(dense.y.device[0]) && isnan(dense.y.device[1]));
    ck_assert(!isnan(dense.y.device[2]) && !isnan(dense.y.device[3]));
    free_dense(&dense);
    ls_device_close(device);
}

TEST_EACH(another_run_gives_the_same_bits, SIZE_COUNT) {
    struct ls_device *device = open_device();
    struct dense first = make_dense(sizes[_i], LS_RELU), second = make_dense(sizes[_i], LS_RELU);
    run_dense(device, &first);
    run_dense(device, &second);
    assert_same_bits(&first, &second);
    free_dense(&first);
    free_dense(&second);
    ls_device_close(device);
}

/* Moves pair's numbers into place, count floats off a cache line by shift; keeps the old memory for free_pair. */
static struct pair shifted(const struct pair *pair, float *place, int shift) {
    memcpy(place + shift, pair->device, (size_t)pair->count * sizeof(float));
    return (struct pair){place + shift, pair->oracle, pair->count};
}

TEST_EACH(unaligned_memory_gives_the_same_bits, SIZE_COUNT) {
    struct ls_device *device = open_device();
    struct dense aligned = make_dense(sizes[_i], LS_RELU), moved = make_dense(sizes[_i], LS_RELU), view = moved;
    struct pair *pairs[] = {&view.x, &view.w, &view.b, &view.y, &view.dy, &view.dx, &view.dw, &view.db};
    float *places[8];
    run_dense(device, &aligned);
    for (int i = 0; i < 8; i++) {
        places[i] = ls_alloc_aligned((size_t)(pairs[i]->count + 16) * sizeof(float));
        *pairs[i] = shifted(pairs[i], places[i], 1 + i);
    }
    check_against_oracle(device, &view);
    if (device->host_memory) assert_same_bits(&aligned, &view); /* a GPU's library has other kernels then */
    for (int i = 0; i < 8; i++) ls_free(places[i]);
    free_dense(&aligned);
    free_dense(&moved);
    ls_device_close(device);
}

struct job {
    struct ls_device *device;
    struct dense dense;
};

static void *run_job(void *argument) {
    struct job *job = argument;
    assert_ok(job->device->ops->enter(job->device, &(struct ls_thread_state){0}));
    for (int i = 0; i < 20; i++) {
        struct ls_op forward = dense_op(&job->dense, LS_OP_DENSE_FORWARD);
        assert_ok(run_op(job->device, &forward));
    }
    run_dense(job->device, &job->dense);
    return NULL;
}

TEST(two_devices_give_the_same_bits) {
    struct ls_device *devices[LS_MAX_LOCAL_DEVICES];
    struct job jobs[2];
    pthread_t threads[2];
    int count = 0;
    assert_ok(ls_devices_open("cpu:0,cpu:1", 1, devices, &count));
    ck_assert_int_eq(count, 2);
    for (int i = 0; i < 2; i++) jobs[i] = (struct job){devices[i], make_dense((struct size){33, 100, 31}, LS_RELU)};
    for (int i = 0; i < 2; i++) ck_assert_int_eq(pthread_create(&threads[i], NULL, run_job, &jobs[i]), 0);
    for (int i = 0; i < 2; i++) ck_assert_int_eq(pthread_join(threads[i], NULL), 0);
    assert_same_bits(&jobs[0].dense, &jobs[1].dense);
    for (int i = 0; i < 2; i++) free_dense(&jobs[i].dense), ls_device_close(devices[i]);
}

TEST(misuse_is_named) {
    struct ls_device *device = open_device();
    struct dense dense = make_dense((struct size){4, 6, 5}, LS_RELU);
    struct ls_op good = dense_op(&dense, LS_OP_DENSE_FORWARD), op = good;
    op.tensors[LS_ARG_W].shape = LS_SHAPE(7, 5);
    assert_refused(device->ops->build(device, &op), "dense forward: argument w has shape (7, 5), but must have (6, 5)");
    op = good;
    op.tensors[LS_ARG_B].data = NULL;
    assert_refused(device->ops->build(device, &op), "argument b is missing");
    op = good;
    op.tensors[LS_ARG_X].dtype = LS_FLOAT64;
    assert_refused(device->ops->build(device, &op), "argument x is float64, but must be float32");
    op.tensors[LS_ARG_X].dtype = LS_FLOAT16;
    assert_refused(device->ops->build(device, &op), "argument w is float32, but must be float16");
    op = good;
    op.tensors[LS_ARG_Y].dtype = LS_BFLOAT16;
    assert_refused(device->ops->build(device, &op), "argument y is bfloat16, but must be float32");
    op = good;
    op.tensors[LS_ARG_X].shape = LS_SHAPE(0, 6);
    assert_refused(device->ops->build(device, &op), "argument x has shape (0, 6)");
    op = good;
    op.activation = (ls_activation)9;
    assert_refused(device->ops->build(device, &op), "activation 9");
    op = dense_op(&dense, LS_OP_DENSE_BACKWARD);
    op.tensors[LS_ARG_Y].data = NULL;
    assert_refused(device->ops->build(device, &op), "argument y is missing");
    op.kind = LS_OP_KIND_COUNT;
    assert_refused(device->ops->build(device, &op), "is no ls_op_kind");
    free_dense(&dense);
    ls_device_close(device);
}

TESTS("dense", .seconds = 60)
