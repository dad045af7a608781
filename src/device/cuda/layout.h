/* The layout of threads over images. Neighbouring threads take neighbouring channels: LS_CUDA_ACCESS bytes each if the
 * channels and the addresses allow it, else one element each. The layout is pure arithmetic: chunks, and so the order
 * in which kernels add, follow from the shapes. */
#pragma once
#include "device/op.h"

#define LS_CUDA_ACCESS        16    /* bytes: the largest access of a thread */
#define LS_CUDA_THREADS       256   /* of a block, at most */
#define LS_CUDA_GRID          65535 /* blocks along the second and third axis, at most */
#define LS_CUDA_STRIP_THREADS 128   /* of a block of strips, at most */

#ifdef __cplusplus
extern "C" {
#endif

/* The layout of sums over rows: a block takes a chunk of the rows for some of the channels. Its threads are (columns,
 * lines), the grid is (across, chunks); line i of a block takes the rows i, i + lines, ... of its chunk. */
struct ls_cuda_rows {
    int64_t rows, channels, chunk; /* chunk: rows of a block */
    int vector;                    /* channels of a thread */
    int columns, lines, across, chunks;
};
/* The grid that a kernel asks for: about so many blocks in all, but at least so many rows for each thread. */
struct ls_cuda_wish {
    int blocks, rows;
};
struct ls_cuda_rows ls_cuda_rows_over(int64_t rows, int64_t channels, int vector, struct ls_cuda_wish wish);

/* The layout of kernels that go over rows once, in waves of blocks that a GPU holds at the same time. Rows are dealt
 * out in turn: line l of block b takes row b lines + l, and every (blocks lines)th from there. Threads are (columns,
 * lines), the grid is (across, blocks). */
struct ls_cuda_stripes {
    int64_t rows, channels;
    int vector; /* channels of a thread */
    int columns, lines, across, blocks;
};
/* waves: at most. There are more than one only while each thread keeps enough rows. */
struct ls_cuda_stripes ls_cuda_stripes_over(int64_t rows, int64_t channels, int vector, int waves);
#define LS_CUDA_RESIDENT 3 /* blocks of stripes that a multiprocessor holds at the same time */

/* The layout of element-wise kernels: threads along a line of positions times channels, blocks over lines and images. A
 * block does lines_each lines one after the other, so that windows find what they share in the cache. */
struct ls_cuda_lines {
    int images, height, width; /* of the result; width in groups of positions */
    int channels, vector;
    int block, across, down, deep, lines_each;
};
struct ls_cuda_lines ls_cuda_lines_over(const int64_t image[4], int vector, int positions);

/* The layout of windows of 3 by 3: an item is a strip of lines of a group of neighbouring columns; a thread has vector
 * channels of an item. Threads of a block are (lanes, tall): channels, items. A block is one of across that have all
 * channels together, and one of chunks that have all items, threads the items at intervals of chunks x tall. */
struct ls_cuda_strips {
    int images, height, width; /* of the result; width in groups of columns */
    int channels, vector, columns;
    int lines, down, items; /* lines of a strip, strips of an image */
    int lanes, tall, across, chunks;
};
/* bytes: of an element. blocks: as many at most, each with many items; 0: a thread has one item. */
struct ls_cuda_strips ls_cuda_strips_over(const int64_t image[4], int vector, int columns, int bytes, int blocks);

/* Channels of a thread: as many as an access holds, or 1. places end with -1; absent tensors do not count. */
int ls_cuda_vector(const struct ls_op *op, int64_t channels, ls_dtype dtype, const int *places);

#ifdef __cplusplus
}
#endif
