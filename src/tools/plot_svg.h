/* Curves as one SVG file. */
#pragma once
#include "tools/plot.h"

void ls_plot_svg(const struct ls_plot *plot, FILE *out);
