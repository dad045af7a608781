/* The rate goes with the extras, byte by byte: a byte is at most 255, and float32 is exact up to 2^24. The sum of one
 * byte over all replicas is exact for 65,793 of them, in any order of addition; the rate itself as a float would be
 * rounded. */
#include "train/step_rate.h"

#include <string.h>

void ls_step_rate_write(float rate, float bytes[4]) {
    uint32_t bits;
    memcpy(&bits, &rate, sizeof(bits));
    for (int i = 0; i < 4; i++) bytes[i] = (float)(bits >> 8 * i & 0xFF);
}

/* The sum is own times the replicas on every worker exactly when all are equal: a rate that is the mean of others'
 * passes on its own worker only. */
ls_status ls_step_rate_check(const ls_model *model, float rate, const float *extras) {
    float own[4], replicas = (float)model->strategy->total_count;
    ls_step_rate_write(rate, own);
    for (int i = 0; i < 4; i++)
        if (extras[LS_EXTRA_RATE + i] != own[i] * replicas)
            return ls_fail(LS_INVALID_ARGUMENT,
                           "the learning rate is %g on rank %d and another one on another worker: set it alike on all",
                           (double)rate, model->strategy->runtime->rank);
    return LS_OK;
}
