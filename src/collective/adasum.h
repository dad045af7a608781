/* Adasum: an all-reduce that adds what two gradients do not have in common, and averages what they do (Maleki et al.
 * 2020, "Scaling Distributed Training with Adaptive Summation"; Horovod's op Adasum). */
#pragma once
#include "collective/group.h"

/* INVALID_ARGUMENT for what this rank alone can see: a type that is no float. */
ls_status ls_adasum_check(const char *name, ls_dtype dtype);
/* The call's one leaf a rank. INVALID_ARGUMENT unless the ranks are a power of two. */
ls_status ls_group_adasum(struct ls_group *group, const struct ls_all_reduce *call);
