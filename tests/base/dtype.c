/* Tests of base/dtype: the 16-bit conversions over every value and every rounding boundary, against formulas in double;
 * shapes. */
#include "base/shape.h"
#include "base/half.h"
#include "base/options.h"

#include <math.h>
#include <string.h>

#include "base/random.h"
#include "harness.h"

/* A 16-bit float: one sign bit, then exponent, then fraction. */
struct format {
    const char *name;
    int fraction_bits, bias;
    uint16_t infinity; /* everything above it is NaN */
    float (*widen)(uint16_t);
    uint16_t (*narrow)(float);
};
static const struct format formats[] = {
    {"float16", 10, 15, 0x7C00, ls_half_to_float, ls_half_from_float},
    {"bfloat16", 7, 127, 0x7F80, ls_half_bfloat16_to_float, ls_half_bfloat16_from_float},
};
#define FORMAT_COUNT 2

/* The value of bits by the standard's definition. */
static double value_of(const struct format *format, uint16_t bits) {
    int exponent = (bits & 0x7FFF) >> format->fraction_bits, fraction = bits & ((1 << format->fraction_bits) - 1);
    double sign = bits & 0x8000 ? -1 : 1;
    if ((bits & 0x7FFF) == format->infinity) return sign * INFINITY;
    if (exponent == 0) return sign * ldexp(fraction, 1 - format->bias - format->fraction_bits);
    return sign * ldexp((1 << format->fraction_bits) + fraction, exponent - format->bias - format->fraction_bits);
}

static bool is_nan16(const struct format *format, uint16_t bits) {
    return (bits & 0x7FFF) > format->infinity;
}

TEST_EACH(widening, FORMAT_COUNT) {
    const struct format *format = &formats[_i];
    for (uint32_t bits = 0; bits < 0x10000; bits++) {
        float wide = format->widen((uint16_t)bits);
        if (is_nan16(format, (uint16_t)bits)) {
            ck_assert_msg(isnan(wide), "%s %04x", format->name, bits);
        } else {
            ck_assert_msg((double)wide == value_of(format, (uint16_t)bits), "%s %04x", format->name, bits);
            ck_assert_int_eq(signbit(wide) != 0, bits >> 15);
        }
    }
}

TEST_EACH(round_trip, FORMAT_COUNT) {
    const struct format *format = &formats[_i];
    for (uint32_t bits = 0; bits < 0x10000; bits++) {
        uint16_t back = format->narrow(format->widen((uint16_t)bits));
        if (is_nan16(format, (uint16_t)bits))
            ck_assert_msg(is_nan16(format, back), "%s NaN %04x became %04x", format->name, bits, back);
        else
            ck_assert_msg(back == bits, "%s %04x became %04x", format->name, bits, back);
    }
}

static void check_narrow(const struct format *format, float value, uint32_t want) {
    uint16_t got = format->narrow(value);
    ck_assert_msg(got == want, "%s(%a) is %04x, not %04x", format->name, (double)value, got, want);
    got = format->narrow(-value);
    ck_assert_msg(got == (want | 0x8000), "%s(-%a) is %04x, not %04x", format->name, (double)value, got, want | 0x8000);
}

/* Between each pair of neighbours: the tie goes to the even one, the floats beside the tie to the nearer one. */
TEST_EACH(boundaries, FORMAT_COUNT) {
    const struct format *format = &formats[_i];
    for (uint32_t low = 0; low < format->infinity; low++) {
        double above = low + 1 == format->infinity
                           ? ldexp(1, format->infinity / (1 << format->fraction_bits) - format->bias)
                           : value_of(format, (uint16_t)(low + 1));
        float tie = (float)((value_of(format, (uint16_t)low) + above) / 2);
        check_narrow(format, tie, low + (low & 1));
        check_narrow(format, nextafterf(tie, 0), low);
        check_narrow(format, nextafterf(tie, INFINITY), low + 1);
    }
    check_narrow(format, INFINITY, format->infinity);
    check_narrow(format, 3.4028234663852886e38F, format->infinity);
    check_narrow(format, 0, 0);
}

/* The nearest 16-bit value by rounding in double, whose ties go to even. */
static double rounded(const struct format *format, double value) {
    int exponent = 0;
    (void)frexp(value, &exponent);
    if (exponent < 2 - format->bias) exponent = 2 - format->bias;
    double unit = ldexp(1, exponent - 1 - format->fraction_bits), result = rint(value / unit) * unit;
    double limit = ldexp(1, format->infinity / (1 << format->fraction_bits) - format->bias);
    return fabs(result) >= limit ? copysign(INFINITY, value) : result;
}

TEST_EACH(random_floats, FORMAT_COUNT) {
    const struct format *format = &formats[_i];
    for (uint64_t i = 0; i < 2000000; i++) {
        uint32_t bits = (uint32_t)ls_random_bits(1, 2, i);
        float value;
        memcpy(&value, &bits, sizeof(value));
        uint16_t got = format->narrow(value);
        if (isnan(value))
            ck_assert(is_nan16(format, got));
        else
            ck_assert_msg(value_of(format, got) == rounded(format, (double)value), "%s(%a) is %04x", format->name,
                          (double)value, got);
    }
}

TEST_EACH(nan_payloads, FORMAT_COUNT) {
    static const uint32_t nans[] = {0x7F800001, 0x7FC00000, 0x7FFFFFFF, 0x7F801000, 0xFF800001, 0xFFFFFFFF};
    for (size_t i = 0; i < sizeof(nans) / sizeof(nans[0]); i++) {
        float value;
        memcpy(&value, &nans[i], sizeof(value));
        ck_assert(is_nan16(&formats[_i], formats[_i].narrow(value)));
    }
}

TEST(names_and_sizes) {
    static const size_t sizes[] = {4, 8, 2, 2, 4, 8, 1, 1, 1};
    static const char *const names[] = {"float32", "float64", "float16", "bfloat16", "int32",
                                        "int64",   "uint8",   "int8",    "bool"};
    for (int i = 0; i < 9; i++) {
        ck_assert_uint_eq(ls_dtype_size((ls_dtype)i), sizes[i]);
        ck_assert_str_eq(ls_dtype_name((ls_dtype)i), names[i]);
        assert_ok(ls_dtype_check((ls_dtype)i));
    }
    ck_assert_uint_eq(ls_dtype_size((ls_dtype)9), 0);
    ck_assert_str_eq(ls_dtype_name((ls_dtype)9), "unknown");
    ck_assert_int_eq(ls_dtype_check((ls_dtype)9), LS_INVALID_ARGUMENT);
    assert_ok(ls_option_names_check_reduce_op(LS_PRODUCT));
    ck_assert_int_eq(ls_option_names_check_reduce_op((ls_reduce_op)6), LS_INVALID_ARGUMENT);
    ck_assert_str_eq(ls_option_names_reduce_op(LS_MEAN), "mean");
    ck_assert_str_eq(ls_option_names_reduce_op(LS_PRODUCT), "product");
}

TEST(shape_counts) {
    ck_assert_int_eq(ls_shape_count(&(ls_shape){0}), 1);
    ck_assert_int_eq(ls_shape_count(&LS_SHAPE(28, 28, 3)), 2352);
    ck_assert_int_eq(ls_shape_count(&LS_SHAPE(5, 0, 3)), 0);
    ck_assert_int_eq(ls_shape_count(&LS_SHAPE(2, -1)), -1);
    ck_assert_int_eq(ls_shape_count(&LS_SHAPE(INT64_MAX, 2)), -1);
    ck_assert_int_eq(ls_shape_count(&LS_SHAPE(INT64_MAX, 1)), INT64_MAX);
    ck_assert_int_eq(ls_shape_count(&(ls_shape){.rank = 9}), -1);
    ck_assert_int_eq(ls_shape_count(&(ls_shape){.rank = -1}), -1);
    ck_assert(ls_shape_equal(&LS_SHAPE(2, 3), &LS_SHAPE(2, 3)));
    ck_assert(!ls_shape_equal(&LS_SHAPE(2, 3), &LS_SHAPE(3, 2)));
    ck_assert(!ls_shape_equal(&LS_SHAPE(2), &LS_SHAPE(2, 1)));
}

TEST(shape_texts) {
    char text[64], small[6];
    ls_shape_text(&LS_SHAPE(28, 28, 1), text, sizeof(text));
    ck_assert_str_eq(text, "(28, 28, 1)");
    ls_shape_text(&(ls_shape){0}, text, sizeof(text));
    ck_assert_str_eq(text, "()");
    ls_shape_text(&LS_SHAPE(28, 28, 1), small, sizeof(small));
    ck_assert_str_eq(small, "(28, ");
}

/* All classes of floats, of which every clone of the loop takes a rest. */
TEST(many_are_rounded_as_one_is) {
    enum { MANY = 4099 };
    float from[MANY];
    uint16_t to[MANY];
    for (uint32_t i = 0; i < MANY; i++) {
        uint32_t bits = (uint32_t)ls_random_bits(1, 2, i) & (i % 5 ? 0xFFFFFFFFU : 0x807FFFFFU);
        if (i % 7 == 0) bits |= 0x7F800000U;
        memcpy(&from[i], &bits, sizeof(bits));
    }
    ls_half_bfloat16_from_floats(to, from, MANY);
    for (uint32_t i = 0; i < MANY; i++) ck_assert_uint_eq(to[i], ls_half_bfloat16_from_float(from[i]));
}

TESTS("dtype", .seconds = 60)
