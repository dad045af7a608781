/* Windows of convolutions and pools over an image. */
#pragma once
#include "model/layer.h"

/* For takes: the fields of a window. */
#define LS_LAYER_WINDOW_FIELDS .kernel_size = 1, .kernel_width = 1, .strides = 1, .padding = LS_SAME

/* The same of the window's size and how it moves. */
ls_status ls_layer_window_check(const struct ls_node *node, size_t position);
/* INVALID_ARGUMENT unless the input is an image (height, width, channels). */
ls_status ls_layer_window_check_image(const struct ls_node *node, size_t position);
/* Fills in the layer's window over its input, with padding resolved. INVALID_ARGUMENT if it does not fit. */
ls_status ls_layer_window(const struct ls_node *node, size_t position, struct ls_window *window);
