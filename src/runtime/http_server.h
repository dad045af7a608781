/* Tells those who watch a worker from outside how it is: /metrics, /livez and /readyz by HTTP, and a file of metrics.
 */
#pragma once
#include "runtime/runtime.h"

struct ls_http_server;
/* As LOCKSTEP_HTTP and LOCKSTEP_METRICS_FILE say; *server is NULL where neither is set. The tasks of one host, in the
 * order of TF_CONFIG, take the port and those after it. INVALID_ARGUMENT: the address is none; FAILED_PRECONDITION: it
 * cannot be had. Alone that is a warning, for a process may have several strategies. */
ls_status ls_http_server_new(const struct ls_runtime *runtime, struct ls_http_server **server);
/* What /readyz says: whether the worker is in a group, and a line on that. server may be NULL. */
void ls_http_server_say(struct ls_http_server *server, bool ready, const char *text);
/* Of a runtime that joins: whom it waits for. */
void ls_http_server_tell_wait(void *runtime, const char *missing);
/* Writes the file a last time. */
void ls_http_server_free(struct ls_http_server *server);
