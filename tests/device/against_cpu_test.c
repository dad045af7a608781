/* Losses, metrics and elements on a device that is not the CPU, against the CPU, which agrees with Keras (tests/model).
 */
#include "base/float_bits.h"
#include "base/half.h"
#include "base/shape.h"
#include "device/op_fixture.h"
#include "harness.h"

static const struct size { int64_t rows, classes; } sizes[] = {{1, 1}, {1, 10}, {64, 10}, {5, 1001}, {129, 2}, {7, 1}};
#define SIZE_COUNT ((int)(sizeof(sizes) / sizeof(sizes[0])))

static struct ls_device *open_cpu(void) {
    struct ls_device *device = NULL;
    int count = 0;
    assert_ok(ls_devices_open("cpu:0", 1, &device, &count));
    return device;
}

/* ---- losses and metrics ---- */

struct outputs {
    struct size size;
    struct pair values, one_hot, weights;
    int32_t *labels;
};

static struct outputs make_outputs(struct size size, bool probabilities) {
    struct outputs made = {.size = size,
                           .values = make_random(1, size.rows * size.classes),
                           .one_hot = make_zeros(size.rows * size.classes),
                           .weights = make_random(5, size.rows),
                           .labels = ls_alloc_array((size_t)size.rows, sizeof(int32_t))};
    ck_assert_ptr_nonnull(made.labels);
    for (int64_t r = 0; r < size.rows; r++) {
        made.labels[r] = (int32_t)(ls_random_bits(7, 2, (uint64_t)r) % (uint64_t)size.classes);
        made.one_hot.device[r * size.classes + made.labels[r]] = 1;
    }
    for (int64_t i = 0; probabilities && i < made.values.count; i++)
        made.values.device[i] = 1 / (1 + expf(-made.values.device[i]));
    if (probabilities && size.classes > 1) made.values.device[0] = 0, made.values.device[1] = 1; /* kept inside */
    return made;
}

static void free_outputs(struct outputs *outputs) {
    free_pair(&outputs->values);
    free_pair(&outputs->one_hot);
    free_pair(&outputs->weights);
    ls_free(outputs->labels);
}

static void point(struct ls_op *op, const struct outputs *outputs, bool sparse) {
    ls_shape shape = LS_SHAPE(outputs->size.rows, outputs->size.classes);
    op->tensors[LS_ARG_LOGITS] = tensor(&outputs->values, shape);
    op->tensors[LS_ARG_LABELS] = tensor(&outputs->one_hot, shape);
    if (sparse)
        op->tensors[LS_ARG_LABELS] = (struct ls_tensor){outputs->labels, LS_INT32, LS_SHAPE(outputs->size.rows)};
}

static void check_loss(struct ls_device *const devices[2], struct ls_op op, const struct outputs *outputs) {
    struct ls_loss_sums sums[2] = {{0}};
    struct pair gradients[2];
    for (int i = 0; i < 2; i++) {
        gradients[i] = make_pair(outputs->values.count);
        op.sums = &sums[i];
        op.tensors[LS_ARG_DLOGITS] = tensor(&gradients[i], op.tensors[LS_ARG_LOGITS].shape);
        assert_ok(run_op(devices[i], &op));
    }
    for (int64_t i = 0; i < gradients[0].count; i++) gradients[1].oracle[i] = (double)gradients[0].device[i];
    assert_pair(ls_op_name(op.kind), &gradients[1]);
    ck_assert_double_le(fabs(sums[0].loss - sums[1].loss), 1e-6 * fabs(sums[0].loss));
    ck_assert_int_eq(sums[0].correct, sums[1].correct);
    ck_assert_int_eq(sums[1].rows, outputs->size.rows);
    ck_assert_double_le(fabs(sums[0].weight - sums[1].weight), 1e-12 * (double)outputs->size.rows);
    for (int i = 0; i < 2; i++) free_pair(&gradients[i]);
}

TEST_EACH(losses_equal_the_cpu, SIZE_COUNT) {
    struct ls_device *const devices[2] = {open_cpu(), open_device()};
    const float scale = 0.25F;
    for (enum ls_op_kind kind = LS_OP_SOFTMAX_CROSSENTROPY; kind <= LS_OP_HUBER; kind++)
        for (int i = 0; i < 8; i++) {
            bool probabilities = kind == LS_OP_CROSSENTROPY || kind == LS_OP_BINARY_CROSSENTROPY;
            struct outputs outputs = make_outputs(sizes[_i], probabilities);
            struct ls_op op = {.kind = kind, .alpha = i / 2 % 2 ? 0.1F : 0, .beta = 0.7F, .scale = &scale};
            point(&op, &outputs, i % 2);
            if (i / 4) op.tensors[LS_ARG_WEIGHTS] = tensor(&outputs.weights, LS_SHAPE(sizes[_i].rows));
            check_loss(devices, op, &outputs);
            free_outputs(&outputs);
        }
    for (int i = 0; i < 2; i++) ls_device_close(devices[i]);
}

TEST_EACH(metrics_equal_the_cpu, SIZE_COUNT) {
    const ls_metric metrics[] = {ls_sparse_categorical_accuracy(), ls_categorical_accuracy(),
                                 ls_binary_accuracy(.threshold = 0.5F), ls_top_k(1), ls_top_k(3)},
                    numbers[] = {ls_mean_squared_error(), ls_mean_absolute_error()};
    struct ls_device *const devices[2] = {open_cpu(), open_device()};
    for (size_t i = 0; i < 2 * sizeof(metrics) / sizeof(metrics[0]); i++) {
        double values[2] = {-1, -2};
        struct outputs outputs = make_outputs(sizes[_i], false);
        struct ls_op op = {.kind = LS_OP_METRIC, .metric = metrics[i / 2]};
        point(&op, &outputs, i % 2);
        outputs.values.device[0] = NAN;
        outputs.values.device[outputs.values.count - 1] = INFINITY;
        for (int k = 0; k < 2; k++) {
            op.value = &values[k];
            assert_ok(run_op(devices[k], &op));
        }
        ck_assert_double_le(fabs(values[0] - values[1]), 1e-12);
        free_outputs(&outputs);
    }
    for (size_t i = 0; i < 8; i++) {
        double values[2] = {-1, -2};
        struct outputs outputs = make_outputs(sizes[_i], false);
        struct ls_op op = {.kind = LS_OP_METRIC, .metric = numbers[i % 2]};
        point(&op, &outputs, i / 2 % 2);
        if (i / 4) op.tensors[LS_ARG_WEIGHTS] = tensor(&outputs.weights, LS_SHAPE(sizes[_i].rows));
        for (int k = 0; k < 2; k++) {
            op.value = &values[k];
            assert_ok(run_op(devices[k], &op));
        }
        ck_assert_double_le(fabs(values[0] - values[1]), 1e-9);
        free_outputs(&outputs);
    }
    for (int i = 0; i < 2; i++) ls_device_close(devices[i]);
}

/* One output has two classes; a fault is told once, and what comes after it is not touched. */
TEST(a_fault_is_told_once) {
    struct ls_device *device = open_device();
    struct outputs outputs = make_outputs((struct size){300, 1}, false);
    struct ls_loss_sums sums = {0};
    struct ls_op op = {.kind = LS_OP_SIGMOID_CROSSENTROPY, .sums = &sums}, metric = {.kind = LS_OP_METRIC};
    double value = -1;
    point(&op, &outputs, true), point(&metric, &outputs, true);
    metric.metric = (ls_metric)ls_binary_accuracy(), metric.value = &value;
    outputs.labels[290] = 2, outputs.labels[299] = -7;
    assert_refused(run_op(device, &op), "row 290 has label 2, but the model has 2 classes: 0 to 1");
    assert_refused(run_op(device, &metric), "row 290 has label 2");
    op.kind = LS_OP_SQUARED_ERROR;
    assert_ok(run_op(device, &op));
    outputs.labels[290] = outputs.labels[299] = 1;
    assert_ok(run_op(device, &metric));
    ck_assert(value >= 0);
    free_outputs(&outputs);
    ls_device_close(device);
}

/* ---- elements ---- */

#define COUNT 1003

/* The same numbers are dropped, wherever the memory lies. */
TEST(dropout_equals_the_cpu) {
    struct ls_device *const devices[2] = {open_cpu(), open_device()};
    const struct ls_optimizer_step step = {.iteration = 5, .pass = 2};
    struct pair x = make_random(1, COUNT), y[2] = {make_pair(COUNT), make_pair(COUNT)};
    for (int offset = 0; offset < 5; offset++) {
        for (int i = 0; i < 2; i++) {
            struct ls_op op = {.kind = LS_OP_DROPOUT, .alpha = 0.3F, .random = {11, 12, 13}, .step = &step};
            op.tensors[LS_ARG_X] = (struct ls_tensor){x.device + offset, LS_FLOAT32, LS_SHAPE(COUNT - offset)};
            op.tensors[LS_ARG_Y] = (struct ls_tensor){y[i].device + offset, LS_FLOAT32, LS_SHAPE(COUNT - offset)};
            assert_ok(run_op(devices[i], &op));
        }
        ck_assert_int_eq(memcmp(y[0].device + offset, y[1].device + offset, (size_t)(COUNT - offset) * 4), 0);
    }
    free_pair(&x), free_pair(&y[0]), free_pair(&y[1]);
    for (int i = 0; i < 2; i++) ls_device_close(devices[i]);
}

TEST(merging_equals_the_cpu) {
    struct ls_device *const devices[2] = {open_cpu(), open_device()};
    const float scale = 0.5F;
    struct pair x = make_random(1, COUNT), y[2] = {make_random(2, COUNT), make_random(2, COUNT)};
    for (int i = 0; i < 2; i++) {
        struct ls_op op = {.kind = LS_OP_MERGE, .alpha = 0.75F, .scale = &scale};
        op.tensors[LS_ARG_X] = tensor(&x, LS_SHAPE(COUNT));
        op.tensors[LS_ARG_Y] = tensor(&y[i], LS_SHAPE(COUNT));
        assert_ok(run_op(devices[i], &op));
    }
    for (int64_t i = 0; i < COUNT; i++) y[1].oracle[i] = (double)y[0].device[i];
    assert_pair("merge", &y[1]);
    free_pair(&x), free_pair(&y[0]), free_pair(&y[1]);
    for (int i = 0; i < 2; i++) ls_device_close(devices[i]);
}

/* ---- captured ops: what they read when they run ---- */

static void replay(struct ls_device *device, struct mirror *mirror, struct ls_program *program) {
    assert_ok(program->run(program));
    assert_ok(ls_device_synchronize(device));
    mirror_copy(mirror, false);
}

/* Each replay draws the numbers of the step as it is then. */
TEST(replayed_dropout_draws_anew) {
    struct ls_device *cpu = open_cpu(), *device = open_device();
    struct ls_optimizer_step step = {.iteration = 1};
    struct pair x = make_random(1, COUNT), y = make_pair(COUNT), wanted = make_pair(COUNT);
    struct ls_op op = {.kind = LS_OP_DROPOUT, .alpha = 0.3F, .random = {11, 12, 13}, .step = &step}, same = op;
    struct mirror mirror;
    op.tensors[LS_ARG_X] = same.tensors[LS_ARG_X] = tensor(&x, LS_SHAPE(COUNT));
    op.tensors[LS_ARG_Y] = tensor(&y, LS_SHAPE(COUNT));
    same.tensors[LS_ARG_Y] = tensor(&wanted, LS_SHAPE(COUNT));
    assert_ok(mirror_build(&mirror, device, &op));
    mirror_copy(&mirror, true);
    struct ls_program *program = compile_op(device, &mirror.op);
    for (step.iteration = 2; step.iteration < 5; step.iteration++) {
        *(struct ls_optimizer_step *)(uintptr_t)mirror.op.step = step;
        replay(device, &mirror, program);
        assert_ok(run_op(cpu, &same));
        ck_assert_int_eq(memcmp(y.device, wanted.device, COUNT * sizeof(float)), 0);
    }
    program->drop(program);
    mirror_discard(&mirror);
    free_pair(&x), free_pair(&y), free_pair(&wanted);
    ls_device_close(cpu);
    ls_device_close(device);
}

/* Each replay tells the sums and what else there is as they are then. */
TEST(a_replayed_report_tells_new_sums) {
    struct ls_device *device = open_device();
    struct ls_loss_sums sums = {0};
    float told[LS_REPORT_OTHERS + 1] = {[LS_REPORT_OTHERS] = 7};
    struct pair y = make_pair(LS_REPORT_OTHERS + 1);
    struct ls_op op = {.kind = LS_OP_REPORT, .sums = &sums, .report = told};
    struct mirror mirror;
    op.tensors[LS_ARG_Y] = tensor(&y, LS_SHAPE(y.count));
    assert_ok(mirror_build(&mirror, device, &op));
    struct ls_program *program = compile_op(device, &mirror.op);
    for (int i = 1; i < 4; i++) {
        mirror.op.sums->loss = i;
        ((float *)(uintptr_t)mirror.op.report)[LS_REPORT_OTHERS] = 7 + (float)i;
        replay(device, &mirror, program);
        ck_assert(y.device[LS_REPORT_LOSS] == (float)i && y.device[LS_REPORT_OTHERS] == 7 + (float)i);
    }
    program->drop(program);
    mirror_discard(&mirror);
    free_pair(&y);
    ls_device_close(device);
}

/* ---- 16 bits: as float32 on the same numbers, rounded once ---- */

static const enum ls_op_kind stored[] = {LS_OP_ADD, LS_OP_SCALE, LS_OP_DROPOUT, LS_OP_PLACE, LS_OP_TAKE};

static float widen(uint16_t value, ls_dtype dtype) {
    return dtype == LS_BFLOAT16 ? ls_half_bfloat16_to_float(value) : ls_half_to_float(value);
}

/* (rows, columns) for most; PLACE and TAKE: into and out of one that is 5 wider. */
struct narrow {
    ls_dtype dtype;
    int64_t rows, columns;
    uint16_t *x, *w, *y;
    struct pair wide_x, wide_w, wide_y;
};

static struct narrow make_narrow(ls_dtype dtype, int64_t rows, int64_t columns) {
    int64_t count = rows * (columns + 5);
    struct narrow made = {dtype,
                          rows,
                          columns,
                          .wide_x = make_random(1, count),
                          .wide_w = make_random(2, count),
                          .wide_y = make_zeros(count)};
    uint16_t **all[] = {&made.x, &made.w, &made.y};
    struct pair *wide[] = {&made.wide_x, &made.wide_w, &made.wide_y};
    for (int k = 0; k < 3; k++) {
        *all[k] = ls_alloc_aligned((size_t)count * sizeof(uint16_t));
        ck_assert_ptr_nonnull(*all[k]);
        for (int64_t i = 0; i < count; i++) {
            float value = wide[k]->device[i];
            (*all[k])[i] = dtype == LS_BFLOAT16 ? ls_half_bfloat16_from_float(value) : ls_half_from_float(value);
            wide[k]->device[i] = widen((*all[k])[i], dtype);
        }
    }
    return made;
}

static void free_narrow(struct narrow *n) {
    ls_free(n->x), ls_free(n->w), ls_free(n->y);
    free_pair(&n->wide_x), free_pair(&n->wide_w), free_pair(&n->wide_y);
}

static struct ls_op narrow_op(const struct narrow *n, enum ls_op_kind kind, const struct ls_optimizer_step *step) {
    bool take = kind == LS_OP_TAKE, place = kind == LS_OP_PLACE;
    struct ls_op op = {.kind = kind, .alpha = 0.5F, .beta = 2, .column = 3, .random = {1, 2, 3}, .step = step};
    ls_shape small = LS_SHAPE(n->rows, n->columns), large = LS_SHAPE(n->rows, n->columns + 5);
    op.tensors[LS_ARG_X] = (struct ls_tensor){n->x, n->dtype, take ? large : small};
    op.tensors[LS_ARG_Y] = (struct ls_tensor){n->y, n->dtype, place ? large : small};
    if (kind == LS_OP_ADD) op.tensors[LS_ARG_W] = (struct ls_tensor){n->w, n->dtype, small};
    return op;
}

static void check_narrow(struct ls_device *const devices[2], enum ls_op_kind kind, struct narrow *n) {
    const struct ls_optimizer_step step = {.iteration = 5};
    struct ls_op narrow = narrow_op(n, kind, &step), wide = narrow;
    float *memory[] = {[LS_ARG_X] = n->wide_x.device, [LS_ARG_W] = n->wide_w.device, [LS_ARG_Y] = n->wide_y.device};
    const int places[] = {LS_ARG_X, LS_ARG_W, LS_ARG_Y};
    for (int i = 0; i < 3; i++) {
        struct ls_tensor *tensor = &wide.tensors[places[i]];
        if (tensor->data) *tensor = (struct ls_tensor){memory[places[i]], LS_FLOAT32, tensor->shape};
    }
    assert_ok(run_op(devices[0], &wide));
    assert_ok(run_op(devices[1], &narrow));
    for (int64_t i = 0; i < ls_shape_count(&narrow.tensors[LS_ARG_Y].shape); i++) {
        float wanted = n->wide_y.device[i], is = widen(n->y[i], n->dtype);
        if (!(fabsf(is - wanted) <= fabsf(wanted) / 128)) /* bfloat16's last place */
            ck_abort_msg("%s of %s: y[%lld] is %.9g, but must be %.9g", ls_op_name(kind), ls_dtype_name(n->dtype),
                         (long long)i, (double)is, (double)wanted);
    }
}

TEST_EACH(ops_in_16_bits_are_near_the_cpu, COUNT_OF(stored)) {
    struct ls_device *const devices[2] = {open_cpu(), open_device()};
    const struct size shapes[] = {{1, 1}, {3, 8}, {17, 59}, {40, 64}};
    const ls_dtype dtypes[] = {LS_BFLOAT16, LS_FLOAT16};
    for (int i = 0; i < 8; i++) {
        struct narrow n = make_narrow(dtypes[i % 2], shapes[i / 2].rows, shapes[i / 2].classes);
        check_narrow(devices, stored[_i], &n);
        free_narrow(&n);
    }
    for (int i = 0; i < 2; i++) ls_device_close(devices[i]);
}

/* ---- rows of a table ---- */

enum order { ANY, SAME, FALLING };
static const struct table {
    int64_t count, limit, width;
    enum order order;
} tables[] = {
    {1, 1, 1, ANY},       {31, 255, 33, ANY}, {33, 256, 1, FALLING}, {700, 40, 33, ANY},        {700, 70000, 2, ANY},
    {300, 300, 33, SAME}, {300, 9, 64, SAME}, {5000, 300, 1, ANY},   {9001, 70000, 1, FALLING}, {4097, 65536, 3, SAME}};
#define TABLE_COUNT ((int)(sizeof(tables) / sizeof(tables[0])))

static int64_t id_of(const struct table *t, int64_t i) {
    if (t->order == SAME) return t->limit - 1;
    if (t->order == FALLING) return t->limit - 1 - i * t->limit / t->count;
    return (int64_t)(ls_random_bits(7, 3, (uint64_t)i) % (uint64_t)t->limit);
}

/* In 16 bits too: these are float32 numbers, and sums are float32. */
static void check_table(struct ls_device *const devices[2], const struct table *t, ls_dtype dtype, int round) {
    bool integers = round % 2;
    struct pair ids = make_pair(t->count), dy = make_random(2, t->count * t->width);
    struct pair dw[2] = {make_random(3, t->limit * t->width), make_random(3, t->limit * t->width)};
    uint16_t *halves = ls_alloc_array((size_t)dy.count, sizeof(*halves));
    struct ls_op op = {.kind = LS_OP_EMBEDDING_BACKWARD, .adds = round / 2 % 2};
    ck_assert_ptr_nonnull(halves);
    for (int64_t i = 0; i < t->count; i++)
        ids.device[i] = integers ? ls_float_bits_value((uint32_t)id_of(t, i)) : (float)id_of(t, i);
    for (int64_t i = 0; dtype != LS_FLOAT32 && i < dy.count; i++) {
        bool brain = dtype == LS_BFLOAT16;
        halves[i] = brain ? ls_half_bfloat16_from_float(dy.device[i]) : ls_half_from_float(dy.device[i]);
        dy.device[i] = widen(halves[i], dtype);
    }
    op.tensors[LS_ARG_X] = (struct ls_tensor){ids.device, integers ? LS_INT32 : LS_FLOAT32, LS_SHAPE(t->count, 1)};
    for (int i = 0; i < 2; i++) {
        op.tensors[LS_ARG_DY] = tensor(&dy, LS_SHAPE(t->count, 1, t->width));
        op.tensors[LS_ARG_DW] = tensor(&dw[i], LS_SHAPE(t->limit, t->width));
        if (i && dtype != LS_FLOAT32) op.tensors[LS_ARG_DY].data = halves, op.tensors[LS_ARG_DY].dtype = dtype;
        assert_ok(run_op(devices[i], &op));
    }
    ck_assert_int_eq(memcmp(dw[0].device, dw[1].device, (size_t)dw[0].count * sizeof(float)), 0);
    free_pair(&ids), free_pair(&dy), free_pair(&dw[0]), free_pair(&dw[1]);
    ls_free(halves);
}

/* So each id's rows are added in the order of the batch. */
TEST_EACH(gradients_of_a_table_have_the_bits_of_the_cpu, TABLE_COUNT) {
    struct ls_device *const devices[2] = {open_cpu(), open_device()};
    const ls_dtype dtypes[] = {LS_FLOAT32, LS_BFLOAT16, LS_FLOAT16};
    for (int i = 0; i < 4; i++) check_table(devices, &tables[_i], dtypes[i % 3], i);
    for (int i = 0; i < 2; i++) ls_device_close(devices[i]);
}

/* The check of ids before a run refuses these. */
TEST(an_id_of_no_row_has_no_gradient) {
    struct ls_device *device = open_device();
    const float numbers[] = {2, -1, 0, 3, 2}, wanted[] = {4, 0, 1 + 16};
    struct pair ids = make_pair(5), dy = make_pair(5), dw = make_pair(3);
    struct ls_op op = {.kind = LS_OP_EMBEDDING_BACKWARD};
    for (int i = 0; i < 5; i++) ids.device[i] = numbers[i], dy.device[i] = (float)(1 << i);
    op.tensors[LS_ARG_X] = tensor(&ids, LS_SHAPE(5, 1));
    op.tensors[LS_ARG_DY] = tensor(&dy, LS_SHAPE(5, 1, 1));
    op.tensors[LS_ARG_DW] = tensor(&dw, LS_SHAPE(3, 1));
    assert_ok(run_op(device, &op));
    ck_assert_int_eq(memcmp(dw.device, wanted, sizeof(wanted)), 0);
    free_pair(&ids), free_pair(&dy), free_pair(&dw);
    ls_device_close(device);
}

TESTS("against_cpu", .seconds = 60)
