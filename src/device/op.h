/* An op: a kind, tensor arguments, parameters; a device turns it into something that runs. Shapes are fixed at build;
 * values that change from step to step are read through pointers. */
#pragma once
#include <lockstep/lockstep.h>

enum ls_op_kind {
    LS_OP_DENSE_FORWARD,  /* y(R,M) = x(R,N) w(N,M) + b(M), then activation */
    LS_OP_DENSE_BACKWARD, /* dw(N,M), db(M), and dx(R,N) unless NULL, from x, w, y, dy(R,M); dy becomes the gradient
                             before the activation */
    LS_OP_RELU_FORWARD,
    LS_OP_RELU_BACKWARD,
    LS_OP_SOFTMAX_CROSSENTROPY, /* logits(R,C), labels(R) int32 or (R,C) float one-hot -> dlogits(R,C) scaled by *scale,
                                   loss sum and number right; dlogits may be NULL (evaluation) */
    LS_OP_ONE_HOT,              /* labels(R) int32 -> y(R,C) rows with a 1 at the label */
    LS_OP_SGD,
    LS_OP_ADAM,
    LS_OP_KIND_COUNT
};

struct ls_tensor {
    void *data; /* device memory */
    ls_dtype dtype;
    ls_shape shape;
};

/* What a loss op writes, in host memory: sums over its rows, not scaled. */
struct ls_loss_sums {
    double loss;
    int64_t correct, rows;
};

/* Read at each run of an optimizer op. */
struct ls_optimizer_step {
    ls_optimizer rule;
    int64_t iteration; /* 1 for the first step: Adam's bias correction */
};

struct ls_op;
typedef ls_status ls_op_run_fn(const struct ls_op *op);
#define LS_OP_TENSORS 8
struct ls_op {
    enum ls_op_kind kind;
    struct ls_tensor tensors[LS_OP_TENSORS]; /* which is which: the LS_ARG_ names below */
    ls_activation activation;
    const float *scale;                   /* SOFTMAX_CROSSENTROPY: 1 / global rows */
    struct ls_loss_sums *sums;            /* SOFTMAX_CROSSENTROPY */
    const struct ls_optimizer_step *step; /* SGD, ADAM */
    /* set by the device's build */
    ls_op_run_fn *run;
    void *handle;
};

/* Places in tensors[] by kind. A tensor with data NULL is absent where the kind allows it. */
enum { LS_ARG_X = 0, LS_ARG_W, LS_ARG_B, LS_ARG_Y, LS_ARG_DY, LS_ARG_DX, LS_ARG_DW, LS_ARG_DB }; /* dense, relu */
enum { LS_ARG_LOGITS = 0, LS_ARG_LABELS, LS_ARG_DLOGITS, LS_ARG_ONE_HOT };                       /* loss, one-hot */
enum { LS_ARG_PARAMETERS = 0, LS_ARG_GRADIENTS, LS_ARG_MOMENT_1, LS_ARG_MOMENT_2 };              /* optimizers */

/* What every device's build asks first: are the arguments there, of the right type, shape and combination?
 * INVALID_ARGUMENT naming the op, the argument, what it is and what it should be. */
ls_status ls_op_check(const struct ls_op *op);
const char *ls_op_name(enum ls_op_kind kind); /* "dense forward"; "unknown" past the end */
