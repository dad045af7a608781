/* Softmax, sigmoid, and the greatest. */
#include "cli/commands.h"

#include <math.h>
#include <string.h>

static void softmax(float *values, int64_t count) {
    double most = (double)values[0], sum = 0;
    for (int64_t i = 1; i < count; i++) most = fmax(most, (double)values[i]);
    for (int64_t i = 0; i < count; i++) sum += exp((double)values[i] - most);
    for (int64_t i = 0; i < count; i++) values[i] = (float)(exp((double)values[i] - most) / sum);
}

static void sigmoid(float *values, int64_t count) {
    for (int64_t i = 0; i < count; i++) values[i] = (float)(1 / (1 + exp(-(double)values[i])));
}

int64_t ls_outputs_width(const ls_shape *shape) {
    return shape->rank > 1 ? shape->dims[shape->rank - 1] : 1;
}

int64_t ls_outputs_rows(const ls_shape *shape) {
    int64_t rows = shape->rank ? shape->dims[0] : 0;
    for (int i = 1; i < shape->rank - 1; i++) rows *= shape->dims[i];
    return rows;
}

bool ls_outputs_probable(const char *loss, float *values, int64_t rows, int64_t width) {
    bool binary = loss && strstr(loss, "binary");
    if (loss && !binary && !strstr(loss, "categorical")) return false;
    for (int64_t r = 0; r < rows; r++) (binary ? sigmoid : softmax)(values + r * width, width);
    return true;
}

double ls_outputs_probability(const float *values, int64_t width, int64_t class) {
    double first = (double)values[0];
    return width > 1 ? (double)values[class] : class ? first : 1 - first;
}

int64_t ls_outputs_class(const float *values, int64_t width, bool raw) {
    int64_t best = 0;
    if (width == 1) return values[0] > (raw ? 0 : 0.5F);
    for (int64_t i = 1; i < width; i++)
        if (values[i] > values[best]) best = i;
    return best;
}
