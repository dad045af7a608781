/* Warnings about a legal TF_CONFIG. */
#pragma once
#include "resolver/tf_config_private.h"

/* Adds a warning to the config (the words are copied). */
ls_status ls_tf_config_warn(struct ls_cluster_view *config, const char *format, ...)
    __attribute__((format(printf, 2, 3)));
/* Adds what deserves a word: of the document root (keys that are ignored but look meant), and of the tasks. */
ls_status ls_tf_config_warn_keys(const struct ls_tf_reader *reader, const struct ls_tf_config_json *document);
ls_status ls_tf_config_warn_tasks(const struct ls_tf_reader *reader);
