/* All-reduce with parameter servers: ranks above those of the workers that hold no leaf, own blocks, and add. */
#pragma once
#include "collective/schedule/reduction.h"

struct ls_call;
struct ls_group;
/* For ls_group_assist. It takes calls that are large enough for each server to own a block. */
extern const struct ls_assist_ops ls_assist_ops;
/* Returns true if so many elements are enough, for `size` workers and servers. */
bool ls_assist_is_large(size_t count, size_t element, int size);
/* The name of the call in which the workers tell the servers how many leaves each of them has. */
#define LS_ASSIST_LEAVES "leaves of the workers"
/* Tells it, where it has changed. first is [workers + 1]. By a worker. */
ls_status ls_assist_tell_leaves(struct ls_group *assist, const int *first);
/* The frame and the schedule of a call in the group with servers, as a worker or a server makes it. */
void ls_assist_lay_out(struct ls_group *assist, struct ls_call *made, struct ls_reduction *reduction);
