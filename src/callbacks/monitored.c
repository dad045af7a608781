/* As Keras' callbacks compare: a change below min_delta is no improvement. */
#include "callbacks/monitored.h"

#include <math.h>
#include <stdio.h>
#include <string.h>

#include "base/memory.h"
#include "base/status.h"
#include "base/plain.h"

ls_status ls_monitored_new(const char *who, const char *name, ls_monitor_mode mode, double min_delta,
                           struct ls_monitored *monitor) {
    const char *chosen = name ? name : "val_loss";
    if (mode != LS_MONITOR_AUTO && mode != LS_MONITOR_MIN && mode != LS_MONITOR_MAX)
        return ls_fail(LS_INVALID_ARGUMENT, "%s: mode %d is no ls_monitor_mode", who, (int)mode);
    if (!(min_delta >= 0) || isinf(min_delta))
        return ls_fail(LS_INVALID_ARGUMENT, "%s: min_delta %g must not be negative", who, min_delta);
    bool greater = mode == LS_MONITOR_MAX || (mode == LS_MONITOR_AUTO && strstr(chosen, "acc"));
    *monitor = (struct ls_monitored){ls_strdup(chosen), greater, min_delta};
    return monitor->name ? LS_OK : ls_fail_memory("a name", strlen(chosen));
}

void ls_monitored_describe(const struct ls_monitored *monitor, char alike[LS_MONITORED_ALIKE], const char *format,
                           ...) {
    int used = ls_plain_text(alike, LS_MONITORED_ALIKE, "monitor=%.64s, greater=%d, min_delta=%g, ", monitor->name,
                             monitor->greater, monitor->min_delta);
    (void)LS_PLAIN_ARGUMENTS(alike + used, LS_MONITORED_ALIKE - (size_t)used, format);
}

void ls_monitored_free(struct ls_monitored *monitor) {
    ls_free(monitor->name);
}

ls_status ls_monitored_read(const struct ls_monitored *monitor, const ls_callback_call *call, double *value) {
    char names[512] = "";
    if (ls_callback_value(call, monitor->name, value)) return LS_OK;
    for (size_t i = 0; i < call->log_count; i++)
        (void)snprintf(names + strlen(names), sizeof(names) - strlen(names), "%s%s", i ? ", " : "", call->logs[i].name);
    return ls_fail(LS_INVALID_ARGUMENT, "there is no number '%s' to monitor; there is %s", monitor->name, names);
}

ls_status ls_monitored_check(const struct ls_monitored *monitor, const ls_callback_call *call) {
    double value;
    return ls_monitored_read(monitor, call, &value);
}

bool ls_monitored_improves(const struct ls_monitored *monitor, double value, double best) {
    return monitor->greater ? value - monitor->min_delta > best : value + monitor->min_delta < best;
}

double ls_monitored_worst(const struct ls_monitored *monitor) {
    return monitor->greater ? -INFINITY : INFINITY;
}
