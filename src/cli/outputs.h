/* From a model's outputs to probabilities and classes. */
#pragma once
#include <stdbool.h>
#include <stdint.h>

/* Turns rows of width outputs, trained with a loss of that name (NULL: unknown), into probabilities: by softmax, or by
 * sigmoid after a binary loss. False, and nothing is done, after the loss of a regression. */
bool ls_outputs_probable(const char *loss, float *values, int64_t rows, int64_t width);
/* The probability of a class in a row of width probabilities. */
double ls_outputs_probability(const float *values, int64_t width, int64_t class);
/* The likeliest class of a row of width values. A single one is that of the second class: of probabilities, or raw. */
int64_t ls_outputs_class(const float *values, int64_t width, bool raw);
