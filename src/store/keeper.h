/* A parameter server's side: it keeps the variables and moments of models, its part of each, over generations. */
#pragma once
#include "base/log.h"
#include "base/memory.h"
#include "collective/servers/serve.h"

struct ls_keeper;
/* log: borrowed. */
ls_status ls_keeper_new(const struct ls_log *log, struct ls_keeper **keeper);
/* Files of the order of asynchronous training (session_record.h), borrowed; empty: none. */
void ls_keeper_set_files(struct ls_keeper *keeper, const char *record, const char *replay);
void ls_keeper_free(struct ls_keeper *keeper);
/* A model that does not fit is refused. Without it none is. */
void ls_keeper_limit(struct ls_keeper *keeper, struct ls_memory_limit limit);
/* A generation begins: what was under way in the one before is given up. listed: servers of the cluster. */
void ls_keeper_begin(struct ls_keeper *keeper, int64_t generation, int listed);
/* Returns true if moments are lost that the workers need. The workers end then, and so does the server. */
bool ls_keeper_has_lost(const struct ls_keeper *keeper);
/* Makes a call that the workers make. As of struct ls_keeping; the context is the keeper. */
ls_status ls_keeper_call(void *keeper, struct ls_group *group, const struct ls_frame *frame);
