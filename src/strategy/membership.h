/* What a strategy and a bare communicator share: settings, log, TF_CONFIG, the cluster and its group. */
#pragma once
#include <lockstep/lockstep.h>

#include "base/activity.h"
#include "base/log.h"
#include "base/settings.h"
#include "cluster/cluster.h"
#include "collective/choice.h"
#include "collective/group.h"

/* What gives this process' state to those who lack it. */
struct ls_state_source {
    /* Allocates the bytes, for ls_free. */
    ls_status (*encode)(void *context, void **bytes, size_t *size);
    void *context;
};
struct ls_membership {
    struct ls_settings settings;
    ls_communication communication;
    struct ls_log log;
    struct ls_tf_config *config; /* NULL when TF_CONFIG was not read */
    struct ls_abort *abort;
    struct ls_cluster *cluster; /* NULL: alone, no port */
    struct ls_choice choice;    /* AUTO's, of the group's topology */
    struct ls_group *group;
    struct ls_activity activity; /* the group's calls and fit write it, the cluster's listener reads it */
    bool dumped;                 /* the flight record */
    bool stopped;                /* all workers stopped after one step, as one asked: LS_CANCELLED is in order */
    int rank, size;
    int task, tasks; /* this worker's place among the tasks of TF_CONFIG, which stays, and how many they are; 0 of 1 */
    int local_rank, local_size;
    uint64_t generation;         /* of the group; 1 when alone */
    int64_t first_generation;    /* that this process has been in; 0: none yet */
    struct ls_restart *restarts; /* [tasks] of all tasks' processes; NULL when alone */
    /* this process' state, which recovery copies (docs/protocol.md) */
    bool holds;
    int64_t position;              /* transactions that it has committed */
    struct ls_state_source source; /* while nothing is inherited */
    struct ls_bytes inherited;     /* a state that was copied here and not been taken up yet; data NULL: none */
};
/* Reads TF_CONFIG where read_tf_config says so, joins, and makes the group. */
ls_status ls_membership_new(const ls_strategy_options *options, bool read_tf_config, struct ls_membership **membership);
/* After a loss, on all workers that are left, as on one that is started anew: waits until all are there, makes a new
 * group, and copies the furthest state to those who lack it, as inherited. Nobody uses the group, or its memory. */
ls_status ls_membership_enter(struct ls_membership *membership);
/* Whether this thread's error comes from a loss that ls_membership_enter can mend. Keeps the error. */
bool ls_membership_may_recover(struct ls_membership *membership, ls_status status);
/* Logs this thread's error, a loss, and for how long it will be waited. */
void ls_membership_say_lost(const struct ls_membership *membership);
/* One more transaction is committed here. */
void ls_membership_commit(struct ls_membership *membership);
/* Takes what was inherited; the caller frees it. */
struct ls_bytes ls_membership_take_inherited(struct ls_membership *membership);
/* From now on these bytes are this process' state; takes them. */
void ls_membership_keep(struct ls_membership *membership, struct ls_bytes bytes);
/* Which task of TF_CONFIG a rank is, in its rank order. */
int ls_membership_task(const struct ls_membership *membership, int rank);
bool ls_membership_is_elastic(const struct ls_membership *membership);
bool ls_membership_is_scaled(const struct ls_membership *membership);
/* Leaves in order (LS_OK, or LS_CANCELLED when all have stopped) or telling the cause; frees. Returns status or what
 * leaving met. */
ls_status ls_membership_close(struct ls_membership *membership, ls_status status);
/* An exchange of one int64 a worker, values[size]. Alone: its own. */
ls_status ls_membership_exchange(struct ls_membership *membership, const char *name, int64_t value, int64_t *values);
/* ls_cluster_agree; nothing to do when alone. */
ls_status ls_membership_agree(struct ls_membership *membership, const char *name, const char *lines);
