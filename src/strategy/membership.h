/* What a strategy and a bare communicator share: settings, log, TF_CONFIG, the cluster and its group. */
#pragma once
#include <lockstep/lockstep.h>

#include "base/activity.h"
#include "base/log.h"
#include "base/settings.h"
#include "cluster/cluster.h"
#include "collective/choice.h"
#include "collective/group.h"

struct ls_membership {
    struct ls_settings settings;
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
    int local_rank, local_size;
};
/* Reads TF_CONFIG where read_tf_config says so, joins, and makes the group. */
ls_status ls_membership_new(const ls_strategy_options *options, bool read_tf_config, struct ls_membership **membership);
/* Leaves in order (LS_OK, or LS_CANCELLED when all have stopped) or telling the cause; frees. Returns status or what
 * leaving met. */
ls_status ls_membership_close(struct ls_membership *membership, ls_status status);
/* An exchange of one int64 a worker, values[size]. Alone: its own. */
ls_status ls_membership_exchange(struct ls_membership *membership, const char *name, int64_t value, int64_t *values);
/* ls_cluster_agree; nothing to do when alone. */
ls_status ls_membership_agree(struct ls_membership *membership, const char *name, const char *lines);
