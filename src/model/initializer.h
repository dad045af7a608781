/* Initial values of one variable. */
#pragma once
#include "model/network.h"

struct ls_span {
    float *values;
    size_t count;
};
/* Writes variable->count values. */
void ls_initializer_apply(const struct ls_network_variable *variable, uint64_t seed, float *values);
const char *ls_initializer_name(ls_initializer initializer); /* "glorot_uniform"; NULL when it is none */
