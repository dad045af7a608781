/* OpenMetrics text for Prometheus, of what a worker does. */
#pragma once
#include <stdbool.h>
#include <stdint.h>
#include <stdio.h>

#include "base/activity.h"

#define LS_METRICS_TYPE "application/openmetrics-text; version=1.0.0; charset=utf-8"

struct ls_metrics_facts {
    const struct ls_activity *activity;
    const char *task; /* "worker:1"; "" without a cluster */
    bool ready;
    int64_t now; /* of ls_now */
};
void ls_metrics_print(FILE *out, const struct ls_metrics_facts *facts);
