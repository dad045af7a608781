/* Layer and RMS normalization against the oracle, with any number of threads, in place, and refused. */
#include "base/shape.h"
#include "device/op_fixture.h"
#include "device/reference_position.h"
#include "harness.h"

extern void omp_set_num_threads(int count);

static const struct size {
    int64_t rows, columns;
} sizes[] = {{1, 1},   {7, 1},   {1, 5},    {1, 4096}, {65, 3},    {64, 16},   {63, 17},
             {200, 8}, {40, 33}, {3, 1023}, {3, 1025}, {130, 768}, {5, 10007}, {4100, 2}};
#define SIZE_COUNT ((int)(sizeof(sizes) / sizeof(sizes[0])))
enum { NO_GAMMA = 1, NO_BETA = 2, RMS = 4, VARIANTS = 8 };

struct run {
    struct size size;
    int variant;
    struct pair x, gamma, beta, y, saved, dy, dx, dgamma, dbeta;
};

/* Far from 0, where a variance around 0 would be no number of use. */
static struct run make_run(struct size size, int variant, uint64_t stream) {
    int64_t count = size.rows * size.columns;
    struct run run = {size,
                      variant,
                      .x = make_random(stream, count),
                      .gamma = make_random(stream + 1, size.columns),
                      .beta = make_random(stream + 2, size.columns),
                      .y = make_pair(count),
                      .saved = make_pair(2 * size.rows),
                      .dy = make_random(stream + 3, count),
                      .dx = make_pair(count),
                      .dgamma = make_pair(size.columns),
                      .dbeta = make_pair(size.columns)};
    for (int64_t i = 0; i < count; i++) run.x.oracle[i] = (double)(run.x.device[i] += 3);
    return run;
}

static void free_run(struct run *run) {
    struct pair *all[] = {&run->x,  &run->gamma, &run->beta,   &run->y,    &run->saved,
                          &run->dy, &run->dx,    &run->dgamma, &run->dbeta};
    for (size_t i = 0; i < COUNT_OF(all); i++) free_pair(all[i]);
}

static struct ls_op op_of_run(const struct run *run, enum ls_op_kind kind) {
    struct ls_op op = {.kind = kind, .centered = !(run->variant & RMS), .epsilon = 0.01F};
    bool back = kind == LS_OP_LAYER_NORM_BACKWARD;
    const ls_shape x = LS_SHAPE(run->size.rows, run->size.columns), c = LS_SHAPE(run->size.columns);
    op.tensors[LS_ARG_X] = tensor(&run->x, x);
    op.tensors[LS_ARG_SAVED] = tensor(&run->saved, LS_SHAPE(run->size.rows, 2));
    if (!(run->variant & NO_GAMMA)) op.tensors[LS_ARG_GAMMA] = tensor(&run->gamma, c);
    if (!(run->variant & NO_BETA)) op.tensors[LS_ARG_BETA] = tensor(&run->beta, c);
    if (!back) op.tensors[LS_ARG_Y] = tensor(&run->y, x);
    if (!back) return op;
    op.tensors[LS_ARG_DY] = tensor(&run->dy, x);
    op.tensors[LS_ARG_DX] = tensor(&run->dx, x);
    if (!(run->variant & NO_GAMMA)) op.tensors[LS_ARG_DGAMMA] = tensor(&run->dgamma, c);
    if (!(run->variant & NO_BETA)) op.tensors[LS_ARG_DBETA] = tensor(&run->dbeta, c);
    return op;
}

static struct reference_layer_norm oracle_of(const struct run *run) {
    bool gamma = !(run->variant & NO_GAMMA), beta = !(run->variant & NO_BETA);
    return (struct reference_layer_norm){.rows = run->size.rows,
                                         .columns = run->size.columns,
                                         .centered = !(run->variant & RMS),
                                         .epsilon = (double)0.01F,
                                         .x = run->x.oracle,
                                         .gamma = gamma ? run->gamma.oracle : NULL,
                                         .beta = beta ? run->beta.oracle : NULL,
                                         .y = run->y.oracle,
                                         .dy = run->dy.oracle,
                                         .dx = run->dx.oracle,
                                         .dgamma = gamma ? run->dgamma.oracle : NULL,
                                         .dbeta = beta ? run->dbeta.oracle : NULL};
}

static void run_both(struct ls_device *device, struct run *run) {
    struct ls_op forward = op_of_run(run, LS_OP_LAYER_NORM_FORWARD), back = op_of_run(run, LS_OP_LAYER_NORM_BACKWARD);
    assert_ok(run_op(device, &forward));
    assert_ok(run_op(device, &back));
}

static void check_run(struct ls_device *device, struct size size, int variant, uint64_t stream) {
    struct run run = make_run(size, variant, stream);
    const struct reference_layer_norm oracle = oracle_of(&run);
    reference_layer_norm_forward(&oracle);
    reference_layer_norm_backward(&oracle);
    run_both(device, &run);
    assert_pair("y", &run.y);
    if (oracle.dgamma) assert_pair("dgamma", &run.dgamma);
    if (oracle.dbeta) assert_pair("dbeta", &run.dbeta);
    if (size.columns > 1) assert_pair("dx", &run.dx);
    for (int64_t i = 0; size.columns == 1 && i < run.dx.count; i++) /* around 0: the terms cancel out */
        ck_assert(fabs((double)run.dx.device[i] - run.dx.oracle[i]) <= TOLERANCE);
    free_run(&run);
}

TEST_EACH(both_kinds_equal_the_oracle, SIZE_COUNT) {
    struct ls_device *device = open_device();
    for (int variant = 0; variant < VARIANTS; variant++) check_run(device, sizes[_i], variant, 1);
    ls_device_close(device);
}

TEST(drawn_shapes_equal_the_oracle) {
    struct ls_device *device = open_device();
    uint64_t seed = first_seed();
    for (uint64_t i = 0; i < 40; i++) {
        const struct size size = {1 + (int64_t)(ls_random_bits(seed, 1, i) % 150),
                                  2 + (int64_t)(ls_random_bits(seed, 2, i) % 90)};
        check_run(device, size, (int)(ls_random_bits(seed, 3, i) % VARIANTS), 1 + i);
    }
    ls_device_close(device);
}

static void assert_same(const struct pair *a, const struct pair *b) {
    ck_assert_int_eq(memcmp(a->device, b->device, (size_t)a->count * sizeof(float)), 0);
}

TEST_EACH(bits_do_not_depend_on_threads, SIZE_COUNT) {
    struct run runs[4];
    for (int i = 0; i < 4; i++) {
        struct ls_device *device = open_device();
        runs[i] = make_run(sizes[_i], 0, 1);
        omp_set_num_threads(i + 1);
        run_both(device, &runs[i]);
        ls_device_close(device);
    }
    for (int i = 1; i < 4; i++) {
        assert_same(&runs[0].y, &runs[i].y), assert_same(&runs[0].dx, &runs[i].dx);
        assert_same(&runs[0].dgamma, &runs[i].dgamma), assert_same(&runs[0].dbeta, &runs[i].dbeta);
    }
    for (int i = 0; i < 4; i++) free_run(&runs[i]);
}

/* dx where dy was; without dx; without statistics: all else has the same bits. */
TEST_EACH(what_is_left_out_changes_nothing_else, SIZE_COUNT) {
    struct ls_device *device = open_device();
    struct run all = make_run(sizes[_i], 0, 1), part = make_run(sizes[_i], 0, 1);
    run_both(device, &all);
    struct ls_op forward = op_of_run(&part, LS_OP_LAYER_NORM_FORWARD), back;
    forward.tensors[LS_ARG_SAVED].data = NULL;
    assert_ok(run_op(device, &forward));
    assert_same(&all.y, &part.y);
    forward = op_of_run(&part, LS_OP_LAYER_NORM_FORWARD);
    assert_ok(run_op(device, &forward));
    back = op_of_run(&part, LS_OP_LAYER_NORM_BACKWARD);
    back.tensors[LS_ARG_DX].data = NULL;
    assert_ok(run_op(device, &back));
    assert_same(&all.dgamma, &part.dgamma), assert_same(&all.dbeta, &part.dbeta);
    back.tensors[LS_ARG_DX] = back.tensors[LS_ARG_DY];
    back.tensors[LS_ARG_DGAMMA].data = back.tensors[LS_ARG_DBETA].data = NULL;
    assert_ok(run_op(device, &back));
    assert_same(&all.dx, &part.dy);
    free_run(&all), free_run(&part);
    ls_device_close(device);
}

TEST(no_number_stays_in_its_row) {
    struct ls_device *device = open_device();
    struct run run = make_run((struct size){3, 40}, 0, 1);
    run.x.device[45] = NAN, run.x.device[90] = INFINITY;
    struct ls_op forward = op_of_run(&run, LS_OP_LAYER_NORM_FORWARD);
    assert_ok(run_op(device, &forward));
    for (int i = 0; i < 120; i++) ck_assert_int_eq(i >= 40, isnan(run.y.device[i]));
    free_run(&run);
    ls_device_close(device);
}

TEST(wrong_arguments_are_refused) {
    struct ls_device *device = open_device();
    struct run run = make_run((struct size){3, 4}, 0, 1);
    struct ls_op op = op_of_run(&run, LS_OP_LAYER_NORM_FORWARD);
    op.tensors[LS_ARG_GAMMA].shape = LS_SHAPE(3);
    assert_refused(device->ops->build(device, &op), "layer norm forward: argument gamma has shape");
    op = op_of_run(&run, LS_OP_LAYER_NORM_BACKWARD);
    op.tensors[LS_ARG_SAVED].data = NULL;
    assert_refused(device->ops->build(device, &op), "layer norm backward: argument saved is missing");
    op.tensors[LS_ARG_X].shape = (ls_shape){0};
    assert_refused(device->ops->build(device, &op), "must have 1 axes and at least one element");
    free_run(&run);
    ls_device_close(device);
}

TESTS("layer_norm", .seconds = 60)
