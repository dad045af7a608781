/* Initial values as a function of (seed, variable name, element), so that every worker, layout and restart draws the
 * same. Mirrors keras.initializers: limits and deviations from the fans; normals are cut at two deviations, and the
 * deviation is enlarged for what the cut takes away. */
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
                                    [LS_RANDOM_NORMAL] = "random_normal"};

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
    default:
        fill.kind = LS_FILL_CONSTANT;
        fill.reach = variable->initializer == LS_ONES ? 1 : 0;
    }
    return fill;
}

void ls_initializer_apply(const struct ls_network_variable *variable, uint64_t seed, float *values) {
    const struct ls_fill fill = ls_initializer_fill(variable, seed);
    ls_fill(&fill, 0, values, variable->count);
}
