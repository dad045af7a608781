/* The table of rotary position embedding, in double precision by sums and products alone: no function of a libc decides
 * a bit. */
#include "device/rope.h"

#include <stdbool.h>

#define LOG_10000 9.210340371976184
#define LOG_2     0.6931471805599453
#define TERMS     24 /* of a Taylor series, for arguments up to 1 */

/* ln(theta), of theta from 1 on. With theta = m 2^n, m from 1 to 2, ln(m) = 2 artanh((m - 1) / (m + 1)). */
static double log_of(double theta) {
    double twos = 0, sum = 0;
    for (; theta >= 2; theta /= 2) twos++;
    double ratio = (theta - 1) / (theta + 1), power = ratio;
    for (int n = 1; n < 2 * TERMS; n += 2, power *= ratio * ratio) sum += power / n;
    return twos * LOG_2 + 2 * sum;
}

/* exp(-x / parts) for x from 0 on. x is halved until it is below 1. */
static double decayed(double x, double parts) {
    int halvings = 0;
    while (x / (1 << halvings) > 1) halvings++;
    double term = 1, sum = 1, part = x / parts / (1 << halvings);
    for (int n = 1; n < TERMS; n++) {
        term *= -part / n;
        sum += term;
    }
    for (int i = 0; i < halvings; i++) sum *= sum;
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

void ls_rope_fill(float *turns, int64_t length, int64_t width, float theta) {
    int64_t half = width / 2;
    bool usual = theta == 0 || theta == LS_ROPE_THETA;
    double angle = 1, ratio = decayed(usual ? LOG_10000 : log_of((double)theta), (double)half);
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
