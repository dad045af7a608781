/* Tells those who watch a worker from outside how it is: /metrics, /livez and /readyz by HTTP, and a file of metrics.
 */
#pragma once
#include <stdbool.h>
#include <stdint.h>
#include <stdio.h>

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

/* Those who call at LOCKSTEP_HTTP, all polled by one thread: nobody waits for another. */

/* Writes the whole answer to a request, a string that it may change. */
typedef void ls_http_answer_fn(void *context, char *request, FILE *answer);

struct ls_http_callers;
/* Returns NULL if there is no memory. */
struct ls_http_callers *ls_http_callers_new(ls_http_answer_fn *answer, void *context);
/* Waits until deadline at most and attends to who calls at listening (-1: nobody). Returns false if wake is
 * readable. */
bool ls_http_callers_turn(struct ls_http_callers *callers, int listening, int wake, int64_t deadline);
void ls_http_callers_free(struct ls_http_callers *callers);
