/* The task part of TF_CONFIG. */
#pragma once
#include "resolver/tf_config_private.h"

/* Fills config->type and config->index from the task, and checks them against the tasks. */
ls_status ls_tf_config_task_read(struct ls_tf_reader *reader);
