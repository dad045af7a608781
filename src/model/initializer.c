/* Initial values as a function of (seed, variable name, element), so that every worker, layout and restart draws the
 * same. Mirrors keras.initializers: limits and deviations from the fans; normals are cut at two deviations, and the
 * deviation is enlarged for what the cut takes away. */
#include "model/initializer.h"

#include <math.h>

#include "base/random.h"

#define UNIFORM_REACH 0.05                /* Keras' RandomUniform */
#define CUT_DEVIATION 0.87962566103423978 /* of a standard normal cut at two deviations */

static const char *const names[] = {[LS_GLOROT_UNIFORM] = "glorot_uniform",
                                    [LS_GLOROT_NORMAL] = "glorot_normal",
                                    [LS_HE_UNIFORM] = "he_uniform",
                                    [LS_HE_NORMAL] = "he_normal",
                                    [LS_ZEROS] = "zeros",
                                    [LS_ONES] = "ones",
                                    [LS_RANDOM_UNIFORM] = "random_uniform"};

const char *ls_initializer_name(ls_initializer initializer) {
    return (size_t)initializer < sizeof(names) / sizeof(names[0]) ? names[initializer] : NULL;
}

/* A uniform value in [-limit, limit) has the variance limit^2 / 3. The shift by 11 leaves 53 bits, as many as a double
 * holds, so unit is in [0, 1) and never 1. */
static void fill_uniform(uint64_t seed, uint64_t stream, double limit, struct ls_span span) {
    for (size_t i = 0; i < span.count; i++) {
        double unit = (double)(ls_random_bits(seed, stream, i) >> 11) * 0x1p-53;
        span.values[i] = (float)((2 * unit - 1) * limit);
    }
}

/* Draws again what falls outside two deviations; each attempt has its own numbers, 2^40 elements apart. */
static double cut_normal(uint64_t seed, uint64_t stream, uint64_t element) {
    for (uint64_t attempt = 0;; attempt++) {
        double value = ls_random_normal(seed, stream, element + (attempt << 40));
        if (fabs(value) <= 2) return value;
    }
}

static void fill_normal(uint64_t seed, uint64_t stream, double deviation, struct ls_span span) {
    for (size_t i = 0; i < span.count; i++)
        span.values[i] = (float)(cut_normal(seed, stream, i) * (deviation / CUT_DEVIATION));
}

static void fill_initializer(struct ls_span span, float value) {
    for (size_t i = 0; i < span.count; i++) span.values[i] = value;
}

/* Glorot and Bengio 2010 want the variance 2 / (fan_in + fan_out), which keeps activations and gradients of linear
 * layers; He et al. 2015 want 2 / fan_in, for ReLU halves the variance. The limit of a uniform is the root of three
 * variances, hence the 6. The stream is a digest of the variable's name, so its values do not depend on the other
 * variables. */
void ls_initializer_apply(const struct ls_network_variable *variable, uint64_t seed, float *values) {
    uint64_t stream = ls_random_stream(variable->name);
    double in = (double)variable->fan_in, both = in + (double)variable->fan_out;
    struct ls_span span = {values, variable->count};
    switch (variable->initializer) {
    case LS_GLOROT_UNIFORM:
        fill_uniform(seed, stream, sqrt(6 / both), span);
        break;
    case LS_HE_UNIFORM:
        fill_uniform(seed, stream, sqrt(6 / in), span);
        break;
    case LS_GLOROT_NORMAL:
        fill_normal(seed, stream, sqrt(2 / both), span);
        break;
    case LS_HE_NORMAL:
        fill_normal(seed, stream, sqrt(2 / in), span);
        break;
    case LS_RANDOM_UNIFORM:
        fill_uniform(seed, stream, UNIFORM_REACH, span);
        break;
    case LS_ONES:
        fill_initializer(span, 1);
        break;
    default:
        fill_initializer(span, 0);
    }
}
