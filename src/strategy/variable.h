/* Mirrored and per-replica variables. */
#pragma once
#include "strategy/strategy.h"

ls_status ls_variables_flush(ls_strategy *strategy); /* one flat broadcast of those that are pending */
void ls_variables_begin_anew(ls_strategy *strategy); /* the mirrored ones are pending again */
void ls_variables_free(ls_strategy *strategy);
/* Makes copies for the replicas from that index on, equal to the first one's, and frees them. */
ls_status ls_variables_add_replicas(void *strategy, int from);
void ls_variables_drop_replicas(void *strategy, int from);
/* "variable w=float32 (3, 2) ...\n" for each; freed with ls_free. */
ls_status ls_variables_describe(const ls_strategy *strategy, char **lines);
/* FAILED_PRECONDITION names a variable of which each replica has a value of its own. */
ls_status ls_variables_check_mirrored(const ls_strategy *strategy);
/* The values of all variables, side by side in so many bytes. unpack writes them to all local replicas. */
size_t ls_variables_size(const ls_strategy *strategy);
void ls_variables_pack(const ls_strategy *strategy, char *place);
void ls_variables_unpack(ls_strategy *strategy, const char *place);
