/* The CPU device: its row in the table of kinds, and the declarations that its files share. */
#pragma once
#include <lockstep/lockstep.h>
#include <oneapi/dnnl/dnnl.h>
#include <stddef.h>
#include <stdint.h>

#include "base/memory.h"
#include "device/host.h"
#include "device/op.h"

/* The run functions, one concept a file. They compute in the calling thread, in an order that depends on the shapes
 * only; where memory lies changes no bit. */
#define LS_CPU_RUN(kind, name, check, run, ...) ls_op_run_fn run;
LS_OP_KINDS(LS_CPU_RUN)

/* loss.c: the first of the largest ones. */
int64_t ls_cpu_argmax(const float *values, int64_t count);
/* Outputs of a loss or a metric that are compared with a label: an example's, or those of one of its positions. */
struct ls_cpu_row {
    const float *outputs, *one_hot; /* label counts if one_hot is NULL */
    float *gradient;                /* may be NULL */
    int64_t classes, label, positions;
    bool uncounted;          /* it is left out */
    double weight;           /* the example's */
    double part;             /* weight, divided by the positions */
    double smoothing, scale; /* part is in scale */
    double delta;            /* of huber */
};
/* INVALID_ARGUMENT for a label that is no class. *rows: of all examples' positions. */
ls_status ls_cpu_rows_check(const struct ls_op *op, int64_t *rows);
struct ls_cpu_row ls_cpu_row_at(const struct ls_op *op, int64_t r);
int64_t ls_cpu_row_label(const struct ls_cpu_row *row);
/* A single output has the label itself. */
double ls_cpu_row_target(const struct ls_cpu_row *row, int64_t c);

/* update.c: the steps before the rule. Those that need the whole blob are done at once; *factor is what the gradients
 * are to be multiplied by after them, and the rest is done just before the rule, for elements [begin, end). */
ls_status ls_cpu_prepare_update(const struct ls_op *op, float *factor);
void ls_cpu_finish_update(const struct ls_op *op, float factor, size_t begin, size_t end);
/* After a failure behind it: parameters and moments become what before has. */
void ls_cpu_undo_update(const struct ls_op *op);
/* The first of the op's variables that reaches behind element at; their number if none does. */
size_t ls_cpu_variable_behind(const struct ls_op *op, size_t at);

/* The builds of kinds that prepare a handle or workspace_size. */
ls_status ls_cpu_dense_build(struct ls_device *device, struct ls_op *op);
void ls_cpu_dense_discard(struct ls_op *op);
ls_status ls_cpu_convolution_build(struct ls_device *device, struct ls_op *op);
void ls_cpu_convolution_discard(struct ls_op *op);
ls_status ls_cpu_depthwise_build(struct ls_device *device, struct ls_op *op);
void ls_cpu_depthwise_discard(struct ls_op *op);
ls_status ls_cpu_pool_build(struct ls_device *device, struct ls_op *op);
ls_status ls_cpu_batch_norm_build(struct ls_device *device, struct ls_op *op);
ls_status ls_cpu_layer_norm_build(struct ls_device *device, struct ls_op *op);
void ls_cpu_batch_norm_discard(struct ls_op *op);
ls_status ls_cpu_attention_build(struct ls_device *device, struct ls_op *op);
void ls_cpu_attention_discard(struct ls_op *op);
ls_status ls_cpu_recurrent_build(struct ls_device *device, struct ls_op *op);
const struct ls_library *ls_cpu_library(const struct ls_device *device);

/* Processor, instruction set and library, for people. */
void ls_cpu_describe(char *text, size_t size);

/* Loops divided among the threads that the calling thread computes with (its OpenMP team, as oneDNN's). */

/* The part [begin, end) of a loop. May run in any thread, and must not care which part another one has. */
typedef void ls_team_fn(void *context, int64_t begin, int64_t end);
/* Runs fn over [0, count), in parts of at least grain each. Returns when all is done. */
void ls_team_run(int64_t count, int64_t grain, ls_team_fn *fn, void *context);
/* The same with a grain of 1. A matrix product in fn has one thread, whatever the number of parts: its bits do not
 * follow from the number of threads. */
void ls_team_run_alone(int64_t count, ls_team_fn *fn, void *context);

/* oneDNN's engine and stream of one CPU device, and its errors. */

struct ls_library {
    dnnl_engine_t engine;
    dnnl_stream_t stream;
};
ls_status ls_library_open(struct ls_library *library);
void ls_library_close(struct ls_library *library);
/* Returns LS_OK, or an error that names the failed call, what. */
ls_status ls_library_status(dnnl_status_t code, const char *what);
/* The bytes of a place in a workspace: the next one is aligned, too. */
static inline size_t ls_library_aligned(size_t size) {
    return (size + LS_ALIGNMENT - 1) / LS_ALIGNMENT * LS_ALIGNMENT;
}

/* Matrix products in float32, row-major. */

struct ls_gemm {
    bool transpose_a, transpose_b;
    int64_t rows, columns, depth;
    const float *a;                    /* (rows, depth), or (depth, rows) when transposed */
    const float *b;                    /* (depth, columns), or (columns, depth) when transposed */
    float *c;                          /* (rows, columns), overwritten */
    int64_t a_pitch, b_pitch, c_pitch; /* floats from a stored row to the next; 0: it is contiguous */
    bool adds;                         /* c is not overwritten: the product is added to it */
};
/* c = a b in the calling thread's OpenMP team. INTERNAL or RESOURCE_EXHAUSTED when the library fails. */
ls_status ls_gemm_run(const struct ls_gemm *gemm);
/* "avx512_core; oneDNN 2.6.3": the instruction set in use and the library's version. */
void ls_gemm_describe(char *text, size_t size);

/* Sums of squares of an optimizer op's variables. */

/* Writes the sums of elements [at, at + count) of the blob, which are of one chunk. */
typedef void ls_cpu_square_fn(const void *context, size_t at, size_t count, double *squares);
/* squares: [variable_count][kinds], total: [kinds]. The sums of a variable's chunks are added in order, and then those
 * of the variables. So the bits do not depend on how variables are cut over ops, at multiples of LS_NORM_CHUNK. */
ls_status ls_cpu_norms(const struct ls_op *op, int kinds, ls_cpu_square_fn *square, const void *context,
                       double *squares, double *total);

/* Sums of squares in a fixed order: eight lanes, then a tree over them, so that every instruction set gives the same
 * bits. */

#define LS_SQUARES_LANES 8
struct ls_squares {
    double lanes[LS_SQUARES_LANES];
};
/* Adds count values; all but the last call with a multiple of the lanes. */
void ls_squares_add(struct ls_squares *squares, const float *values, size_t count);
double ls_squares_sum(const struct ls_squares *squares);
