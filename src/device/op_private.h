/* Lists of arguments, and the checks of the kinds that have a file of their own, for the files that check ops. */
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
/* The type that all activations of the op, and copies of kernels, must have: a 16-bit type if this argument has it,
 * else float32. */
ls_dtype ls_op_type(const struct ls_op *op, int place);
