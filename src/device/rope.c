/* The table of rotary position embedding, in double precision by sums and products alone: no function of a libc decides
 * a bit. */
#include "device/rope.h"

#define LOG_BASE 9.210340371976184 /* ln(10000) */
#define TERMS    24                /* of a Taylor series, for arguments up to 1 */
#define HALVINGS 4                 /* of LOG_BASE, until it is below 1 */

/* exp(-x) for x from 0 to LOG_BASE. */
static double decayed(double x) {
    double term = 1, sum = 1, part = x / (1 << HALVINGS);
    for (int n = 1; n < TERMS; n++) {
        term *= -part / n;
        sum += term;
    }
    for (int i = 0; i < HALVINGS; i++) sum *= sum;
    return sum;
}

/* Of an angle up to 1. */
static void first_turn(double angle, double *cosine, double *sine) {
    double term = 1;
    *cosine = 1, *sine = 0;
    for (int n = 1; n < TERMS; n++) {
        term *= angle / n;
        double part = n % 4 < 2 ? term : -term;
        if (n % 2)
            *sine += part;
        else
            *cosine += part;
    }
}

void ls_rope_fill(float *turns, int64_t length, int64_t width) {
    int64_t half = width / 2;
    double angle = 1, ratio = decayed(LOG_BASE / (double)half);
    for (int64_t i = 0; i < half; i++, angle *= ratio) {
        double cosine = 1, sine = 0, cosine_1, sine_1;
        first_turn(angle, &cosine_1, &sine_1);
        for (int64_t t = 0; t < length; t++) {
            turns[t * width + i] = (float)cosine;
            turns[t * width + half + i] = (float)sine;
            double next = cosine * cosine_1 - sine * sine_1;
            sine = sine * cosine_1 + cosine * sine_1;
            cosine = next;
        }
    }
}
