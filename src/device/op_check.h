/* What the files that check ops share: lists of arguments, and the checks of the kinds that have a file of their own.
 */
#pragma once
#include "device/op.h"

struct ls_argument {
    int place;
    const char *name;
    ls_dtype dtype;
    bool optional;
    ls_shape shape;
};
ls_status ls_op_check_arguments(const struct ls_op *op, const struct ls_argument *wants, size_t count);
#define LS_CHECK_ARGUMENTS(op, ...)                                                                                    \
    ls_op_check_arguments(op, (const struct ls_argument[]){__VA_ARGS__},                                               \
                          sizeof((const struct ls_argument[]){__VA_ARGS__}) / sizeof(struct ls_argument))
/* The argument that the others' shapes follow from: its rank (0: any) and that it holds anything. */
ls_status ls_op_check_leading(const struct ls_op *op, int place, const char *name, int rank);
ls_status ls_op_check_activation(const struct ls_op *op);
/* What all activations of the op, and copies of kernels, must be: a 16-bit type if this argument is, else float32. */
ls_dtype ls_op_type(const struct ls_op *op, int place);

ls_status ls_op_check_convolution(const struct ls_op *op);
ls_status ls_op_check_pool(const struct ls_op *op);
ls_status ls_op_check_pad(const struct ls_op *op);
ls_status ls_op_check_batch_norm(const struct ls_op *op);
ls_status ls_op_check_elements(const struct ls_op *op); /* y of x's shape */
ls_status ls_op_check_columns(const struct ls_op *op);
