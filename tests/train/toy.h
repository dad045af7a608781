/* A dataset of three classes that a small model learns at once. */
#pragma once
#include <stdint.h>

#define EXAMPLES 40
#define WIDTH    6

struct toy {
    float features[EXAMPLES][WIDTH];
    int32_t labels[EXAMPLES];
};

static inline void fill_toy(struct toy *toy) {
    for (int i = 0; i < EXAMPLES; i++) {
        toy->labels[i] = i % 3;
        for (int j = 0; j < WIDTH; j++)
            toy->features[i][j] = (float)((i * 5 + j * 3) % 7) / 7.0F + (j == i % 3 ? 1.0F : 0);
    }
}
