/* The roles of tf.distribute (multi_worker_util), and the names that other tools give them. */
#pragma once
#include "resolver/tf_config.h"
#include "resolver/tf_config_private.h"

const char *ls_tf_config_roles_hint(const char *name);
struct ls_tf_key ls_tf_config_roles_key(const struct ls_tf_reader *reader, enum ls_task_type type, int index);
/* LS_TASK_NONE for an unknown name; then ls_tf_config_roles_hint says what may have been meant ("" if nothing is
 * known). */
enum ls_task_type ls_tf_config_roles_parse(const char *name);
