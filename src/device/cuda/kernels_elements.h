/* Launchers of the kernels of losses, optimizers and elements. Each queues on stream and returns what the launch gave.
 * Pointers are to device memory, or to host memory that the device reads and writes (sums, value, fault, step). */
#pragma once
#include <cuda_runtime_api.h>

#include "device/cuda/fault.h"
#include "device/op.h"

#ifdef __cplusplus
extern "C" {
#endif

/* ---- loss.cu ---- */

/* Rows of outputs and their labels. */
struct ls_cuda_label_rows {
    const float *outputs, *one_hot;   /* (rows, classes); labels count if one_hot is NULL */
    const int32_t *labels;            /* (rows) or NULL */
    const float *weights;             /* (rows / positions) or NULL if all are 1 */
    int64_t rows, positions, classes; /* so many rows are one example, whose loss is their mean */
    int64_t least;                    /* labels are from it on; one below 0 is that of a row that is left out */
    int64_t limit; /* labels are below it; 0 allows any. A row with another label is left out: a fault */
    struct ls_cuda_fault *fault;
};
struct ls_cuda_loss {
    enum ls_op_kind kind;
    struct ls_cuda_label_rows rows;
    float *gradient;      /* (rows, classes) or NULL */
    double *row_losses;   /* (rows), scratch */
    int64_t *row_correct; /* (rows), scratch */
    double smoothing, scale, delta;
    struct ls_loss_sums *sums; /* all but metrics and penalty are written, unless there was a fault */
    bool adds;                 /* to what is there */
};
cudaError_t ls_cuda_loss(const struct ls_cuda_loss *loss, cudaStream_t stream);

struct ls_cuda_metric {
    struct ls_cuda_label_rows rows;
    ls_metric metric;
    double *shares; /* (rows), scratch */
    double *value;
    bool adds; /* to what is there */
};
cudaError_t ls_cuda_metric(const struct ls_cuda_metric *metric, cudaStream_t stream);
/* y (rows, classes); rows' outputs and one_hot are not used. */
cudaError_t ls_cuda_one_hot(const struct ls_cuda_label_rows *rows, float *y, cudaStream_t stream);

/* ---- elements.cu ---- */

struct ls_cuda_elements {
    void *y;
    const void *x, *w;
    ls_dtype dtype; /* of all */
    int64_t count;
};
cudaError_t ls_cuda_add(const struct ls_cuda_elements *elements, cudaStream_t stream);      /* y = x + w */
cudaError_t ls_cuda_multiply(const struct ls_cuda_elements *elements, cudaStream_t stream); /* y = x w */
cudaError_t ls_cuda_scale(const struct ls_cuda_elements *elements, float factor, float offset, cudaStream_t stream);
/* y = (x + w factor) scale */
cudaError_t ls_cuda_merge(const struct ls_cuda_elements *elements, float factor, float scale, cudaStream_t stream);
cudaError_t ls_cuda_cast(void *y, ls_dtype to, const void *x, ls_dtype from, int64_t count, cudaStream_t stream);

/* y, of type to, by a table of (channels, 256): element i has channel i % channels. */
struct ls_cuda_expansion {
    void *y;
    ls_dtype to;
    const uint8_t *x;
    const float *table;
    int channels; /* 1 to 3 */
    int64_t count;
};
cudaError_t ls_cuda_expand(const struct ls_cuda_expansion *expansion, cudaStream_t stream);

/* A matrix of rows lines of width bytes, in others whose lines lie to_pitch and from_pitch bytes apart. */
struct ls_cuda_copied_lines {
    void *to;
    const void *from;
    int64_t to_pitch, from_pitch, width, rows;
};
cudaError_t ls_cuda_copy_lines(const struct ls_cuda_copied_lines *lines, cudaStream_t stream);

/* ---- embedding.cu ---- */

/* Rows (count, width) of a table (limit, width) by ids. An id that is no row's is left out: its row is zero. */
struct ls_cuda_embedding {
    const void *ids; /* (count) int32, or float32 */
    bool integers;
    void *table; /* forward: of dtype; backward: float, its gradient */
    void *rows;  /* of dtype */
    ls_dtype dtype;
    int64_t count, limit, width;
    bool adds;       /* backward: to what the table holds; else it is zeroed first */
    void *workspace; /* backward: ls_cuda_embedding_workspace bytes */
};
size_t ls_cuda_embedding_workspace(int64_t count);
cudaError_t ls_cuda_embedding_forward(const struct ls_cuda_embedding *embedding, cudaStream_t stream);
cudaError_t ls_cuda_embedding_backward(const struct ls_cuda_embedding *embedding, cudaStream_t stream);

/* ---- attention.cu, position.cu ---- */

#define LS_CUDA_HEAD_MOST 2048 /* floats of a head */
struct ls_cuda_attention {
    struct ls_attention asked;
    const void *x, *dy; /* of dtype, as y and dx; forward writes y */
    void *y, *dx;
    ls_dtype dtype;
    float *saved;       /* forward writes it, unless NULL */
    const float *turns; /* rope.h, or NULL */
    int64_t rows, length, width;
    /* of a decode, whose length is that of x: */
    float *kept;       /* (rows, 2, kv_heads, context, width) */
    const int32_t *at; /* of the device: x's first position */
    int64_t context;
};
cudaError_t ls_cuda_attention_decode(const struct ls_cuda_attention *attention, cudaStream_t stream);
cudaError_t ls_cuda_attention_forward(const struct ls_cuda_attention *attention, cudaStream_t stream);
cudaError_t ls_cuda_attention_backward(const struct ls_cuda_attention *attention, cudaStream_t stream);

struct ls_cuda_positions {
    void *y;       /* (rows, count), dtype */
    const void *x; /* the same; backward: dy */
    float *b;      /* (count); backward: its gradient, which is written */
    ls_dtype dtype;
    int64_t rows, count;
    const int32_t *at; /* of the device: the position of b that is added to x's first one; NULL: 0 */
    int64_t channels;
};
cudaError_t ls_cuda_position_forward(const struct ls_cuda_positions *positions, cudaStream_t stream);
cudaError_t ls_cuda_position_backward(const struct ls_cuda_positions *positions, cudaStream_t stream);

/* counts: scratch of LS_CUDA_FINITE_BLOCKS. */
#define LS_CUDA_FINITE_BLOCKS 1024
cudaError_t ls_cuda_finite(const float *x, int64_t count, int64_t *counts, double *value, cudaStream_t stream);

#define LS_CUDA_REPORT_VALUES 64
struct ls_cuda_report {
    float *y; /* (count), at most LS_CUDA_REPORT_VALUES */
    int64_t count;
    /* read when it runs: */
    const struct ls_loss_sums *sums, *gathered; /* gathered or NULL */
    const float *values;                        /* (count) */
};
cudaError_t ls_cuda_report(const struct ls_cuda_report *report, cudaStream_t stream);

/* ---- random.cu ---- */

struct ls_cuda_dropout {
    struct ls_cuda_elements elements;
    float rate;
    struct ls_randomness random;
    const struct ls_optimizer_step *step; /* read when it runs */
    uint64_t *seed;                       /* scratch */
};
cudaError_t ls_cuda_dropout(const struct ls_cuda_dropout *dropout, cudaStream_t stream);

/* ---- optimizer.cu ---- */

/* The blobs in chunks, each of one part: a variable, or a gap between variables. Sums are added up over a chunk, then
 * over the chunks of a part, so that they depend on the table only. */
#define LS_CUDA_CHUNK 4096 /* elements, at most */
struct ls_cuda_chunk {
    int64_t offset;
    int32_t count, part;
};
struct ls_cuda_part {
    int64_t first, chunks;
    float l1, l2, rate;
    int32_t decays, variable;
};
/* A rule's numbers for one step. */
struct ls_cuda_rule {
    float rate, momentum;
    float alpha, rest_1, rest_2, epsilon; /* Adam, LAMB; RMSprop: epsilon */
    float rho, rest_rho;
    float correction_1, correction_2; /* LAMB */
    float weight_decay, clipvalue, clipnorm, global_clipnorm;
    float unscale; /* gradients are multiplied by it first */
    bool nesterov, centered;
};
struct ls_cuda_update {
    float *w, *moments[LS_MAX_MOMENTS];
    const float *g;
    const struct ls_cuda_chunk *chunks;
    const struct ls_cuda_part *parts;
    int64_t chunk_count, part_count;
    double *partials;                 /* (2, chunk_count), scratch */
    double *squares;                  /* (part_count), scratch */
    float *factors;                   /* (part_count), scratch: of gradients, by clipping */
    float *trusts;                    /* (part_count), scratch: of LAMB's rate */
    const struct ls_cuda_rule *rule;  /* of the device, read when it runs; NULL for penalties */
    const struct ls_cuda_rule *known; /* in host memory: its value at the time of queueing */
};
cudaError_t ls_cuda_sgd(const struct ls_cuda_update *update, cudaStream_t stream);
cudaError_t ls_cuda_adam(const struct ls_cuda_update *update, cudaStream_t stream);
cudaError_t ls_cuda_rmsprop(const struct ls_cuda_update *update, cudaStream_t stream);
cudaError_t ls_cuda_lamb(const struct ls_cuda_update *update, cudaStream_t stream);
cudaError_t ls_cuda_penalty(const struct ls_cuda_update *update, double *value, cudaStream_t stream);

#ifdef __cplusplus
}
#endif
