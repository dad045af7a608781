/* The monitored number of callbacks that wait for a better one, and the meaning of better. */
#pragma once
#include <lockstep/lockstep.h>

struct ls_monitored {
    char *name; /* owns */
    bool greater;
    double min_delta;
};
/* A NULL name means "val_loss". Messages name who. */
ls_status ls_monitored_new(const char *who, const char *name, ls_monitor_mode mode, double min_delta,
                           struct ls_monitored *monitor);
/* Writes ls_callback.alike: "monitor=val_loss, greater=0, min_delta=0, " and what format says. Cut where it is longer.
 */
enum { LS_MONITORED_ALIKE = 256 };
void ls_monitored_describe(const struct ls_monitored *monitor, char alike[LS_MONITORED_ALIKE], const char *format, ...)
    __attribute__((format(printf, 3, 4)));
void ls_monitored_free(struct ls_monitored *monitor);
/* INVALID_ARGUMENT where the call does not have the number, saying what it has. */
ls_status ls_monitored_read(const struct ls_monitored *monitor, const ls_callback_call *call, double *value);
/* The same before the first epoch, by the names that it will have. */
ls_status ls_monitored_check(const struct ls_monitored *monitor, const ls_callback_call *call);
/* NaN is never better. */
bool ls_monitored_improves(const struct ls_monitored *monitor, double value, double best);
double ls_monitored_worst(const struct ls_monitored *monitor);
