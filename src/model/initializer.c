/* Initial values as a function of (seed, variable name, element), so that every worker, layout and restart draws the
 * same. Mirrors keras.initializers: limits and deviations from the fans; normals are cut at two deviations, and the
 * deviation is enlarged for what the cut takes away. An orthogonal matrix is a function of all its elements. */
#include "model/network.h"

#include <math.h>

#include "base/random.h"

#define UNIFORM_REACH 0.05                /* Keras' RandomUniform */
#define NORMAL_STDDEV 0.05                /* Keras' RandomNormal */
#define CUT_DEVIATION 0.87962566103423978 /* of a standard normal cut at two deviations */

static const char *const names[] = {[LS_GLOROT_UNIFORM] = "glorot_uniform",
                                    [LS_GLOROT_NORMAL] = "glorot_normal",
                                    [LS_HE_UNIFORM] = "he_uniform",
                                    [LS_HE_NORMAL] = "he_normal",
                                    [LS_ZEROS] = "zeros",
                                    [LS_ONES] = "ones",
                                    [LS_RANDOM_UNIFORM] = "random_uniform",
                                    [LS_RANDOM_NORMAL] = "random_normal",
                                    [LS_ORTHOGONAL] = "orthogonal"};

const char *ls_initializer_name(ls_initializer initializer) {
    return (size_t)initializer < sizeof(names) / sizeof(names[0]) ? names[initializer] : NULL;
}

/* Glorot and Bengio 2010 want the variance 2 / (fan_in + fan_out), which keeps activations and gradients of linear
 * layers; He et al. 2015 want 2 / fan_in, for ReLU halves the variance. The limit of a uniform is the root of three
 * variances, hence the 6. The stream is a digest of the variable's name, so its values do not depend on the other
 * variables. */
struct ls_fill ls_initializer_fill(const struct ls_network_variable *variable, uint64_t seed) {
    double in = (double)variable->fan_in, both = in + (double)variable->fan_out;
    struct ls_fill fill = {LS_FILL_UNIFORM, 0, seed, ls_random_stream(variable->name)};
    switch (variable->initializer) {
    case LS_GLOROT_UNIFORM:
        fill.reach = sqrt(6 / both);
        break;
    case LS_HE_UNIFORM:
        fill.reach = sqrt(6 / in);
        break;
    case LS_GLOROT_NORMAL:
        fill.kind = LS_FILL_NORMAL;
        fill.reach = sqrt(2 / both) / CUT_DEVIATION;
        break;
    case LS_HE_NORMAL:
        fill.kind = LS_FILL_NORMAL;
        fill.reach = sqrt(2 / in) / CUT_DEVIATION;
        break;
    case LS_RANDOM_UNIFORM:
        fill.reach = UNIFORM_REACH;
        break;
    case LS_RANDOM_NORMAL:
        fill.kind = LS_FILL_WHOLE_NORMAL;
        fill.reach = variable->stddev > 0 ? (double)variable->stddev : NORMAL_STDDEV;
        break;
    case LS_ORTHOGONAL:
        fill.kind = LS_FILL_WHOLE_NORMAL;
        fill.reach = 1;
        break;
    default:
        fill.kind = LS_FILL_CONSTANT;
        fill.reach = variable->initializer == LS_ONES ? 1 : 0;
    }
    return fill;
}

/* Vectors in a matrix: its rows, or its columns, of which there are fewer. */
struct vectors {
    float *values;
    size_t count, length, pitch, step; /* pitch: to the next vector; step: to a vector's next element */
};

static double inner_product(const struct vectors *v, size_t one, size_t other) {
    const float *a = v->values + one * v->pitch, *b = v->values + other * v->pitch;
    double sum = 0;
    for (size_t i = 0; i < v->length; i++) sum += (double)a[i * v->step] * (double)b[i * v->step];
    return sum;
}

static void take_away(const struct vectors *v, size_t from, size_t other, double share) {
    float *a = v->values + from * v->pitch, *b = v->values + other * v->pitch;
    for (size_t i = 0; i < v->length; i++)
        a[i * v->step] = (float)((double)a[i * v->step] - share * (double)b[i * v->step]);
}

/* Gram and Schmidt's way, each vector twice for rounding's sake: the matrix Q of the QR decomposition of normal numbers
 * with signs that make R's diagonal positive, as Keras' Orthogonal has it (Saxe et al. 2013). */
static void make_orthogonal(const struct ls_network_variable *variable, float *values) {
    size_t columns = (size_t)variable->shape.dims[variable->shape.rank - 1], rows = variable->count / columns;
    bool wide = rows <= columns;
    const struct vectors v = {values, wide ? rows : columns, wide ? columns : rows, wide ? columns : 1,
                              wide ? 1 : columns};
    for (size_t j = 0; j < v.count; j++) {
        for (size_t k = 0; k < 2 * j; k++) take_away(&v, j, k % j, inner_product(&v, j, k % j));
        take_away(&v, j, j, 1 - 1 / sqrt(inner_product(&v, j, j)));
    }
}

void ls_initializer_apply(const struct ls_network_variable *variable, uint64_t seed, float *values) {
    const struct ls_fill fill = ls_initializer_fill(variable, seed);
    ls_fill(&fill, 0, values, variable->count);
    if (variable->initializer == LS_ORTHOGONAL) make_orthogonal(variable, values);
    for (int64_t i = variable->ones[0]; i < variable->ones[1]; i++) values[i] = 1;
}
