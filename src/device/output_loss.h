/* The loss of a single output: Keras' formulas in double, the same on every device. */
#pragma once
#include <math.h>

#include "base/philox.h"
#include "device/op.h"

#define LS_OUTPUT_EPSILON 1e-7 /* probabilities are kept so far from 0 and 1, as keras.config.epsilon */

/* True if the probability lies inside its bounds, or is NaN, which stays NaN, as in Keras. */
static inline LS_HOST_DEVICE bool ls_output_is_inside(double probability) {
    return !(probability < LS_OUTPUT_EPSILON || probability > 1 - LS_OUTPUT_EPSILON);
}

static inline LS_HOST_DEVICE double ls_output_keep_inside(double probability) {
    if (ls_output_is_inside(probability)) return probability;
    return probability < LS_OUTPUT_EPSILON ? LS_OUTPUT_EPSILON : 1 - LS_OUTPUT_EPSILON;
}

/* slope: the derivative by the output. */
struct ls_output_loss {
    double loss, slope;
    bool right;
};

/* max(x, 0) - x z + log(1 + exp(-|x|)) is tf.nn.sigmoid_cross_entropy_with_logits' form: small is at most 1, so no
 * exponential overflows for any x. The gradient is sigmoid(x) - z, from the same small. */
static inline LS_HOST_DEVICE struct ls_output_loss ls_output_sigmoid(double x, double own, double wanted) {
    double small = exp(-fabs(x)), loss = fmax(x, 0.0) - x * wanted + log1p(small);
    struct ls_output_loss made = {loss, (x < 0 ? small : 1) / (1 + small) - wanted, (x > 0) == (own > 0.5)};
    return made;
}

static inline LS_HOST_DEVICE struct ls_output_loss ls_output_binary(double given, double own, double wanted) {
    double p = ls_output_keep_inside(given), loss = -(wanted * log(p) + (1 - wanted) * log(1 - p));
    double slope = ls_output_is_inside(given) ? (1 - wanted) / (1 - p) - wanted / p : 0;
    struct ls_output_loss made = {loss, slope, (given > 0.5) == (own > 0.5)};
    return made;
}

/* own: the output's target, before it is smoothed; delta: huber's. */
static inline LS_HOST_DEVICE struct ls_output_loss ls_output_loss(enum ls_op_kind kind, double given, double own,
                                                                  double smoothing, double delta) {
    double wanted = own * (1 - smoothing) + 0.5 * smoothing, error = given - own, far = fabs(error);
    struct ls_output_loss made = {error * error, 2 * error, false};
    if (kind == LS_OP_SIGMOID_CROSSENTROPY) return ls_output_sigmoid(given, own, wanted);
    if (kind == LS_OP_BINARY_CROSSENTROPY) return ls_output_binary(given, own, wanted);
    if (kind == LS_OP_ABSOLUTE_ERROR) made.loss = far, made.slope = (double)((error > 0) - (error < 0));
    if (kind == LS_OP_HUBER) {
        made.loss = far <= delta ? 0.5 * error * error : delta * far - 0.5 * delta * delta;
        made.slope = far > delta ? copysign(delta, error) : error;
    }
    return made;
}
