/* The arithmetic of layout.h. */
#include "device/cuda/layout.h"

#define COLUMNS    32                       /* threads of a block along the channels, at most: 512 bytes */
#define PLENTY     135168                   /* threads that 132 multiprocessors keep busy */
#define WAVE       (132 * LS_CUDA_RESIDENT) /* blocks of stripes on 132 multiprocessors */
#define FEW_ROWS   8                        /* of a thread, at least, where they are too few for a wave */
#define MANY_ROWS  16                       /* of a thread, at least, in more waves than one */
#define MOST_LINES 8
#define WARP       32
#define SECTOR     32 /* bytes that memory gives at once */
/* Lines of a strip: where there are threads enough few edges are read twice. */
#define MOST_STRIP  28
#define LEAST_STRIP 4

static int64_t divide_up(int64_t a, int64_t b) {
    return (a + b - 1) / b;
}

static int64_t at_most(int64_t value, int64_t limit) {
    return value < limit ? value : limit;
}

struct ls_cuda_rows ls_cuda_rows_over(int64_t rows, int64_t channels, int vector, struct ls_cuda_wish wish) {
    struct ls_cuda_rows r = {.rows = rows, .channels = channels, .vector = vector};
    int64_t groups = divide_up(channels, vector), across = divide_up(groups, COLUMNS);
    int64_t blocks = at_most(wish.blocks, LS_CUDA_GRID) / across;
    r.across = (int)across;
    r.columns = (int)divide_up(groups, across);
    r.lines = LS_CUDA_THREADS / r.columns;
    int64_t each = divide_up(rows, (blocks < 1 ? 1 : blocks) * r.lines);
    r.chunk = (each < wish.rows ? wish.rows : each) * r.lines;
    r.chunks = (int)divide_up(rows, r.chunk);
    return r;
}

struct ls_cuda_stripes ls_cuda_stripes_over(int64_t rows, int64_t channels, int vector, int waves) {
    struct ls_cuda_stripes s = {.rows = rows, .channels = channels, .vector = vector};
    int64_t groups = divide_up(channels, vector), across = divide_up(groups, COLUMNS);
    int64_t wave = across < WAVE ? WAVE / across : 1;
    s.across = (int)across;
    s.columns = (int)divide_up(groups, across);
    s.lines = LS_CUDA_THREADS / s.columns;
    int64_t full = at_most(rows / (wave * s.lines * MANY_ROWS), waves);
    int64_t blocks = at_most(wave * (full < 1 ? 1 : full), rows / ((int64_t)s.lines * FEW_ROWS));
    s.blocks = (int)(blocks < 1 ? 1 : blocks);
    return s;
}

struct ls_cuda_lines ls_cuda_lines_over(const int64_t image[4], int vector, int positions) {
    struct ls_cuda_lines l = {.images = (int)image[0], .height = (int)image[1], .vector = vector};
    l.width = (int)divide_up(image[2], positions);
    l.channels = (int)image[3];
    int64_t line = (int64_t)l.width * (l.channels / vector);
    l.block = (int)at_most(divide_up(line, WARP) * WARP, LS_CUDA_THREADS);
    l.across = (int)divide_up(line, l.block);
    for (l.lines_each = MOST_LINES; l.lines_each > 1; l.lines_each /= 2)
        if (divide_up(l.height, l.lines_each) * l.images * l.across * l.block >= PLENTY) break;
    l.down = (int)at_most(divide_up(l.height, l.lines_each), LS_CUDA_GRID);
    l.deep = (int)at_most(l.images, LS_CUDA_GRID);
    return l;
}

/* Threads of a block along the channels: whole sectors of memory, two at least, and as few idle threads as possible. */
static int lanes_over(int64_t groups, int sector) {
    int64_t best = at_most(groups, LS_CUDA_STRIP_THREADS), most = 0;
    for (int64_t lanes = best; lanes >= 2 * sector; lanes--) {
        if (lanes % sector && lanes != groups) continue;
        int64_t threads = LS_CUDA_STRIP_THREADS / lanes * lanes, warps = divide_up(threads, WARP);
        int64_t used = threads * groups * PLENTY / (warps * divide_up(groups, lanes) * lanes);
        if (used > most) most = used, best = lanes;
    }
    return (int)best;
}

struct ls_cuda_strips ls_cuda_strips_over(const int64_t image[4], int vector, int columns, int bytes, int blocks) {
    struct ls_cuda_strips s = {.images = (int)image[0], .height = (int)image[1], .vector = vector, .columns = columns};
    int64_t groups = divide_up(image[3], vector);
    s.channels = (int)image[3];
    s.width = (int)divide_up(image[2], columns);
    s.lanes = lanes_over(groups, SECTOR / (vector * bytes));
    s.tall = LS_CUDA_STRIP_THREADS / s.lanes;
    s.across = (int)divide_up(groups, s.lanes);
    for (s.lines = MOST_STRIP; s.lines > LEAST_STRIP; s.lines /= 2)
        if (divide_up(s.height, s.lines) * s.images * s.width * groups >= PLENTY) break;
    s.lines = (int)at_most(s.lines, s.height);
    s.down = (int)divide_up(s.height, s.lines);
    s.items = s.images * s.down * s.width;
    int64_t chunks = divide_up(s.items, s.tall), most = blocks > s.across ? blocks / s.across : 1;
    s.chunks = (int)(blocks ? at_most(chunks, most) : chunks);
    return s;
}

int ls_cuda_vector(const struct ls_op *op, int64_t channels, ls_dtype dtype, const int *places) {
    int vector = LS_CUDA_ACCESS / (int)ls_dtype_size(dtype);
    uintptr_t addresses = 0;
    for (; *places >= 0; places++) addresses |= (uintptr_t)op->tensors[*places].data;
    return channels % vector || addresses % LS_CUDA_ACCESS ? 1 : vector;
}
