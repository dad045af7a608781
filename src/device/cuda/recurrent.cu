/* A position of a recurrent layer, between two products. A thread has a unit of a row. Mirrors
 * device/cpu/recurrent_cells.c; gates lie one after the other, of units each. */
#include "device/cuda/kernels_products.h"
#include "device/cuda/pack.cuh"

namespace {

__device__ inline float recurrent_logistic(float x) {
    return 1 / (1 + expf(-x));
}

/* A unit of a row: where its numbers lie. */
struct place {
    int64_t row, unit, packed, position; /* packed: of (rows, units); position: row and t in one number */
};

__device__ inline place place_of(const ls_cuda_recurrent &n, int64_t i) {
    return {i / n.units, i % n.units, i, i / n.units * n.length + n.t};
}

/* Of (rows, length, gates units), and of (rows, gates units). */
__device__ inline int64_t gate_at(const ls_cuda_recurrent &n, const place &p, int gate) {
    return (p.position * n.gates + gate) * n.units + p.unit;
}
__device__ inline int64_t product_at(const ls_cuda_recurrent &n, const place &p, int gate) {
    return (p.row * n.gates + gate) * n.units + p.unit;
}
__device__ inline float *saved_at(const ls_cuda_recurrent &n, const place &p) {
    return n.saved + p.position * (n.gates + 1) * n.units + p.unit;
}

/* ---- forward ---- */

__device__ inline float product_of(const ls_cuda_recurrent &n, const place &p, int gate) {
    float product = n.t ? n.product[product_at(n, p, gate)] : 0;
    return n.b ? product + n.b[gate * n.units + p.unit] : product;
}

__device__ inline void save(const ls_cuda_recurrent &n, const place &p, int which, float value) {
    if (n.saved) saved_at(n, p)[which * n.units] = value;
}

template <typename T> __device__ inline float lstm_forward(const ls_cuda_recurrent &n, const place &p) {
    const T *x = static_cast<const T *>(n.x);
    float gates[4], before = n.t ? n.state[p.packed] : 0;
    for (int k = 0; k < 4; k++) {
        float sum = ls_load(x[gate_at(n, p, k)]) + product_of(n, p, k);
        gates[k] = k == 2 ? tanhf(sum) : recurrent_logistic(sum);
        save(n, p, k, gates[k]);
    }
    float c = gates[1] * before + gates[0] * gates[2];
    save(n, p, 4, n.state[p.packed] = c);
    return gates[3] * tanhf(c);
}

template <typename T> __device__ inline float gru_forward(const ls_cuda_recurrent &n, const place &p) {
    const T *x = static_cast<const T *>(n.x);
    float z = recurrent_logistic(ls_load(x[gate_at(n, p, 0)]) + product_of(n, p, 0));
    float r = recurrent_logistic(ls_load(x[gate_at(n, p, 1)]) + product_of(n, p, 1));
    float reset = product_of(n, p, 2), g = tanhf(ls_load(x[gate_at(n, p, 2)]) + r * reset);
    save(n, p, 0, z), save(n, p, 1, r), save(n, p, 2, g), save(n, p, 3, reset);
    return n.state[p.packed] = z * (n.t ? n.state[p.packed] : 0) + (1 - z) * g;
}

/* To the next product, to y, and to the next position's r. */
template <typename T> __device__ inline void store_output(const ls_cuda_recurrent &n, const place &p, float value) {
    T *y = static_cast<T *>(n.y), *before = static_cast<T *>(n.before), rounded = ls_store<T>(value);
    bool last = n.t + 1 == n.length;
    int64_t at = p.position * n.units + p.unit;
    static_cast<T *>(n.factor)[p.packed] = rounded;
    if (n.whole || last) y[n.whole ? at : p.packed] = rounded;
    if (before && !n.t) before[at] = ls_store<T>(0);
    if (before && !last) before[at + n.units] = rounded;
}

template <typename T> __global__ void recurrent_forward(ls_cuda_recurrent n) {
    for (int64_t i = ls_thread(); i < n.rows * n.units; i += ls_all_threads()) {
        const place p = place_of(n, i);
        store_output<T>(n, p, n.cell == LS_CELL_GRU ? gru_forward<T>(n, p) : lstm_forward<T>(n, p));
    }
}

/* ---- backward ---- */

/* Of the output at t, by y and by the product of the gates at t + 1. */
template <typename T> __device__ inline float output_gradient(const ls_cuda_recurrent &n, const place &p) {
    const T *dy = static_cast<const T *>(n.dy);
    bool last = n.t + 1 == n.length;
    float dh = last ? 0 : n.product[p.packed];
    if (n.whole) return dh + ls_load(dy[p.position * n.units + p.unit]);
    return last ? dh + ls_load(dy[p.packed]) : dh;
}

/* To the next product, and to where the layer has it. */
template <typename T>
__device__ inline void store_gate(const ls_cuda_recurrent &n, const place &p, int gate, float value) {
    T *to = static_cast<T *>(n.dr ? n.dr : n.dx);
    static_cast<T *>(n.factor)[product_at(n, p, gate)] = to[gate_at(n, p, gate)] = ls_store<T>(value);
}

template <typename T> __device__ inline void lstm_backward(const ls_cuda_recurrent &n, const place &p) {
    const float *saved = saved_at(n, p);
    int64_t u = n.units;
    float i = saved[0], f = saved[u], g = saved[2 * u], o = saved[3 * u], out = tanhf(saved[4 * u]);
    float before = n.t ? saved[-u] : 0, dh = output_gradient<T>(n, p); /* c at t - 1 is the last that is saved there */
    float dc = (n.t + 1 == n.length ? 0 : n.state[p.packed]) + dh * o * (1 - out * out);
    store_gate<T>(n, p, 0, dc * g * (i * (1 - i)));
    store_gate<T>(n, p, 1, dc * before * (f * (1 - f)));
    store_gate<T>(n, p, 2, dc * i * (1 - g * g));
    store_gate<T>(n, p, 3, dh * out * (o * (1 - o)));
    n.state[p.packed] = dc * f;
}

template <typename T> __device__ inline void gru_backward(const ls_cuda_recurrent &n, const place &p) {
    T *dx = static_cast<T *>(n.dx);
    const float *saved = saved_at(n, p);
    float z = saved[0], r = saved[n.units], g = saved[2 * n.units], reset = saved[3 * n.units];
    float before = ls_load(static_cast<const T *>(n.before)[p.position * n.units + p.unit]);
    float dh = output_gradient<T>(n, p) + (n.t + 1 == n.length ? 0 : n.state[p.packed]);
    float dz = dh * (before - g) * (z * (1 - z)), dg = dh * (1 - z) * (1 - g * g), dreset = dg * reset * (r * (1 - r));
    const float slopes[] = {dz, dreset, dg};
    for (int k = 0; k < 3; k++) {
        dx[gate_at(n, p, k)] = ls_store<T>(slopes[k]);
        store_gate<T>(n, p, k, k == 2 ? dg * r : slopes[k]);
    }
    n.state[p.packed] = dh * z;
}

template <typename T> __global__ void recurrent_backward(ls_cuda_recurrent n) {
    for (int64_t i = ls_thread(); i < n.rows * n.units; i += ls_all_threads()) {
        const place p = place_of(n, i);
        if (n.cell == LS_CELL_GRU)
            gru_backward<T>(n, p);
        else
            lstm_backward<T>(n, p);
    }
}

template <typename T> cudaError_t launch_position(const ls_cuda_recurrent &n, bool back, cudaStream_t stream) {
    auto *kernel = back ? recurrent_backward<T> : recurrent_forward<T>;
    return LS_LAUNCH(kernel, ls_blocks(n.rows * n.units), LS_THREADS, stream, n);
}

} // namespace

cudaError_t ls_cuda_recurrent_forward(const struct ls_cuda_recurrent *position, cudaStream_t stream) {
    LS_WITH_TYPE(position->dtype, return launch_position<T>(*position, false, stream));
}

cudaError_t ls_cuda_recurrent_backward(const struct ls_cuda_recurrent *position, cudaStream_t stream) {
    LS_WITH_TYPE(position->dtype, return launch_position<T>(*position, true, stream));
}
