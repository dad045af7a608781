/* The oracle: every op in plain C and double precision, written for reading. A device is right when it agrees with
 * these to float32's precision; these are right when they agree with finite differences (tests/model). */
#pragma once
#include <lockstep/lockstep.h>

struct reference_dense {
    int64_t rows, in, out;
    bool relu;
    const double *x, *w, *b; /* (rows, in), (in, out), (out) */
    double *y;               /* (rows, out) */
    double *dy;              /* (rows, out); becomes the gradient before the activation */
    double *dx, *dw, *db;    /* dx may be NULL */
};
void reference_dense_forward(const struct reference_dense *dense);
void reference_dense_backward(const struct reference_dense *dense);

void reference_relu_forward(const double *x, double *y, int64_t count);
void reference_relu_backward(const double *y, const double *dy, double *dx, int64_t count);

struct reference_loss {
    int64_t rows, classes;
    const double *logits;
    const int32_t *labels; /* or NULL, and then */
    const double *one_hot; /* (rows, classes) */
    double scale;          /* of dlogits */
    double *dlogits;       /* may be NULL */
};
struct reference_sums {
    double loss;
    int64_t correct;
};
struct reference_sums reference_softmax_crossentropy(const struct reference_loss *loss);
/* Of one_hot's numbers, row by row the mean over the outputs; weights (rows) or NULL; nothing is right. */
enum reference_error { REFERENCE_SQUARED = 0, REFERENCE_ABSOLUTE, REFERENCE_HUBER };
struct reference_sums reference_error(enum reference_error kind, double delta, const double *weights,
                                      const struct reference_loss *loss);
void reference_one_hot(const int32_t *labels, int64_t rows, int64_t classes, double *one_hot);

/* One step of an optimizer. beta, rho and epsilon are doubles of their own, because 0.999 as float32 is another number.
 * A 0 is left out. */
enum reference_kind { REFERENCE_SGD = 0, REFERENCE_ADAM, REFERENCE_RMSPROP, REFERENCE_LAMB };
struct reference_rule {
    enum reference_kind kind;
    bool nesterov, centered, torch_epsilon;
    double rate, momentum, beta_1, beta_2, rho, epsilon;
    double weight_decay, clipvalue, clipnorm, global_clipnorm;
};
/* A variable: what lies between them is touched by no norm, regulariser or decay, nor by LAMB. */
struct reference_part {
    int64_t offset, count;
    bool decays;
    double l1, l2;
};
struct reference_update {
    int64_t count, iteration;
    double *parameters, *gradients; /* gradients are changed on the way */
    double *moments[3];             /* as many as the rule has, in the device's order */
    const struct reference_part *parts;
    int64_t part_count;
};
void reference_optimize(const struct reference_rule *rule, const struct reference_update *update);
double reference_penalty(const struct reference_update *update);
