/* An op: a kind, tensor arguments, parameters; a device turns it into something that runs. Shapes are fixed at build;
 * values that change from step to step are read through pointers. Images are (rows, height, width, channels).
 *
 * What layers give each other (x, y, dy, dx, residual) and the copies of kernels (w) are float32, bfloat16 or float16,
 * all of an op alike; arithmetic is float32. Everything else, gradients of variables above all, is float32, or int32
 * labels. */
#pragma once
#include <lockstep/lockstep.h>

#define LS_BYTE_VALUES 256
/* The list of ops: kind, name, check (op.c, op_layers.c), then the CPU's functions (cpu/cpu.h): run, and where there is
 * something to prepare build and discard. */
#define LS_OP_KINDS(ROW)                                                                                               \
    /* y(R,M) = x(R,N) w(N,M) + b(M), then activation; b may be NULL where there is none */                            \
    ROW(DENSE_FORWARD, "dense forward", check_dense, ls_cpu_dense_forward, ls_cpu_dense_build, ls_cpu_dense_discard)   \
    /* unless NULL dw(N,M), db(M), dx(R,N), from x, w, y, dy(R,M), which may be left as the gradient before            \
     * the activation. With op->adds dw and db are added to what is there */                                           \
    ROW(DENSE_BACKWARD, "dense backward", check_dense, ls_cpu_dense_backward, ls_cpu_dense_build,                      \
        ls_cpu_dense_discard)                                                                                          \
    /* y(R,H',W',M) from x(R,H,W,C), w(h,w,C/groups,M), b(M) unless NULL */                                            \
    ROW(CONVOLUTION_FORWARD, "convolution forward", ls_op_layers_check_convolution, ls_cpu_convolution_run,            \
        ls_cpu_convolution_build, ls_cpu_convolution_discard)                                                          \
    /* dx from w, dy */                                                                                                \
    ROW(CONVOLUTION_BACKWARD_DATA, "convolution backward data", ls_op_layers_check_convolution,                        \
        ls_cpu_convolution_run, ls_cpu_convolution_build, ls_cpu_convolution_discard)                                  \
    /* dw, and db unless NULL, from x, dy */                                                                           \
    ROW(CONVOLUTION_BACKWARD_WEIGHTS, "convolution backward weights", ls_op_layers_check_convolution,                  \
        ls_cpu_convolution_run, ls_cpu_convolution_build, ls_cpu_convolution_discard)                                  \
    /* dx, dw, and db unless NULL, from x, w, dy, where each filter sees one channel. dx may be x */                   \
    ROW(DEPTHWISE_BACKWARD, "depthwise backward", ls_op_layers_check_convolution, ls_cpu_depthwise_backward,           \
        ls_cpu_depthwise_build, ls_cpu_depthwise_discard)                                                              \
    /* y from x; op->pool */                                                                                           \
    ROW(POOL_FORWARD, "pool forward", ls_op_layers_check_pool, ls_cpu_pool_forward)                                    \
    /* dx from dy, and for the maximum x, y */                                                                         \
    ROW(POOL_BACKWARD, "pool backward", ls_op_layers_check_pool, ls_cpu_pool_backward, ls_cpu_pool_build)              \
    /* the batch's statistics: saved(2,C) for the others; dmean, dvariance (C): see ls_op. And, unless NULL, y =       \
     * activation(normalized x gamma + beta + residual) */                                                             \
    ROW(BATCH_NORM_FORWARD, "batch norm forward", ls_op_layers_check_batch_norm, ls_cpu_batch_norm_forward,            \
        ls_cpu_batch_norm_build, ls_cpu_batch_norm_discard)                                                            \
    /* y with the moving statistics mean, variance (C) */                                                              \
    ROW(BATCH_NORM_INFERENCE, "batch norm inference", ls_op_layers_check_batch_norm, ls_cpu_batch_norm_inference,      \
        ls_cpu_batch_norm_build)                                                                                       \
    /* y from x and saved, to the bit */                                                                               \
    ROW(BATCH_NORM_AGAIN, "batch norm again", ls_op_layers_check_batch_norm, ls_cpu_batch_norm_again,                  \
        ls_cpu_batch_norm_build)                                                                                       \
    /* dgamma, dbeta, and unless NULL shifts(2,C) and dx, from x, dy, gamma, beta, saved. dx may be dy. With a         \
     * residual and an activation also y is needed, and dresidual is written, which may be dy */                       \
    ROW(BATCH_NORM_BACKWARD, "batch norm backward", ls_op_layers_check_batch_norm, ls_cpu_batch_norm_backward,         \
        ls_cpu_batch_norm_build, ls_cpu_batch_norm_discard)                                                            \
    /* dx from x, dy, gamma, beta, saved, shifts; without a residual */                                                \
    ROW(BATCH_NORM_BACKWARD_DATA, "batch norm backward data", ls_op_layers_check_batch_norm,                           \
        ls_cpu_batch_norm_backward_data, ls_cpu_batch_norm_build)                                                      \
    /* y = (x - mean) inverse gamma + beta over the last axis of x, where mean is 0 unless op->centered. And unless    \
     * NULL saved(positions,2): mean, inverse = 1 / sqrt(mean((x - mean)^2) + epsilon) */                              \
    ROW(LAYER_NORM_FORWARD, "layer norm forward", ls_op_layers_check_layer_norm, ls_cpu_layer_norm_forward,            \
        ls_cpu_layer_norm_build)                                                                                       \
    /* unless NULL dgamma(C), dbeta(C), dx, from x, dy, gamma, saved. dx may be dy */                                  \
    ROW(LAYER_NORM_BACKWARD, "layer norm backward", ls_op_layers_check_layer_norm, ls_cpu_layer_norm_backward,         \
        ls_cpu_layer_norm_build)                                                                                       \
    /* y = activation(x), softmax over the last axis; y may be x */                                                    \
    ROW(ACTIVATION_FORWARD, "activation forward", check_activation_forward, ls_cpu_activation_forward)                 \
    /* dx from y, dy, or from x, dy: see ls_op_activation_takes_x. dx may be dy */                                     \
    ROW(ACTIVATION_BACKWARD, "activation backward", check_activation_backward, ls_cpu_activation_backward)             \
    /* y = x + w; y may be x */                                                                                        \
    ROW(ADD, "add", ls_op_layers_check_elements, ls_cpu_elements)                                                      \
    /* y = x w; y may be x, or w */                                                                                    \
    ROW(MULTIPLY, "multiply", ls_op_layers_check_elements, ls_cpu_elements)                                            \
    /* y = x alpha + beta; y may be x */                                                                               \
    ROW(SCALE, "scale", ls_op_layers_check_elements, ls_cpu_elements)                                                  \
    /* y(R,M)'s columns from op->column on = x(R,N) */                                                                 \
    ROW(PLACE, "place", ls_op_layers_check_columns, ls_cpu_columns)                                                    \
    /* y(R,N) = x(R,M)'s columns from op->column on */                                                                 \
    ROW(TAKE, "take", ls_op_layers_check_columns, ls_cpu_columns)                                                      \
    /* y(R,N,D) = rows of w(V,D) by x(R,N), int32, or float32: whole numbers; 0 to below V */                          \
    ROW(EMBEDDING_FORWARD, "embedding forward", ls_op_layers_check_embedding, ls_cpu_embedding_forward)                \
    /* dw(V,D) from x, dy(R,N,D): the rows of one number are added in their order, to zero, or with op->adds to what   \
     * is there */                                                                                                     \
    ROW(EMBEDDING_BACKWARD, "embedding backward", ls_op_layers_check_embedding, ls_cpu_embedding_backward)             \
    /* y(R,T,H D) from x(R,T,(H + 2 K) D), op->attention: of each position the queries of H heads, then keys, then     \
     * values of K heads, all of D floats. And, unless NULL, saved(R,H,T): logarithms of the sums of exponentials */   \
    ROW(ATTENTION_FORWARD, "attention forward", ls_op_sequence_check_attention, ls_cpu_attention_forward,              \
        ls_cpu_attention_build, ls_cpu_attention_discard)                                                              \
    /* dx from x, y, dy, saved */                                                                                      \
    ROW(ATTENTION_BACKWARD, "attention backward", ls_op_sequence_check_attention, ls_cpu_attention_backward,           \
        ls_cpu_attention_build, ls_cpu_attention_discard)                                                              \
    /* as forward, of x(R,N,(H + 2 K) D) from position at(1) on, int32, behind those of which kept(R,2,K,T,D) has the  \
     * keys, turned by rope, and the values: it puts its own there. at is read when it runs; at + N is at most T */    \
    ROW(ATTENTION_DECODE, "attention decode", ls_op_sequence_check_decode, ls_cpu_attention_decode,                    \
        ls_cpu_attention_build, ls_cpu_attention_discard)                                                              \
    /* y(R,N,C) = x + b(T,C) for each row, where T is N; or unless NULL from b's row at(1) on, which is as a decode's. \
     * y may be x */                                                                                                   \
    ROW(POSITION_FORWARD, "position forward", ls_op_sequence_check_position, ls_cpu_position_forward)                  \
    /* db(T,C) from dy(R,T,C): the rows are added in their order */                                                    \
    ROW(POSITION_BACKWARD, "position backward", ls_op_sequence_check_position, ls_cpu_position_backward)               \
    /* y(R,T,U), or (R,U) of the last position, from x(R,T,G U), what the inputs give to the G gates of op->cell, and  \
     * w(U,G U), b(G U) unless NULL, for what the output before gives to them. For backward, unless NULL:              \
     * saved(R,T,S U), and r(R,T,U), the outputs of the positions before, which are 0 at the first */                  \
    ROW(RECURRENT_FORWARD, "recurrent forward", ls_op_sequence_check_recurrent, ls_cpu_recurrent_run,                  \
        ls_cpu_recurrent_build)                                                                                        \
    /* dx, and of a GRU dr(R,T,G U), the gradient of what r w + b gives, from w, saved, r, dy. An LSTM's is dx */      \
    ROW(RECURRENT_BACKWARD, "recurrent backward", ls_op_sequence_check_recurrent, ls_cpu_recurrent_run,                \
        ls_cpu_recurrent_build)                                                                                        \
    /* y = x with zeros around, as op->window says */                                                                  \
    ROW(PAD, "pad", ls_op_layers_check_pad, ls_cpu_borders)                                                            \
    /* y = x without what op->window says */                                                                           \
    ROW(CROP, "crop", ls_op_layers_check_pad, ls_cpu_borders)                                                          \
    /* y = x / (1 - rate), or 0 with probability rate; rate is alpha. y may be x */                                    \
    ROW(DROPOUT, "dropout", ls_op_layers_check_elements, ls_cpu_elements)                                              \
    /* logits(R,...,C), labels(R,...) int32 or (R,...,C) float one-hot -> dlogits(R,...,C) scaled by *scale, loss sum  \
     * and number right; dlogits may be NULL (evaluation), or logits. The axes between are positions: a row's loss is  \
     * the mean over its positions. Of several, those with an int32 label LS_LABEL_UNCOUNTED have no loss, no          \
     * gradient, and are counted in sums alone. Labels are smoothed by alpha. weights(R) unless NULL: a row's loss and \
     * dlogits are multiplied by its weight. With op->adds the sums are added to what is there, as METRIC's are. So    \
     * are the next six, where a single output (C = 1) has the label itself as its target, and (R,...,C) floats may be \
     * any numbers: */                                                                                                 \
    ROW(SOFTMAX_CROSSENTROPY, "softmax crossentropy", check_loss, ls_cpu_loss)                                         \
    /* the logits are probabilities */                                                                                 \
    ROW(CROSSENTROPY, "crossentropy", check_loss, ls_cpu_loss)                                                         \
    /* of each output by itself: the mean over the outputs; right are single outputs */                                \
    ROW(SIGMOID_CROSSENTROPY, "sigmoid crossentropy", check_loss, ls_cpu_loss)                                         \
    /* the same; the logits are probabilities */                                                                       \
    ROW(BINARY_CROSSENTROPY, "binary crossentropy", check_loss, ls_cpu_loss)                                           \
    /* the mean over the outputs; nothing is right or wrong */                                                         \
    ROW(SQUARED_ERROR, "squared error", check_loss, ls_cpu_loss)                                                       \
    /* likewise */                                                                                                     \
    ROW(ABSOLUTE_ERROR, "absolute error", check_loss, ls_cpu_loss)                                                     \
    /* likewise: half the square up to beta, beta |error| - beta^2 / 2 above */                                        \
    ROW(HUBER, "huber", check_loss, ls_cpu_loss)                                                                       \
    /* logits, labels, weights as for a loss; op->metric's sum over the rows -> *value */                              \
    ROW(METRIC, "metric", check_metric, ls_cpu_metric)                                                                 \
    /* labels(R,...) int32 -> y(R,...,C) rows with a 1 at the label */                                                 \
    ROW(ONE_HOT, "one-hot", check_one_hot, ls_cpu_one_hot)                                                             \
    /* y = (y + x alpha) *scale: what a step has gathered before */                                                    \
    ROW(MERGE, "merge", ls_op_layers_check_elements, ls_cpu_elements)                                                  \
    /* Optimizers: parameters by gradients, which they may change too; parts as the rule needs them */                 \
    ROW(SGD, "sgd", check_optimizer, ls_cpu_sgd)                                                                       \
    ROW(ADAM, "adam", check_optimizer, ls_cpu_adam)                                                                    \
    ROW(RMSPROP, "rmsprop", check_optimizer, ls_cpu_rmsprop)                                                           \
    ROW(LAMB, "lamb", check_optimizer, ls_cpu_lamb)                                                                    \
    /* of the parts' regularisers -> *value */                                                                         \
    ROW(PENALTY, "penalty", check_penalty, ls_cpu_penalty)                                                             \
    /* y = x in y's type, rounded to nearest even: this and the next three are for 16-bit arithmetic */                \
    ROW(CAST, "cast", check_cast, ls_cpu_cast)                                                                         \
    /* y = what w(C,LS_BYTE_VALUES) has for the byte x (uint8), by its channel: of the last axis, or C is 1 */         \
    ROW(EXPAND, "expand", check_expand, ls_cpu_expand)                                                                 \
    /* how many elements of x are infinite or no number -> *value */                                                   \
    ROW(FINITE, "finite", check_finite, ls_cpu_finite)                                                                 \
    /* y(E) = report[E], to which *sums and *gathered (unless NULL) are added: see LS_REPORT_ */                       \
    ROW(REPORT, "report", check_report, ls_cpu_report)

#define LS_OP_KIND(kind, ...) LS_OP_##kind,
enum ls_op_kind { LS_OP_KINDS(LS_OP_KIND) LS_OP_KIND_COUNT };

struct ls_tensor {
    void *data; /* device memory */
    ls_dtype dtype;
    ls_shape shape;
    int buffer;    /* of the plan that places it, or below 0 was given it; 0: none, data is somebody's */
    size_t stride; /* floats from one part of the batch to the next; 0: all parts have the same place */
    size_t within; /* bytes from where the buffer begins */
};

/* The movement of a window over an image: height, then width. */
struct ls_window {
    int64_t kernel[2], strides[2], dilation[2]; /* each 1 or more */
    int64_t before[2], after[2]; /* zeros around; the maximum never takes them, averages leave them out */
    int64_t groups;              /* of a convolution */
};
enum ls_pool { LS_POOL_MAX = 0, LS_POOL_AVERAGE };

/* The heads of an attention, and the positions that one sees. */
struct ls_attention {
    int64_t heads, kv_heads; /* 1 or more; kv_heads divide heads: neighbouring heads share keys and values */
    bool causal;             /* a position sees none behind it */
    int64_t window;          /* of a causal one: it sees itself and window - 1 before it; 0: all before it */
    bool rope;               /* queries and keys are turned by their position (rope.h) */
    float rope_theta;        /* of the angles; 0: LS_ROPE_THETA */
};

/* Recurrent cells. LSTM, with the gates i, f, c, o: c' = f c + i tanh(c gate), y = o tanh(c'). GRU, with the gates z,
 * r, h: y' = z y + (1 - z) tanh(x's h + r times the h of r w + b), Keras' reset_after. All other gates are logistic.
 * saved: the gates, then c' of an LSTM, or the h of r w + b of a GRU. */
enum ls_cell { LS_CELL_LSTM = 0, LS_CELL_GRU };
static inline int64_t ls_cell_gates(enum ls_cell cell) {
    return cell == LS_CELL_GRU ? 3 : 4;
}
static inline int64_t ls_cell_saved(enum ls_cell cell) {
    return ls_cell_gates(cell) + 1;
}

/* The output of a loss op, in host memory: sums over its rows, not scaled. */
struct ls_loss_sums {
    double loss;
    int64_t correct, rows;
    int64_t uncounted;              /* positions of rows that are left out */
    double weight;                  /* of all rows, of each by its part that counts: as many where none has a weight */
    double metrics[LS_MAX_METRICS]; /* METRIC's */
    double penalty;                 /* what regularisers add to the loss */
};

/* Where REPORT adds what is in the sums, before all that a caller may have there beside. Reports are added in float32,
 * which is exact for whole numbers up to 2^24: a count is two numbers, its rest and its multiples of LS_REPORT_UNIT. */
enum { LS_REPORT_UNIT = 4096 };
enum {
    LS_REPORT_LOSS = 0,
    LS_REPORT_CORRECT,
    LS_REPORT_CORRECT_UNITS,
    LS_REPORT_ROWS,
    LS_REPORT_ROWS_UNITS,
    LS_REPORT_WEIGHT,
    LS_REPORT_UNCOUNTED,
    LS_REPORT_UNCOUNTED_UNITS,
    LS_REPORT_METRICS, /* LS_MAX_METRICS of them */
    LS_REPORT_OTHERS = LS_REPORT_METRICS + LS_MAX_METRICS
};

/* Read at each run of an optimizer op, which a device may do until the run is done: change it after that. */
struct ls_optimizer_step {
    ls_optimizer rule;
    int64_t iteration; /* 1 for the first step */
    int64_t pass;      /* forward passes before this one in the step: other random numbers */
    int64_t skipped;   /* steps before this one that were not applied: ls_step_applied leaves them out */
    float last_rate;   /* of the step before, by which the rule corrects its momentum; 0: it does not */
    float unscale;     /* gradients are multiplied by it before all else, regularisers too; 0 is 1 */
};
/* 1 for the first step that is applied: Adam's and LAMB's bias correction. */
static inline int64_t ls_step_applied(const struct ls_optimizer_step *step) {
    return step->iteration - step->skipped;
}

#define LS_MAX_MOMENTS 3
/* A variable in the blobs. */
struct ls_blob_part {
    size_t offset, count;
    bool decays;  /* by the rule's weight decay */
    float l1, l2; /* regularisers */
    float rate;   /* multiplies the rule's learning rate; 0 is 1 */
};

/* The seeds that random ops draw from, beside the step. */
struct ls_randomness {
    uint64_t seed, stream; /* stream: of the layer */
    int replica;           /* in all of the group */
};

/* Adds values over all replicas, in place, in an order that does not depend on who is where. Every replica calls it
 * alike, and waits for the others. */
struct ls_exchange {
    ls_status (*add)(void *context, double *values, size_t count);
    void *context;
};

struct ls_norms; /* norm.h */
struct ls_op;
typedef ls_status ls_op_run_fn(const struct ls_op *op);
#define LS_OP_TENSORS 16
struct ls_op {
    enum ls_op_kind kind;
    struct ls_tensor tensors[LS_OP_TENSORS]; /* which is which: the LS_ARG_ names below */
    ls_activation activation;
    struct ls_window window;
    enum ls_pool pool;
    struct ls_attention attention;
    enum ls_cell cell;
    float alpha, beta;       /* see the kinds; ACTIVATION: alpha is the slope below 0 of LS_LEAKY_RELU */
    float momentum, epsilon; /* BATCH_NORM. A replica's part in the change of the moving statistics is */
    const float *scale;      /* dmean = (1 - momentum) (batch mean - mean) rows *scale, likewise dvariance;
                                losses: of dlogits. 1 / global rows */
    bool fused;              /* BATCH_NORM: the moving variance is that of TensorFlow's fused kernel */
    bool centered;           /* LAYER_NORM: around the mean; else by the root mean square (RMS normalization) */
    const struct ls_exchange
        *exchange;  /* BATCH_NORM forward, backward: statistics of all replicas; NULL for those of x alone */
    bool adds;      /* DENSE_BACKWARD, EMBEDDING_BACKWARD, losses, METRIC: sums over rows are added to what is there */
    int64_t column; /* PLACE, TAKE */
    struct ls_randomness random;          /* DROPOUT */
    struct ls_loss_sums *sums;            /* losses: all but the metrics; REPORT reads it when it runs */
    const struct ls_loss_sums *gathered;  /* REPORT: of batches before; read when it runs */
    const float *report;                  /* REPORT; read when it runs */
    ls_metric metric;                     /* METRIC */
    double *value;                        /* METRIC, PENALTY, FINITE; written when it runs, as sums by losses */
    const struct ls_optimizer_step *step; /* optimizers; DROPOUT reads the iteration and the pass */
    const struct ls_blob_part *variables; /* [variable_count], optimizers, PENALTY: all that are trained, in order */
    size_t variable_count;
    const struct ls_norms *norms; /* optimizers on a CPU; NULL: the variables are whole */
    /* Optimizers on a CPU: [1 + moments][elements] what parameters and moments were before the run, which writes it. An
     * op that fails leaves them so. NULL: nobody asks. Read when it runs */
    float *before;
    /* CONVOLUTION_..., BATCH_NORM_...: tensors over images may be a part of the batch. Parts are run in order, and sums
     * over the batch (dw, db, statistics, dgamma, dbeta) are there after the last one. Only sums then: no y, no dx */
    int64_t parts;         /* of which all have as many rows; 0 is 1. Fixed at build */
    int64_t part;          /* set before each run */
    bool tf32;             /* products of float32: their factors may be rounded to TF32, 10 bits of mantissa */
    bool bfloat16;         /* DENSE_ of float32, on a CPU: the factors of products are rounded to bfloat16 */
    bool nondeterministic; /* products may be added in an order that differs from run to run */
    /* set by the device's build */
    ls_op_run_fn *run;
    ls_op_run_fn *renew; /* of optimizers: makes a captured run take *step as it is now; NULL for other ops */
    void *handle;
    size_t workspace_size; /* bytes that a run needs beside: */
    void *workspace;       /* set by the caller before a run, aligned as tensors are; ops may share it */
};

/* Places in tensors[] by kind. A tensor with data NULL is absent where the kind allows it. */
enum {
    LS_ARG_X = 0,
    LS_ARG_W,
    LS_ARG_B,
    LS_ARG_Y,
    LS_ARG_DY,
    LS_ARG_DX,
    LS_ARG_DW,
    LS_ARG_DB, /* layers */
    LS_ARG_R,
    LS_ARG_DR,
    LS_ARG_MEAN,
    LS_ARG_VARIANCE,
    LS_ARG_SAVED,
    LS_ARG_SHIFTS,
    LS_ARG_DMEAN,
    LS_ARG_DVARIANCE /* batch norm */
};
enum { LS_ARG_GAMMA = LS_ARG_W, LS_ARG_BETA = LS_ARG_B, LS_ARG_DGAMMA = LS_ARG_DW, LS_ARG_DBETA = LS_ARG_DB };
enum { LS_ARG_AT = LS_ARG_MEAN, LS_ARG_KEPT = LS_ARG_VARIANCE };                                     /* decoding */
enum { LS_ARG_LOGITS = 0, LS_ARG_LABELS, LS_ARG_DLOGITS, LS_ARG_ONE_HOT, LS_ARG_WEIGHTS };           /* loss, one-hot */
enum { LS_ARG_PARAMETERS = 0, LS_ARG_GRADIENTS, LS_ARG_MOMENT_1, LS_ARG_MOMENT_2, LS_ARG_MOMENT_3 }; /* optimizers */

/* The places of a convolution of any kind: its images, what its windows make of them, and its kernel. */
static inline int ls_op_image(const struct ls_op *op) {
    return op->kind == LS_OP_CONVOLUTION_BACKWARD_DATA ? LS_ARG_DX : LS_ARG_X;
}
static inline int ls_op_out(const struct ls_op *op) {
    return op->kind == LS_OP_CONVOLUTION_FORWARD ? LS_ARG_Y : LS_ARG_DY;
}
static inline int ls_op_kernel(const struct ls_op *op) {
    return op->kind == LS_OP_CONVOLUTION_BACKWARD_WEIGHTS ? LS_ARG_DW : LS_ARG_W;
}

/* Every device's build calls it first. It checks that the arguments are there and have the right type, shape and
 * combination. INVALID_ARGUMENT names the op, the argument, its value and the right one. */
ls_status ls_op_check(const struct ls_op *op);
void ls_op_add_loss_sums(struct ls_loss_sums *to, const struct ls_loss_sums *part);
const char *ls_op_name(enum ls_op_kind kind); /* "dense forward"; "unknown" past the end */
static inline int64_t ls_op_channels(const struct ls_op *op) {
    const ls_shape *shape = &op->tensors[LS_ARG_X].shape;
    return shape->dims[shape->rank - 1];
}
/* The activation's slope follows from what it was applied to, and not from its output. */
static inline bool ls_op_activation_takes_x(ls_activation activation) {
    return activation >= LS_GELU;
}
static inline bool ls_op_last_part(const struct ls_op *op) {
    return op->part + 1 >= op->parts;
}
