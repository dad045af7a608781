/* The "host:port" of a task. */
#pragma once
#include <lockstep/lockstep.h>

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
