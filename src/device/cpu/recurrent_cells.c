/* LSTM (Hochreiter and Schmidhuber 1997, with a forget gate) and GRU (Cho et al. 2014, reset after the product).
 * Mirrors keras.layers.LSTMCell, and GRUCell(reset_after=True). Exponentials are our own: no libc decides a bit. */
#include "base/clones.h"
#include "device/cpu/lanes.h"
#include "device/cpu/recurrent.h"

LS_CLONES static void lstm_gates(float *restrict gates, const float *restrict x, const float *restrict product,
                                 int64_t units) {
    for (int64_t u = 0; u < units; u++) {
        gates[u] = ls_lanes_logistic(x[u] + product[u]);
        gates[units + u] = ls_lanes_logistic(x[units + u] + product[units + u]);
        gates[2 * units + u] = ls_lanes_tanh(x[2 * units + u] + product[2 * units + u]);
        gates[3 * units + u] = ls_lanes_logistic(x[3 * units + u] + product[3 * units + u]);
    }
}

LS_CLONES static void lstm_outputs(float *restrict saved, float *restrict state, float *restrict h, int64_t units) {
    for (int64_t u = 0; u < units; u++) {
        float c = saved[units + u] * state[u] + saved[u] * saved[2 * units + u];
        saved[4 * units + u] = state[u] = c;
        h[u] = saved[3 * units + u] * ls_lanes_tanh(c);
    }
}

void ls_cpu_lstm_forward(const struct ls_cpu_cell *cell, int64_t units) {
    lstm_gates(cell->saved, cell->x, cell->product, units);
    lstm_outputs(cell->saved, cell->state, cell->h, units);
}

/* The gradient of c comes from y = o tanh(c), and from c at the next position: state. */
LS_CLONES static void lstm_gradients(float *restrict dx, float *restrict state, const float *restrict saved,
                                     const float *restrict before, const float *restrict dh, int64_t units) {
    for (int64_t u = 0; u < units; u++) {
        float i = saved[u], f = saved[units + u], g = saved[2 * units + u], o = saved[3 * units + u];
        float out = ls_lanes_tanh(saved[4 * units + u]), dc = state[u] + dh[u] * o * (1 - out * out);
        dx[u] = dc * g * (i * (1 - i));
        dx[units + u] = dc * before[u] * (f * (1 - f));
        dx[2 * units + u] = dc * i * (1 - g * g);
        dx[3 * units + u] = dh[u] * out * (o * (1 - o));
        state[u] = dc * f;
    }
}

void ls_cpu_lstm_backward(const struct ls_cpu_cell *cell, int64_t units) {
    lstm_gradients(cell->dx, cell->state, cell->saved, cell->before, cell->h, units);
}

LS_CLONES static void gru_outputs(const struct ls_cpu_cell *cell, int64_t units) {
    const float *restrict x = cell->x, *restrict product = cell->product;
    float *restrict saved = cell->saved, *restrict state = cell->state, *restrict h = cell->h;
    for (int64_t u = 0; u < units; u++) {
        float z = ls_lanes_logistic(x[u] + product[u]);
        float r = ls_lanes_logistic(x[units + u] + product[units + u]);
        float reset = product[2 * units + u], g = ls_lanes_tanh(x[2 * units + u] + r * reset);
        saved[u] = z, saved[units + u] = r, saved[2 * units + u] = g, saved[3 * units + u] = reset;
        h[u] = state[u] = z * state[u] + (1 - z) * g;
    }
}

void ls_cpu_gru_forward(const struct ls_cpu_cell *cell, int64_t units) {
    gru_outputs(cell, units);
}

/* The gradient of y comes from above and through the product, in h, and from z y at the next position: state. */
LS_CLONES static void gru_gradients(const struct ls_cpu_cell *cell, int64_t units) {
    const float *restrict saved = cell->saved, *restrict before = cell->before, *restrict h = cell->h;
    float *restrict dx = cell->dx, *restrict dr = cell->dr, *restrict state = cell->state;
    for (int64_t u = 0; u < units; u++) {
        float z = saved[u], r = saved[units + u], g = saved[2 * units + u], dh = h[u] + state[u];
        float dg = dh * (1 - z) * (1 - g * g);
        dx[u] = dr[u] = dh * (before[u] - g) * (z * (1 - z));
        dx[units + u] = dr[units + u] = dg * saved[3 * units + u] * (r * (1 - r));
        dx[2 * units + u] = dg;
        dr[2 * units + u] = dg * r;
        state[u] = dh * z;
    }
}

void ls_cpu_gru_backward(const struct ls_cpu_cell *cell, int64_t units) {
    gru_gradients(cell, units);
}
