/* An optimizer of a random model, with and without moments and a clipped norm. */
#pragma once
#include "lockstep/lockstep.h"
#include "property/draw.h"

static inline ls_optimizer draw_optimizer(struct draw *draw) {
    const ls_optimizer rules[] = {
        ls_sgd(0.1F),   ls_sgd(0.1F, .momentum = 0.9F, .nesterov = true),
        ls_adam(0.01F), ls_adamw(0.01F, .torch_epsilon = true),
        ls_lamb(0.01F), ls_rmsprop(0.01F, .momentum = 0.5F, .centered = true),
    };
    ls_optimizer rule = rules[draw_below(draw, sizeof(rules) / sizeof(rules[0]))];
    if (draw_once_in(draw, 3)) rule.global_clipnorm = 0.5F;
    return rule;
}
