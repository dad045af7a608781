/* Attention: a block has one query, or backward also one key, with one head of one row. Its threads take the others in
 * tiles: a thread computes one score of the tile, then one element of the sums over the tile, in rising order. Nothing
 * is added by atomics. So the bits follow from the shapes alone. */
#include <math.h>

#include "device/cuda/kernels_elements.h"
#include "device/cuda/pack.cuh"

namespace {

constexpr int TILE = 128; /* threads of a block: positions of a tile */
constexpr int64_t MOST_BLOCKS = 1 << 30;

/* Numbers that a kernel needs beside those of the launch. */
struct heads_of {
    int64_t heads, kv_heads, group, pitch, out_pitch;
    float scale;
};

__device__ inline heads_of heads_in(const ls_cuda_attention &a) {
    heads_of h = {a.asked.heads, a.asked.kv_heads, a.asked.heads / a.asked.kv_heads, 0, 0, 0};
    h.pitch = (h.heads + 2 * h.kv_heads) * a.width;
    h.out_pitch = h.heads * a.width;
    h.scale = 1 / sqrtf(static_cast<float>(a.width));
    return h;
}

/* Element c of a head at position t, which rope has turned. */
template <typename T> __device__ inline float turned(const ls_cuda_attention &a, const T *head, int64_t t, int64_t c) {
    float value = ls_load<T>(head[c]);
    if (!a.turns) return value;
    int64_t half = a.width / 2, pair = c < half ? c : c - half;
    float cosine = a.turns[t * a.width + pair], sine = a.turns[t * a.width + half + pair];
    float other = ls_load<T>(head[c < half ? c + half : c - half]);
    return c < half ? value * cosine - other * sine : value * cosine + other * sine;
}

/* Element c of a gradient, turned back. */
__device__ inline float turned_back(const ls_cuda_attention &a, const float *gradient, int64_t t, int64_t c) {
    if (!a.turns) return gradient[c];
    int64_t half = a.width / 2, pair = c < half ? c : c - half;
    float cosine = a.turns[t * a.width + pair], sine = a.turns[t * a.width + half + pair];
    float other = gradient[c < half ? c + half : c - half];
    return c < half ? gradient[c] * cosine + other * sine : gradient[c] * cosine - other * sine;
}

template <typename T>
__device__ inline float dot_turned(const ls_cuda_attention &a, const float *mine, const T *head, int64_t t) {
    float sum = 0;
    for (int64_t c = 0; c < a.width; c++) sum += mine[c] * turned<T>(a, head, t, c);
    return sum;
}

template <typename T> __device__ inline float dot_plain(const float *mine, const T *head, int64_t width) {
    float sum = 0;
    for (int64_t c = 0; c < width; c++) sum += mine[c] * ls_load<T>(head[c]);
    return sum;
}

template <typename T> __device__ inline float dot_of(const T *one, const T *other, int64_t width) {
    float sum = 0;
    for (int64_t c = 0; c < width; c++) sum += ls_load<T>(one[c]) * ls_load<T>(other[c]);
    return sum;
}

/* The keys that a query sees, and the queries that see a key. */
struct range {
    int64_t begin, end;
};
__device__ inline range keys_of(const ls_cuda_attention &a, int64_t query) {
    int64_t window = a.asked.window;
    return {window && window <= query ? query + 1 - window : 0, a.asked.causal ? query + 1 : a.length};
}
__device__ inline range queries_of(const ls_cuda_attention &a, int64_t key) {
    int64_t window = a.asked.window;
    return {a.asked.causal ? key : 0, window && window < a.length - key ? key + window : a.length};
}

/* ---- forward ---- */

/* The softmax so far (Milakov and Gimelshein 2018): sums are of exp(score - largest). */
struct running {
    float largest, sum;
};

/* A tile's scores become exponentials; returns what the sums of before are multiplied by. All threads get the same. */
__device__ inline float add_tile(running &r, float *scores, int count) {
    float largest = r.largest;
    for (int i = 0; i < count; i++) largest = scores[i] > largest ? scores[i] : largest;
    float factor = expf(r.largest - largest), own = static_cast<int>(threadIdx.x) < count ? scores[threadIdx.x] : 0;
    __syncthreads(); /* all have read the scores */
    scores[threadIdx.x] = expf(own - largest);
    __syncthreads();
    r.sum *= factor;
    for (int i = 0; i < count; i++) r.sum += scores[i];
    r.largest = largest;
    return factor;
}

/* The query at position t of one head; and the keys and values that its head has, from position 0 on. by: how keys are
 * still to be turned. */
template <typename T> struct query_of {
    int64_t t;
    const T *x;
    T *y;
    float *saved; /* or NULL */
};
template <typename K> struct keys_in {
    const K *keys, *values;
    int64_t pitch;
    const ls_cuda_attention &by;
};

template <typename T, typename K>
__device__ void attend_to(const ls_cuda_attention &a, const query_of<T> &q, const keys_in<K> &k, float *shared) {
    float *query = shared, *sums = query + a.width, *scores = sums + a.width;
    const float scale = heads_in(a).scale;
    const range seen = keys_of(a, q.t);
    running r = {-INFINITY, 0};
    for (int64_t c = threadIdx.x; c < a.width; c += TILE) {
        query[c] = turned<T>(a, q.x, q.t, c) * scale;
        sums[c] = 0;
    }
    for (int64_t first = seen.begin; first < seen.end; first += TILE) {
        int count = static_cast<int>(seen.end - first < TILE ? seen.end - first : TILE);
        int64_t key = first + threadIdx.x;
        __syncthreads();
        if (key < seen.end) scores[threadIdx.x] = dot_turned<K>(k.by, query, k.keys + key * k.pitch, key);
        __syncthreads();
        float factor = add_tile(r, scores, count);
        for (int64_t c = threadIdx.x; c < a.width; c += TILE) {
            float sum = sums[c] * factor;
            for (int i = 0; i < count; i++) sum += scores[i] * ls_load<K>(k.values[(first + i) * k.pitch + c]);
            sums[c] = sum;
        }
    }
    for (int64_t c = threadIdx.x; c < a.width; c += TILE) q.y[c] = ls_store<T>(sums[c] / r.sum);
    if (q.saved && threadIdx.x == 0) *q.saved = r.largest + logf(r.sum);
    __syncthreads(); /* the next task writes what others may still read */
}

/* A place of x: row, head, and position in x. */
struct place {
    int64_t row, head, at;
};
__device__ inline place place_of(int64_t task, int64_t length, int64_t heads) {
    return {task / length / heads, task / length % heads, task % length};
}

template <typename T>
__device__ inline query_of<T> query_at(const ls_cuda_attention &a, const heads_of &h, const place &p, int64_t first) {
    int64_t position = p.row * a.length + p.at, saved = (p.row * h.heads + p.head) * a.length + p.at;
    return {first + p.at, static_cast<const T *>(a.x) + position * h.pitch + p.head * a.width,
            static_cast<T *>(a.y) + position * h.out_pitch + p.head * a.width, a.saved ? a.saved + saved : nullptr};
}

template <typename T>
__device__ void forward_query(const ls_cuda_attention &a, const heads_of &h, int64_t task, float *shared) {
    const place p = place_of(task, a.length, h.heads);
    const T *row = static_cast<const T *>(a.x) + p.row * a.length * h.pitch;
    const T *keys = row + (h.heads + p.head / h.group) * a.width;
    attend_to<T, T>(a, query_at<T>(a, h, p, 0), {keys, keys + h.kv_heads * a.width, h.pitch, a}, shared);
}

template <typename T> __global__ void __launch_bounds__(TILE) attend(ls_cuda_attention a) {
    LS_SHARED(float, shared);
    const heads_of h = heads_in(a);
    for (int64_t task = blockIdx.x; task < a.rows * h.heads * a.length; task += gridDim.x)
        forward_query<T>(a, h, task, shared);
}

/* ---- decode ---- */

/* The keys of a head that are kept, or its values. */
__device__ inline float *kept_in(const ls_cuda_attention &a, const heads_of &h, int64_t row, int64_t head, int values) {
    return a.kept + ((2 * row + values) * h.kv_heads + head) * a.context * a.width;
}

/* A thread has an element of a key and of its value. */
template <typename T> __global__ void keep(ls_cuda_attention a) {
    const heads_of h = heads_in(a);
    for (int64_t i = ls_thread(); i < a.rows * h.kv_heads * a.length * a.width; i += ls_all_threads()) {
        const place p = place_of(i / a.width, a.length, h.kv_heads);
        int64_t c = i % a.width, t = *a.at + p.at, to = t * a.width + c;
        const T *key = static_cast<const T *>(a.x) + (p.row * a.length + p.at) * h.pitch + (h.heads + p.head) * a.width;
        kept_in(a, h, p.row, p.head, 0)[to] = turned<T>(a, key, t, c);
        kept_in(a, h, p.row, p.head, 1)[to] = ls_load<T>(key[h.kv_heads * a.width + c]);
    }
}

template <typename T> __global__ void __launch_bounds__(TILE) decode(ls_cuda_attention a) {
    LS_SHARED(float, shared);
    const heads_of h = heads_in(a);
    ls_cuda_attention plain = a;
    plain.turns = nullptr; /* kept keys are turned */
    for (int64_t task = blockIdx.x; task < a.rows * h.heads * a.length; task += gridDim.x) {
        const place p = place_of(task, a.length, h.heads);
        const float *keys = kept_in(a, h, p.row, p.head / h.group, 0);
        const float *values = kept_in(a, h, p.row, p.head / h.group, 1);
        attend_to<T, float>(a, query_at<T>(a, h, p, *a.at), {keys, values, a.width, plain}, shared);
    }
}

/* ---- backward: queries ---- */

template <typename T>
__device__ void backward_query(const ls_cuda_attention &a, const heads_of &h, int64_t task, float *shared) {
    float *query = shared, *dy = query + a.width, *sums = dy + a.width, *slopes = sums + a.width;
    int64_t t = task % a.length, head = task / a.length % h.heads, row = task / a.length / h.heads;
    const T *x = static_cast<const T *>(a.x) + row * a.length * h.pitch;
    const T *keys = x + (h.heads + head / h.group) * a.width, *values = keys + h.kv_heads * a.width;
    int64_t out = (row * a.length + t) * h.out_pitch + head * a.width, in = t * h.pitch + head * a.width;
    const T *own_dy = static_cast<const T *>(a.dy) + out;
    const range seen = keys_of(a, t);
    float saved = a.saved[(row * h.heads + head) * a.length + t];
    float dot = dot_of<T>(own_dy, static_cast<const T *>(a.y) + out, a.width);
    for (int64_t c = threadIdx.x; c < a.width; c += TILE) {
        query[c] = turned<T>(a, x + in, t, c) * h.scale;
        dy[c] = ls_load<T>(own_dy[c]);
        sums[c] = 0;
    }
    for (int64_t first = seen.begin; first < seen.end; first += TILE) {
        int count = static_cast<int>(seen.end - first < TILE ? seen.end - first : TILE);
        int64_t k = first + threadIdx.x;
        __syncthreads();
        if (k < seen.end) {
            float p = expf(dot_turned<T>(a, query, keys + k * h.pitch, k) - saved);
            slopes[threadIdx.x] = p * (dot_plain<T>(dy, values + k * h.pitch, a.width) - dot);
        }
        __syncthreads();
        for (int64_t c = threadIdx.x; c < a.width; c += TILE) {
            float sum = sums[c];
            for (int i = 0; i < count; i++) sum += slopes[i] * turned<T>(a, keys + (first + i) * h.pitch, first + i, c);
            sums[c] = sum;
        }
    }
    __syncthreads();
    T *dx = static_cast<T *>(a.dx) + row * a.length * h.pitch + in;
    for (int64_t c = threadIdx.x; c < a.width; c += TILE) dx[c] = ls_store<T>(turned_back(a, sums, t, c) * h.scale);
    __syncthreads();
}

template <typename T> __global__ void __launch_bounds__(TILE) give_queries(ls_cuda_attention a) {
    LS_SHARED(float, shared);
    const heads_of h = heads_in(a);
    for (int64_t task = blockIdx.x; task < a.rows * h.heads * a.length; task += gridDim.x)
        backward_query<T>(a, h, task, shared);
}

/* ---- backward: keys and values ---- */

/* A block's key and value, the sums of their gradients, and a tile's probabilities and slopes: all are shared. */
struct key_sums {
    float *key, *value, *key_sums, *value_sums, *scores, *slopes;
};

/* Adds what one head of queries gives. */
template <typename T>
__device__ void add_head(const ls_cuda_attention &a, const heads_of &h, const key_sums &s, int64_t row, int64_t head,
                         range queries) {
    const T *x = static_cast<const T *>(a.x) + row * a.length * h.pitch + head * a.width;
    int64_t out = row * a.length * h.out_pitch + head * a.width;
    const T *y = static_cast<const T *>(a.y) + out, *dy = static_cast<const T *>(a.dy) + out;
    const float *saved = a.saved + (row * h.heads + head) * a.length;
    for (int64_t first = queries.begin; first < queries.end; first += TILE) {
        int count = static_cast<int>(queries.end - first < TILE ? queries.end - first : TILE);
        int64_t q = first + threadIdx.x;
        __syncthreads();
        if (q < queries.end) {
            const T *own = dy + q * h.out_pitch;
            float p = expf(dot_turned<T>(a, s.key, x + q * h.pitch, q) * h.scale - saved[q]);
            float dot = dot_of<T>(own, y + q * h.out_pitch, a.width);
            s.scores[threadIdx.x] = p;
            s.slopes[threadIdx.x] = p * (dot_plain<T>(s.value, own, a.width) - dot) * h.scale;
        }
        __syncthreads();
        for (int64_t c = threadIdx.x; c < a.width; c += TILE) {
            float key = s.key_sums[c], value = s.value_sums[c];
            for (int i = 0; i < count; i++) {
                key += s.slopes[i] * turned<T>(a, x + (first + i) * h.pitch, first + i, c);
                value += s.scores[i] * ls_load<T>(dy[(first + i) * h.out_pitch + c]);
            }
            s.key_sums[c] = key, s.value_sums[c] = value;
        }
    }
}

template <typename T>
__device__ void backward_key(const ls_cuda_attention &a, const heads_of &h, int64_t task, const key_sums &s) {
    int64_t t = task % a.length, number = task / a.length % h.kv_heads, row = task / a.length / h.kv_heads;
    int64_t key = (row * a.length + t) * h.pitch + (h.heads + number) * a.width, value = key + h.kv_heads * a.width;
    const T *x = static_cast<const T *>(a.x);
    T *dx = static_cast<T *>(a.dx);
    for (int64_t c = threadIdx.x; c < a.width; c += TILE) {
        s.key[c] = turned<T>(a, x + key, t, c);
        s.value[c] = ls_load<T>(x[value + c]);
        s.key_sums[c] = s.value_sums[c] = 0;
    }
    for (int64_t g = 0; g < h.group; g++) add_head<T>(a, h, s, row, number * h.group + g, queries_of(a, t));
    __syncthreads();
    for (int64_t c = threadIdx.x; c < a.width; c += TILE) {
        dx[key + c] = ls_store<T>(turned_back(a, s.key_sums, t, c));
        dx[value + c] = ls_store<T>(s.value_sums[c]);
    }
    __syncthreads();
}

template <typename T> __global__ void __launch_bounds__(TILE) give_keys(ls_cuda_attention a) {
    LS_SHARED(float, shared);
    const heads_of h = heads_in(a);
    float *tile = shared + 4 * a.width;
    const key_sums s = {shared, shared + a.width, shared + 2 * a.width, shared + 3 * a.width, tile, tile + TILE};
    for (int64_t task = blockIdx.x; task < a.rows * h.kv_heads * a.length; task += gridDim.x)
        backward_key<T>(a, h, task, s);
}

/* ---- launches ---- */

unsigned blocks_of(int64_t tasks) {
    return static_cast<unsigned>(tasks < MOST_BLOCKS ? tasks : MOST_BLOCKS);
}

/* Bytes of so many vectors of a head and of a tile. */
size_t shared_of(const ls_cuda_attention &a, int heads, int tiles) {
    return static_cast<size_t>(heads * a.width + tiles * TILE) * sizeof(float);
}

template <typename T> cudaError_t launch_forward(const ls_cuda_attention &a, cudaStream_t stream) {
    auto *kernel = attend<T>;
    unsigned blocks = blocks_of(a.rows * a.asked.heads * a.length);
    return LS_LAUNCH_SYNC(kernel, blocks, TILE, shared_of(a, 2, 1), stream, a);
}

template <typename T> cudaError_t launch_decode(const ls_cuda_attention &a, cudaStream_t stream) {
    auto *keeper = keep<T>, *kernel = decode<T>;
    unsigned blocks = blocks_of(a.rows * a.asked.heads * a.length);
    int64_t elements = a.rows * a.asked.kv_heads * a.length * a.width;
    cudaError_t error = LS_LAUNCH(keeper, ls_blocks(elements), LS_THREADS, stream, a);
    return error ? error : LS_LAUNCH_SYNC(kernel, blocks, TILE, shared_of(a, 2, 1), stream, a);
}

template <typename T> cudaError_t launch_backward(const ls_cuda_attention &a, cudaStream_t stream) {
    auto *queries = give_queries<T>, *keys = give_keys<T>;
    unsigned blocks = blocks_of(a.rows * a.asked.heads * a.length);
    unsigned key_blocks = blocks_of(a.rows * a.asked.kv_heads * a.length);
    cudaError_t error = LS_LAUNCH_SYNC(queries, blocks, TILE, shared_of(a, 3, 1), stream, a);
    if (error) return error;
    return LS_LAUNCH_SYNC(keys, key_blocks, TILE, shared_of(a, 4, 2), stream, a);
}

} // namespace

cudaError_t ls_cuda_attention_forward(const struct ls_cuda_attention *attention, cudaStream_t stream) {
    LS_WITH_TYPE(attention->dtype, return launch_forward<T>(*attention, stream));
}

cudaError_t ls_cuda_attention_decode(const struct ls_cuda_attention *attention, cudaStream_t stream) {
    LS_WITH_TYPE(attention->dtype, return launch_decode<T>(*attention, stream));
}

cudaError_t ls_cuda_attention_backward(const struct ls_cuda_attention *attention, cudaStream_t stream) {
    LS_WITH_TYPE(attention->dtype, return launch_backward<T>(*attention, stream));
}
