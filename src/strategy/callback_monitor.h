/* What callbacks that wait for a better number share: which one, and what better is. */
#pragma once
#include <lockstep/lockstep.h>

struct ls_monitor {
    char *name; /* owns */
    bool greater;
    double min_delta;
};
/* name NULL: "val_loss". who is for messages. */
ls_status ls_monitor_new(const char *who, const char *name, ls_monitor_mode mode, double min_delta,
                         struct ls_monitor *monitor);
void ls_monitor_free(struct ls_monitor *monitor);
/* INVALID_ARGUMENT where the call does not have the number, saying what it has. */
ls_status ls_monitor_read(const struct ls_monitor *monitor, const ls_callback_call *call, double *value);
/* NaN is never better. */
bool ls_monitor_improves(const struct ls_monitor *monitor, double value, double best);
double ls_monitor_worst(const struct ls_monitor *monitor);
