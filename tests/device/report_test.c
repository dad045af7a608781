/* Casts, bytes by a table, counting what is not finite, and what a step tells of itself. */
#include "base/half.h"
#include "device/op_fixture.h"
#include "harness.h"

static const int64_t counts[] = {1, 7, 8, 64, 1003, 40001};
#define COUNTS ((int)(sizeof(counts) / sizeof(counts[0])))

/* ---- casts ---- */

static const ls_dtype dtypes[] = {LS_FLOAT32, LS_BFLOAT16, LS_FLOAT16};
#define DTYPES 3

static float as_float(const void *values, ls_dtype dtype, int64_t i) {
    if (dtype == LS_BFLOAT16) return ls_half_bfloat16_to_float(((const uint16_t *)values)[i]);
    return dtype == LS_FLOAT16 ? ls_half_to_float(((const uint16_t *)values)[i]) : ((const float *)values)[i];
}

static float rounded(float value, ls_dtype dtype) {
    if (dtype == LS_BFLOAT16) return ls_half_bfloat16_to_float(ls_half_bfloat16_from_float(value));
    return dtype == LS_FLOAT16 ? ls_half_to_float(ls_half_from_float(value)) : value;
}

static void put(void *values, ls_dtype dtype, int64_t i, float value) {
    if (dtype == LS_FLOAT32)
        ((float *)values)[i] = value;
    else
        ((uint16_t *)values)[i] = dtype == LS_BFLOAT16 ? ls_half_bfloat16_from_float(value) : ls_half_from_float(value);
}

/* Halves of the last place on both sides, what overflows, the smallest, and what is no number. */
static const float special[] = {0,     -0.0F,  1.00390625F, 1.01171875F, 1.00048828125F, 1.00146484375F, 65519, 65520,
                                1e30F, -1e30F, 3e38F,       6e-8F,       INFINITY,       -INFINITY,      NAN};
#define SPECIALS ((int64_t)(sizeof(special) / sizeof(special[0])))

static float sample(int64_t i) {
    return i < SPECIALS ? special[i] : (float)ls_random_normal(7, 3, (uint64_t)i);
}

static void check_cast(struct ls_device *device, ls_dtype from, ls_dtype to, int64_t count) {
    void *x = ls_alloc_aligned((size_t)count * sizeof(float)), *y = ls_alloc_aligned((size_t)count * sizeof(float));
    ck_assert(x && y);
    struct ls_op op = {.kind = LS_OP_CAST};
    op.tensors[LS_ARG_X] = (struct ls_tensor){x, from, LS_SHAPE(count)};
    op.tensors[LS_ARG_Y] = (struct ls_tensor){y, to, LS_SHAPE(count)};
    for (int64_t i = 0; i < count; i++) put(x, from, i, sample(i));
    assert_ok(run_op(device, &op));
    for (int64_t i = 0; i < count; i++) {
        float wanted = rounded(as_float(x, from, i), to), is = as_float(y, to, i);
        if (!(is == wanted || (isnan(is) && isnan(wanted))))
            ck_abort_msg("%s to %s: [%lld] is %.9g, but must be %.9g", ls_dtype_name(from), ls_dtype_name(to),
                         (long long)i, (double)is, (double)wanted);
    }
    ls_free(x);
    ls_free(y);
}

TEST_EACH(casts_round_once, COUNTS) {
    struct ls_device *device = open_device();
    for (int from = 0; from < DTYPES; from++)
        for (int to = 0; to < DTYPES; to++) check_cast(device, dtypes[from], dtypes[to], counts[_i]);
    ls_device_close(device);
}

/* By every number of channels, from a place that is aligned or not, and to the bit. */
static void check_expand(struct ls_device *device, ls_dtype to, int64_t channels, int64_t pixels, int shift) {
    int64_t count = channels * pixels;
    uint8_t *x = ls_alloc_aligned((size_t)count + 1);
    float *table = ls_alloc_aligned(3 * 256 * sizeof(float)), *y = ls_alloc_aligned((size_t)count * sizeof(float));
    ck_assert(x && table && y);
    struct ls_op op = {.kind = LS_OP_EXPAND};
    op.tensors[LS_ARG_X] = (struct ls_tensor){x + shift, LS_UINT8, LS_SHAPE(pixels, channels)};
    op.tensors[LS_ARG_W] = (struct ls_tensor){table, LS_FLOAT32, LS_SHAPE(channels, 256)};
    op.tensors[LS_ARG_Y] = (struct ls_tensor){y, to, LS_SHAPE(pixels, channels)};
    for (int i = 0; i < 3 * 256; i++) table[i] = sample(i);
    for (int64_t i = 0; i <= count; i++) x[i] = (uint8_t)ls_random_bits(8, 3, (uint64_t)i);
    assert_ok(run_op(device, &op));
    for (int64_t i = 0; i < count; i++) {
        float wanted = rounded(table[i % channels * 256 + x[i + shift]], to), is = as_float(y, to, i);
        if (!(is == wanted || (isnan(is) && isnan(wanted))))
            ck_abort_msg("%lld channels, %s: [%lld] is %.9g, but must be %.9g", (long long)channels, ls_dtype_name(to),
                         (long long)i, (double)is, (double)wanted);
    }
    ls_free(x);
    ls_free(table);
    ls_free(y);
}

TEST_EACH(bytes_are_what_the_table_says, COUNTS) {
    struct ls_device *device = open_device();
    for (int to = 0; to < (device->host_memory ? 1 : DTYPES); to++)
        for (int64_t channels = 1; channels <= 3; channels++)
            for (int shift = 0; shift < 2; shift++) check_expand(device, dtypes[to], channels, counts[_i], shift);
    ls_device_close(device);
}

TEST(misuse_of_a_cast_is_named) {
    struct ls_device *device = open_device();
    struct pair x = make_random(1, 8);
    struct ls_op op = {.kind = LS_OP_CAST};
    op.tensors[LS_ARG_X] = tensor(&x, LS_SHAPE(8));
    op.tensors[LS_ARG_Y] = (struct ls_tensor){x.device, LS_BFLOAT16, LS_SHAPE(7)};
    assert_refused(device->ops->build(device, &op), "cast: argument y has shape (7), but must have (8)");
    free_pair(&x);
    ls_device_close(device);
}

/* ---- what is not finite ---- */

TEST_EACH(numbers_that_are_not_finite_are_counted, COUNTS) {
    struct ls_device *device = open_device();
    struct pair x = make_random(1, counts[_i]);
    double value = -1;
    struct ls_op op = {.kind = LS_OP_FINITE, .value = &value};
    op.tensors[LS_ARG_X] = tensor(&x, LS_SHAPE(x.count));
    x.device[0] = 3.4e38F;
    assert_ok(run_op(device, &op));
    ck_assert(value == 0);
    int64_t bad[] = {0, x.count / 2, x.count - 1};
    double wanted = 0;
    for (int i = 0; i < 3; i++) {
        wanted += isfinite(x.device[bad[i]]) ? 1 : 0;
        x.device[bad[i]] = i == 0 ? NAN : i == 1 ? INFINITY : -INFINITY;
        assert_ok(run_op(device, &op));
        ck_assert(value == wanted);
    }
    free_pair(&x);
    ls_device_close(device);
}

/* ---- reports ---- */

/* A report tells the values and sums of the moment at which it runs. */
TEST(a_report_tells_sums_and_others) {
    struct ls_device *device = open_device();
    struct ls_loss_sums sums = {.loss = 2.5, .correct = 3, .rows = 4, .uncounted = 5000, .weight = 1.5, .penalty = 9},
                        gathered = sums;
    float told[LS_REPORT_OTHERS + 2];
    struct pair y = make_pair(LS_REPORT_OTHERS + 2);
    struct ls_op op = {.kind = LS_OP_REPORT, .sums = &sums, .report = told};
    op.tensors[LS_ARG_Y] = tensor(&y, LS_SHAPE(y.count));
    gathered.metrics[0] = 0.25;
    for (int i = 0; i < LS_MAX_METRICS; i++) sums.metrics[i] = 10 + i;
    for (int i = 0; i < y.count; i++) told[i] = 100 * (float)i;
    for (int more = 0; more < 2; more++) {
        op.gathered = more ? &gathered : NULL;
        assert_ok(run_op(device, &op));
        ck_assert(y.device[LS_REPORT_LOSS] == told[LS_REPORT_LOSS] + 2.5F * (float)(1 + more));
        ck_assert(y.device[LS_REPORT_CORRECT] == told[LS_REPORT_CORRECT] + 3 * (float)(1 + more));
        ck_assert(y.device[LS_REPORT_CORRECT_UNITS] == told[LS_REPORT_CORRECT_UNITS]);
        ck_assert(y.device[LS_REPORT_ROWS] == told[LS_REPORT_ROWS] + 4 * (float)(1 + more));
        ck_assert(y.device[LS_REPORT_ROWS_UNITS] == told[LS_REPORT_ROWS_UNITS]);
        ck_assert(y.device[LS_REPORT_UNCOUNTED] ==
                  told[LS_REPORT_UNCOUNTED] + (float)(5000 * (1 + more) % LS_REPORT_UNIT));
        ck_assert(y.device[LS_REPORT_UNCOUNTED_UNITS] ==
                  told[LS_REPORT_UNCOUNTED_UNITS] + (float)(5000 * (1 + more) / LS_REPORT_UNIT));
        ck_assert(y.device[LS_REPORT_WEIGHT] == told[LS_REPORT_WEIGHT] + 1.5F * (float)(1 + more));
        for (int i = 0; i < LS_MAX_METRICS; i++)
            ck_assert(y.device[LS_REPORT_METRICS + i] ==
                      told[LS_REPORT_METRICS + i] + 10 + (float)i + (i == 0 && more ? 0.25F : 0));
        for (int i = LS_REPORT_OTHERS; i < y.count; i++) ck_assert(y.device[i] == told[i]);
    }
    op.tensors[LS_ARG_Y].shape = LS_SHAPE(LS_REPORT_OTHERS - 1);
    assert_refused(device->ops->build(device, &op),
                   "report: sums or report is missing, or y has fewer than 16 elements");
    free_pair(&y);
    ls_device_close(device);
}

/* Above 2^24 a count is no float32; the sum of several replicas' is exact all the same. */
TEST(large_counts_are_exact) {
    struct ls_device *device = open_device();
    static const int64_t rows[] = {16777217, 1, 4095, 4096, 123456789};
    const float none[LS_REPORT_OTHERS] = {0};
    struct pair y = make_pair(LS_REPORT_OTHERS);
    float rest = 0, units = 0;
    int64_t wanted = 0;
    for (size_t i = 0; i < sizeof(rows) / sizeof(rows[0]); i++) {
        struct ls_loss_sums sums = {.rows = rows[i], .correct = rows[i] - 1};
        struct ls_op op = {.kind = LS_OP_REPORT, .sums = &sums, .report = none};
        op.tensors[LS_ARG_Y] = tensor(&y, LS_SHAPE(y.count));
        assert_ok(run_op(device, &op));
        rest += y.device[LS_REPORT_ROWS];
        units += y.device[LS_REPORT_ROWS_UNITS];
        wanted += rows[i];
        ck_assert_int_eq((int64_t)y.device[LS_REPORT_CORRECT] +
                             LS_REPORT_UNIT * (int64_t)y.device[LS_REPORT_CORRECT_UNITS],
                         rows[i] - 1);
    }
    ck_assert_int_eq((int64_t)rest + LS_REPORT_UNIT * (int64_t)units, wanted);
    free_pair(&y);
    ls_device_close(device);
}

TESTS("report")
