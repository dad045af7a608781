/* Numbers of what a worker does, for Prometheus: OpenMetrics, or the text format 0.0.4 that older readers take. */
#pragma once
#include <stdbool.h>
#include <stdint.h>
#include <stdio.h>

#include "base/activity.h"

#define LS_METRICS_OPEN "application/openmetrics-text" /* what a reader asks for by Accept */

struct ls_metrics_facts {
    const struct ls_activity *activity;
    const char *task; /* "worker:1"; "" without a cluster */
    bool ready;
    bool open;   /* OpenMetrics, and not the text format */
    int64_t now; /* of ls_now */
};
/* The content type of the text. */
const char *ls_metrics_type(bool open);
void ls_metrics_print(FILE *out, const struct ls_metrics_facts *facts);
