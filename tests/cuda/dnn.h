/* Descriptors of the fake cuDNN, and the question whether they go together, for its two files. */
#pragma once
#include <cudnn.h>
#include <stdbool.h>

#include "numbers.h"

enum ls_fake_watch { LS_FAKE_HANDLE = 0x444E4E48, LS_FAKE_TENSOR, LS_FAKE_FILTER, LS_FAKE_CONVOLUTION };

struct cudnnContext {
    enum ls_fake_watch watch;
    cudaStream_t stream;
};
struct cudnnTensorStruct {
    enum ls_fake_watch watch;
    bool set;
    ls_dtype dtype;
    int n, c, h, w;
};
struct cudnnFilterStruct {
    enum ls_fake_watch watch;
    bool set;
    ls_dtype dtype;
    int k, c, h, w;
};
struct cudnnConvolutionStruct {
    enum ls_fake_watch watch;
    bool set;
    int pad[2], strides[2], dilation[2], groups;
    cudnnMathType_t math;
};

/* The three directions; an algorithm is a number of the direction's own enum. */
enum ls_fake_direction { LS_FAKE_FORWARD, LS_FAKE_DATA, LS_FAKE_WEIGHTS };
struct ls_fake_convolution {
    struct cudnnTensorStruct image, out;
    struct cudnnFilterStruct filter;
    struct cudnnConvolutionStruct window;
};
/* Copies what the descriptors say; BAD_PARAM where one is not set or they do not go together, NOT_SUPPORTED for what
 * some cuDNN might not have. */
cudnnStatus_t ls_fake_gather(cudnnHandle_t handle, cudnnTensorDescriptor_t image, cudnnFilterDescriptor_t filter,
                             cudnnConvolutionDescriptor_t window, cudnnTensorDescriptor_t out,
                             struct ls_fake_convolution *made);
/* True if an algorithm adds in another order at each run. It takes no workspace. */
bool ls_fake_varies(enum ls_fake_direction direction, int algorithm);
/* Bytes of workspace; NOT_SUPPORTED when the algorithm does not do this, with this math. */
cudnnStatus_t ls_fake_workspace(enum ls_fake_direction direction, int algorithm, const struct ls_fake_convolution *c,
                                size_t *size);
