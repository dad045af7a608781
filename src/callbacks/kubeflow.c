/* Tells Kubeflow Trainer's status server how far the training is (KEP-2779): kubectl shows it in the TrainJob. Steps do
 * not wait for the server, and a server that fails is told the next status all the same. */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

#include "base/deadlines.h"
#include "base/json.h"
#include "base/need.h"
#include "base/new.h"
#include "base/options.h"
#include "base/http_post.h"
#include "base/text.h"
#include "callbacks/reporter.h"
#include "train/model.h"
#include "base/plain.h"

#define INTERVAL 10.0 /* seconds: the server wants 5 or more */

struct kubeflow {
    ls_callback callback;
    char *url, *authority, *token_file; /* the last two may be NULL */
    double interval;
    struct ls_reporter *reporter; /* owns; NULL before the first status of a fit */
    bool failing;                 /* and that has been said */
    int64_t began, told;          /* times; told 0: not yet */
    int64_t first;                /* steps that were done when it began */
};

static int64_t steps_done(const ls_callback_call *call) {
    return call->epoch * call->steps + call->step;
}

/* A step has been told by each number as a text. Numbers that are not finite are left out. */
static void print_metrics(FILE *out, const ls_callback_call *call) {
    bool first = true;
    for (size_t i = 0; i < call->log_count; i++) {
        double value = call->logs[i].value;
        if (value - value != 0) continue;
        ls_json_print(out, "%-s{'name': %s, 'value': '%.9g'}", first ? "" : ", ", call->logs[i].name, value);
        first = false;
    }
}

static void print_status(FILE *out, const struct kubeflow *kubeflow, const ls_callback_call *call, int64_t done) {
    int64_t all = call->epochs * call->steps, here = done - kubeflow->first;
    double seconds = ls_seconds_since(kubeflow->began);
    char now[32] = "";
    time_t clock = time(NULL);
    struct tm utc;
    if (gmtime_r(&clock, &utc)) (void)strftime(now, sizeof(now), "%Y-%m-%dT%H:%M:%SZ", &utc);
    (void)fprintf(out, "{\"trainerStatus\": {\"progressPercentage\": %d", all > 0 ? (int)(100 * done / all) : 100);
    if (here > 0)
        (void)ls_plain_print(out, ", \"estimatedRemainingSeconds\": %.0f",
                             seconds / (double)here * (double)(all - done));
    (void)fprintf(out, ", \"lastUpdatedTime\": \"%s\", \"metrics\": [", now);
    print_metrics(out, call);
    (void)fprintf(out, "]}}");
}

/* The status is on its way afterwards. */
static ls_status tell_status(struct kubeflow *kubeflow, const ls_callback_call *call, int64_t done) {
    char *body = NULL;
    ls_status status = LS_OK;
    kubeflow->told = ls_now();
    if (!kubeflow->reporter)
        status = ls_reporter_new(kubeflow->url, kubeflow->authority, kubeflow->token_file, &kubeflow->reporter);
    if (!status) status = LS_TEXT(out, print_status(out, kubeflow, call, done), "a status", &body);
    if (!status) ls_reporter_give(kubeflow->reporter, body);
    return status;
}

/* Says the first failure and the end of failures. */
static void note_outcome(struct kubeflow *kubeflow, const ls_callback_call *call, ls_status status) {
    const struct ls_log *log = &call->model->strategy->runtime->log;
    if (status && !kubeflow->failing)
        ls_log_warning(log, "kubeflow: %s; training goes on, and the next status is told all the same", ls_error());
    if (!status && kubeflow->failing) ls_log_info(log, "kubeflow: %s takes the status again", kubeflow->url);
    kubeflow->failing = status != LS_OK;
}

/* Stops the thread; the newest status is on its way till the deadline at the latest. */
static ls_status end_reporter(struct kubeflow *kubeflow, int64_t deadline) {
    struct ls_reporter *reporter = ls_steal(kubeflow->reporter);
    return reporter ? ls_reporter_end(reporter, deadline) : LS_OK;
}

static ls_status begin_kubeflow(void *context, const ls_callback_call *call) {
    struct kubeflow *kubeflow = context;
    (void)end_reporter(kubeflow, ls_now()); /* of a fit that failed */
    kubeflow->began = ls_now();
    kubeflow->first = steps_done(call);
    kubeflow->told = 0;
    return LS_OK;
}

static ls_status step_kubeflow(void *context, const ls_callback_call *call) {
    struct kubeflow *kubeflow = context;
    if (!call->writes) return LS_OK;
    if (kubeflow->reporter) note_outcome(kubeflow, call, ls_reporter_look(kubeflow->reporter));
    if (kubeflow->told && ls_seconds_since(kubeflow->told) < kubeflow->interval) return LS_OK;
    ls_status status = tell_status(kubeflow, call, steps_done(call));
    if (status) note_outcome(kubeflow, call, status);
    return LS_OK;
}

/* Also where early stopping has ended it. */
static ls_status end_kubeflow(void *context, const ls_callback_call *call) {
    struct kubeflow *kubeflow = context;
    ls_status status = call->writes ? tell_status(kubeflow, call, call->epochs * call->steps) : LS_OK;
    ls_status sent = end_reporter(kubeflow, call->writes ? ls_now() + LS_LAST_POST_TIMEOUT : ls_now());
    if (call->writes) note_outcome(kubeflow, call, status ? status : sent);
    return LS_OK;
}

static void release_kubeflow(void *context) {
    struct kubeflow *kubeflow = context;
    (void)end_reporter(kubeflow, ls_now());
    ls_free(kubeflow->url);
    ls_free(kubeflow->authority);
    ls_free(kubeflow->token_file);
    ls_free(kubeflow);
}

/* NULL where neither says anything. */
static ls_status copy_option(const char *option, const char *variable, char **copy) {
    const char *text = option ? option : getenv(variable);
    if (!text || !*text) return LS_OK;
    *copy = ls_strdup(text);
    return *copy ? LS_OK : ls_fail_memory(variable, strlen(text));
}

static ls_status copy_options(struct kubeflow *kubeflow, const ls_kubeflow_options *options) {
    ls_kubeflow_options own;
    ls_status status = ls_options_copy("ls_kubeflow_options", &own, sizeof(own), options);
    if (!status) status = copy_option(own.url, "KUBEFLOW_TRAINER_SERVER_URL", &kubeflow->url);
    if (!status) status = copy_option(own.authority, "KUBEFLOW_TRAINER_SERVER_CA_CERT", &kubeflow->authority);
    if (!status) status = copy_option(own.token_file, "KUBEFLOW_TRAINER_SERVER_TOKEN", &kubeflow->token_file);
    if (!status && !kubeflow->url)
        status = ls_fail(LS_INVALID_ARGUMENT, "kubeflow: url is missing, and KUBEFLOW_TRAINER_SERVER_URL is not set");
    if (!status) status = ls_http_post_check(kubeflow->url);
    if (!status && !(own.interval >= 0))
        status = ls_fail(LS_INVALID_ARGUMENT, "kubeflow: interval is %g s: 0 or more are needed", own.interval);
    if (!status) kubeflow->interval = own.interval > 0 ? own.interval : INTERVAL;
    return status;
}

ls_status ls_kubeflow_new(const ls_kubeflow_options *options, ls_callback **callback) {
    LS_NEED(callback);
    LS_NEW(struct kubeflow, made, "a callback");
    ls_status status = copy_options(made, options);
    made->callback =
        LS_CALLBACK(.name = "kubeflow", .context = made, .on_train_begin = begin_kubeflow,
                    .on_train_batch_end = step_kubeflow, .on_train_end = end_kubeflow, .release = release_kubeflow);
    return LS_HAND_OVER(status, callback, &made->callback, release_kubeflow(made));
}
