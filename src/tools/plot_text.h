/* Curves in 80 columns of a terminal. */
#pragma once
#include "tools/plot.h"

/* ascii: with letters for dots, where the terminal has no Unicode. */
void ls_plot_text(const struct ls_plot *plot, bool ascii, bool colour, FILE *out);
