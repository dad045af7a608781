/* The rules of an elastic group: who may go on with fewer, and when a joiner is let in. */
#pragma once
#include "cluster/cluster_private.h"

/* When the workers left may go on with fewer than were there before, and how long they wait for a joiner that knocks;
 * LS_NEVER: not elastic, or no generation is there to shrink. */
int64_t ls_elastic_shrinks_at(const struct ls_cluster *cluster);
int64_t ls_elastic_settles_at(const struct ls_cluster *cluster);
/* Until when a survivor is waited for that is connected and has not reported, as its step is long; 0: none is. */
int64_t ls_elastic_awaits_until(const struct ls_cluster *cluster);
/* Returns true if the `count` workers of cluster->next.present may form a generation; the first one needs all tasks.
 * Gathers their ledgers into the proposal's. */
bool ls_elastic_may_form(struct ls_cluster *cluster, int count);
/* Why they may not, in words: too few, or whose votes are missing. Text stays as it is where neither holds. */
void ls_elastic_describe(struct ls_cluster *cluster, int count, char *text, size_t size);
/* By the coordinator: the generation stops for who wants to come in. */
void ls_elastic_admit(struct ls_cluster *cluster);
