/* Initial values of one variable. */
#pragma once
#include "base/fill.h"
#include "model/network.h"

/* The rule of its elements. */
struct ls_fill ls_initializer_fill(const struct ls_network_variable *variable, uint64_t seed);
/* Writes variable->count values. */
void ls_initializer_apply(const struct ls_network_variable *variable, uint64_t seed, float *values);
const char *ls_initializer_name(ls_initializer initializer); /* "glorot_uniform"; NULL when it is none */
