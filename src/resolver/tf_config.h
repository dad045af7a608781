/* The reader of TF_CONFIG (tf.distribute.cluster_resolver.TFConfigClusterResolver and multi_worker_util). Opens no
 * port. */
#pragma once
#include <lockstep/lockstep.h>

#include "resolver/cluster_view.h"

/* A NULL text means that the variable is absent; then the spec is local mode's. INVALID_ARGUMENT has one error that
 * names the key, the value and the mend. */
ls_status ls_tf_config_parse(const char *text, struct ls_cluster_view **spec);

/* key is the path for the message ("cluster.worker[1]"). *host is allocated, without brackets. INVALID_ARGUMENT names
 * the key, the address and how to write it. */
ls_status ls_tf_config_address_parse(const char *key, const char *address, char **host, int *port);
/* One spelling for one address: lower case, no trailing dot, IPv6 in its short form with brackets. Allocated; NULL when
 * memory is short. */
char *ls_tf_config_address_canonical(const char *host, int port);
/* True if host means the machine that looks it up (localhost, 127.0.0.0/8, ::1, 0.0.0.0, ::). */
bool ls_tf_config_address_is_loopback(const char *host);
/* True for a name that ends in ".invalid" (RFC 6761): no host has it, its task is not started yet. */
bool ls_tf_config_address_is_nowhere(const char *host);

/* Whether TF_CONFIG is JSON at all, and if not: where and why, in words. */

#define LS_JSON_DEPTH 1000 /* of nested lists and objects; no deeper than cJSON's own limit */

/* RFC 8259, and no number of more than 62 characters, no \u0000. INVALID_ARGUMENT with line, column and a hint. */
ls_status ls_tf_config_syntax_check(const char *text);
