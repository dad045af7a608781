/* Mirrored and per-replica variables. */
#pragma once
#include <stdio.h>

#include "strategy/strategy.h"

ls_status ls_variables_flush(ls_strategy *strategy); /* one flat broadcast of those that are pending */
void ls_variables_begin_anew(ls_strategy *strategy); /* the mirrored ones are pending again */
void ls_variables_free(ls_strategy *strategy);
/* Makes copies for the replicas from that index on, equal to the first one's, and frees them. */
ls_status ls_variables_add_replicas(void *strategy, int from);
void ls_variables_drop_replicas(void *strategy, int from);
/* pending, here and below: of those alone that wait for their broadcast. "variable w=float32 (3, 2) on-write mean\n"
 * for each: all workers must have made the same. */
void ls_variables_describe(const ls_strategy *strategy, bool pending, FILE *out);
/* FAILED_PRECONDITION names a variable of which each replica has a value of its own. */
ls_status ls_variables_check_mirrored(const ls_strategy *strategy);
/* The values, side by side in so many bytes. unpack writes them to all local replicas, and none is pending then. */
size_t ls_variables_size(const ls_strategy *strategy, bool pending);
void ls_variables_pack(const ls_strategy *strategy, bool pending, char *place);
void ls_variables_unpack(ls_strategy *strategy, bool pending, const char *place);
