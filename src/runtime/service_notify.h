/* The word to the service manager that has started this process (systemd's sd_notify(3)): a datagram to NOTIFY_SOCKET.
 */
#pragma once
#include <lockstep/lockstep.h>

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
