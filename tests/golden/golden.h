/* Reads what tests/golden/record.py wrote: named float32 tensors in text. A file or name that is missing or malformed
 * fails the test at once. */
#pragma once
#include <lockstep/lockstep.h>

struct golden;
struct golden_tensor {
    char name[64];
    ls_shape shape;
    int64_t count;
    float *values;
};
struct golden *golden_open(const char *file); /* "mlp.txt" */
/* Borrowed from golden; name is formatted. */
const struct golden_tensor *golden_find(const struct golden *golden, const char *format, ...)
    __attribute__((format(printf, 2, 3)));
void golden_close(struct golden *golden);
