/* LSTM and GRU, row by row. Forward keeps all gates of a row, and backward walks back over them. */
#include "device/reference_recurrent.h"

#include <math.h>
#include <stdlib.h>

/* One row, with the gates of all its positions. */
struct walk {
    const struct reference_recurrent *run;
    const double *x, *dy;
    double *y, *dx, *dr;
    double *gates, *inner, *state; /* gates: after activation; inner: r w + b; state: c, of an LSTM */
};

static double logistic(double x) {
    return 1 / (1 + exp(-x));
}

static int64_t columns_of(const struct reference_recurrent *run) {
    return ls_cell_gates(run->cell) * run->units;
}

static double before(const double *values, int64_t units, int64_t t, int64_t u) {
    return t ? values[(t - 1) * units + u] : 0;
}

static void multiply(const struct walk *walk, int64_t t) {
    const struct reference_recurrent *run = walk->run;
    int64_t columns = columns_of(run);
    for (int64_t c = 0; c < columns; c++) {
        double sum = run->b ? run->b[c] : 0;
        for (int64_t u = 0; u < run->units; u++) sum += before(walk->y, run->units, t, u) * run->w[u * columns + c];
        walk->inner[t * columns + c] = sum;
    }
}

static void lstm(const struct walk *walk, int64_t t, int64_t u) {
    int64_t units = walk->run->units, at = t * 4 * units + u;
    double *gates = walk->gates + at;
    for (int64_t k = 0; k < 4; k++) {
        double sum = walk->x[at + k * units] + walk->inner[at + k * units];
        gates[k * units] = k == 2 ? tanh(sum) : logistic(sum);
    }
    double c = gates[units] * before(walk->state, units, t, u) + gates[0] * gates[2 * units];
    walk->state[t * units + u] = c;
    walk->y[t * units + u] = gates[3 * units] * tanh(c);
}

static void gru(const struct walk *walk, int64_t t, int64_t u) {
    int64_t units = walk->run->units, at = t * 3 * units + u, h = at + 2 * units;
    double *gates = walk->gates + at;
    for (int64_t k = 0; k < 2; k++) gates[k * units] = logistic(walk->x[at + k * units] + walk->inner[at + k * units]);
    gates[2 * units] = tanh(walk->x[h] + gates[units] * walk->inner[h]);
    walk->y[t * units + u] = gates[0] * before(walk->y, units, t, u) + (1 - gates[0]) * gates[2 * units];
}

/* dh: of y at t and u by all ways; carried: of the state, from t + 1 and to t - 1. */
static void lstm_back(const struct walk *walk, int64_t t, int64_t u, double dh, double *carried) {
    int64_t units = walk->run->units, at = t * 4 * units + u;
    const double *gates = walk->gates + at;
    double i = gates[0], f = gates[units], g = gates[2 * units], o = gates[3 * units];
    double out = tanh(walk->state[t * units + u]), dc = *carried + dh * o * (1 - out * out);
    const double slopes[] = {dc * g * i * (1 - i), dc * before(walk->state, units, t, u) * f * (1 - f),
                             dc * i * (1 - g * g), dh * out * o * (1 - o)};
    for (int64_t k = 0; k < 4; k++) walk->dx[at + k * units] = walk->dr[at + k * units] = slopes[k];
    *carried = dc * f;
}

static void gru_back(const struct walk *walk, int64_t t, int64_t u, double dh, double *carried) {
    int64_t units = walk->run->units, at = t * 3 * units + u, h = at + 2 * units;
    double z = walk->gates[at], r = walk->gates[at + units], g = walk->gates[h];
    double dz = (dh + *carried) * (before(walk->y, units, t, u) - g) * z * (1 - z);
    double dg = (dh + *carried) * (1 - z) * (1 - g * g), dreset = dg * walk->inner[h] * r * (1 - r);
    walk->dx[at] = walk->dr[at] = dz;
    walk->dx[at + units] = walk->dr[at + units] = dreset;
    walk->dx[h] = dg;
    walk->dr[h] = dg * r;
    *carried = (dh + *carried) * z;
}

static void walk_back(const struct walk *walk, double *carried) {
    const struct reference_recurrent *run = walk->run;
    int64_t columns = columns_of(run);
    for (int64_t t = run->length - 1; t >= 0; t--)
        for (int64_t u = 0; u < run->units; u++) {
            double dh = walk->dy[t * run->units + u];
            for (int64_t c = 0; t + 1 < run->length && c < columns; c++)
                dh += walk->dr[(t + 1) * columns + c] * run->w[u * columns + c];
            (run->cell == LS_CELL_GRU ? gru_back : lstm_back)(walk, t, u, dh, &carried[u]);
        }
}

static void run_row(const struct reference_recurrent *run, int64_t row, double *scratch) {
    int64_t in = run->length * columns_of(run), out = run->length * run->units;
    const struct walk walk = {run,
                              run->x + row * in,
                              run->dy ? run->dy + row * out : NULL,
                              run->y + row * out,
                              run->dy ? run->dx + row * in : NULL,
                              run->dy ? run->dr + row * in : NULL,
                              scratch,
                              scratch + in,
                              scratch + 2 * in};
    double *carried = scratch + 2 * in + out;
    for (int64_t t = 0; t < run->length; t++) {
        multiply(&walk, t);
        for (int64_t u = 0; u < run->units; u++) (run->cell == LS_CELL_GRU ? gru : lstm)(&walk, t, u);
    }
    for (int64_t u = 0; u < run->units; u++) carried[u] = 0;
    if (run->dy) walk_back(&walk, carried);
}

void reference_recurrent_run(const struct reference_recurrent *run) {
    size_t count = (size_t)(2 * run->length * columns_of(run) + (run->length + 1) * run->units);
    double *scratch = malloc(count * sizeof(*scratch));
    for (int64_t row = 0; scratch && row < run->rows; row++) run_row(run, row, scratch);
    free(scratch);
}
