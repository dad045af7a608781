/* This process as a parameter server, and the group of workers and servers that both sides make. */
#pragma once
#include <lockstep/lockstep.h>

#include "runtime/runtime.h"

/* INVALID_ARGUMENT for a runtime that needs servers, and cannot have any. */
ls_status ls_serving_check(const struct ls_runtime *runtime);
/* Makes the group of workers and servers of the generation that the cluster has just formed, where there are servers,
 * with channels of its own for links, beside the worker's group. Tells how many help. */
ls_status ls_serving_assist(struct ls_runtime *runtime);
/* The runtime of a parameter server works alone, and has this beside it: a thread that joins the cluster and serves
 * until the workers have finished. Takes cluster, also where it fails. */
struct ls_serving;
ls_status ls_serving_start(struct ls_runtime *runtime, struct ls_cluster *cluster, struct ls_serving **server);
/* Waits for its end. LS_OK: the workers have finished in order. CANCELLED: they have stopped in order, as one asked, or
 * this server was stopped. Any number of times, any thread. */
ls_status ls_serving_wait(struct ls_serving *server);
/* Ends it, from any thread: a wait returns CANCELLED, unless the workers have finished. Returns when its thread is done
 * with them. */
void ls_serving_stop(struct ls_serving *server);
/* This process was asked to stop, at a time: it serves until its workers have left, for the stop_grace of the settings
 * at most. It ends at once while it first waits for them, and after LS_STOP_TIMEOUT without any. By one thread, again
 * and again. */
void ls_serving_retire(struct ls_serving *server, int64_t since);
/* Stops it and frees; NULL is ignored. */
void ls_serving_free(struct ls_serving *server);

/* The word to the service manager that has started this process (systemd's sd_notify(3)): a datagram to NOTIFY_SOCKET.
 */

struct ls_service_notify;
/* *notify is NULL where no manager listens. With WATCHDOG_USEC a thread says twice in that time that the process runs.
 * A socket that cannot be reached is no error: the manager sees that nothing comes. */
ls_status ls_service_notify_new(struct ls_service_notify **notify);
/* Says that the worker has joined (READY), and what it does, in a line. */
void ls_service_notify_ready(struct ls_service_notify *notify, const char *text);
/* Says what it does. notify may be NULL, here as above. */
void ls_service_notify_status(struct ls_service_notify *notify, const char *text);
/* Says that it stops. */
void ls_service_notify_free(struct ls_service_notify *notify);
