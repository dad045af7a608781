/* The cells of recurrent layers on the CPU: one position of one row. Gates lie one after the other, of units each. */
#pragma once
#include "device/op.h"

struct ls_cpu_cell {
    const float *x;       /* gates x units: what the inputs give */
    const float *product; /* the same of the output before, with the bias */
    float *state;         /* units: c of an LSTM, y of a GRU; backward: its gradient */
    float *saved;         /* as of LS_OP_RECURRENT_FORWARD */
    float *h;             /* units: the output; backward: its gradient */
    const float *before;  /* backward: c of an LSTM, y of a GRU at the position before */
    float *dx, *dr;       /* backward, gates x units; dr of a GRU */
};
/* Writes state, saved and h. */
typedef void ls_cpu_cell_fn(const struct ls_cpu_cell *cell, int64_t units);
ls_cpu_cell_fn ls_cpu_lstm_forward;
ls_cpu_cell_fn ls_cpu_gru_forward;
/* Writes dx, dr and state, which is 0 behind the last position. */
ls_cpu_cell_fn ls_cpu_lstm_backward;
ls_cpu_cell_fn ls_cpu_gru_backward;
