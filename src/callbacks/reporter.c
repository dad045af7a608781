/* The thread sends, all others only exchange texts with it. It cannot be stopped while a server's name is looked up, so
 * it is left behind where it takes too long, and owns the reporter from then on. */
#include "callbacks/reporter.h"

#include <stdlib.h>
#include <string.h>

#include "base/clock.h"
#include "base/http_post.h"
#include "base/kept_error.h"
#include "base/monitor.h"
#include "base/new.h"
#include "base/read_file.h"
#include "base/thread.h"

#define TOKEN_MOST 8000 /* bytes */

struct ls_reporter {
    char *url, *authority, *token_file; /* own; the last two may be NULL */
    pthread_t thread;
    struct ls_monitor monitor; /* guards what follows */
    char *next;                /* owns: the newest report, until it is on its way */
    bool sending, ending;      /* one is on its way; no more come */
    bool ended, left;          /* the thread ends; it frees all this */
    struct ls_kept_error last; /* result of sending */
};

static void release_texts(struct ls_reporter *reporter) {
    ls_free(reporter->url);
    ls_free(reporter->authority);
    ls_free(reporter->token_file);
    free(reporter->next);
    ls_free(reporter);
}

static void release_reporter(struct ls_reporter *reporter) {
    ls_monitor_destroy(&reporter->monitor);
    release_texts(reporter);
}

/* The token's file is read each time, for Kubernetes writes a new token into it. */
static ls_status send_report(const struct ls_reporter *reporter, const char *body) {
    LS_CLEANUP(ls_free_pointer) char *token = NULL;
    size_t size;
    ls_status status = LS_OK;
    if (reporter->token_file)
        status = ls_read_file_given("token_file", reporter->token_file, TOKEN_MOST, &token, &size);
    if (token) token[strcspn(token, "\r\n")] = '\0';
    const struct ls_http_post post = {reporter->url, reporter->authority, token, "application/json", body};
    return status ? status : ls_http_post_send(&post);
}

static void *send_reports(void *argument) {
    struct ls_reporter *reporter = argument;
    ls_monitor_lock(&reporter->monitor);
    while (reporter->next || !reporter->ending) {
        char *body = ls_steal(reporter->next);
        reporter->sending = body != NULL;
        ls_monitor_broadcast(&reporter->monitor);
        if (!body) {
            (void)ls_monitor_wait(&reporter->monitor, LS_NEVER);
            continue;
        }
        ls_monitor_unlock(&reporter->monitor);
        ls_status status = send_report(reporter, body);
        free(body);
        ls_monitor_lock(&reporter->monitor);
        ls_kept_error_set(&reporter->last, status);
    }
    bool left = reporter->left;
    reporter->ended = true;
    ls_monitor_broadcast(&reporter->monitor);
    ls_monitor_unlock(&reporter->monitor);
    if (left) release_reporter(reporter);
    return NULL;
}

/* NULL stays NULL; false without memory. */
static bool copy_text(const char *text, char **copy) {
    return !text || (*copy = ls_strdup(text));
}

ls_status ls_reporter_new(const char *url, const char *authority, const char *token_file,
                          struct ls_reporter **reporter) {
    LS_NEW(struct ls_reporter, made, "a reporter");
    bool memory = copy_text(url, &made->url) && copy_text(authority, &made->authority) &&
                  copy_text(token_file, &made->token_file);
    ls_status status = memory ? ls_monitor_init(&made->monitor) : ls_fail_memory("a reporter", strlen(url));
    if (status) {
        release_texts(made);
        return status;
    }
    status = ls_thread_start(&made->thread, "ls-reporter", send_reports, made);
    return LS_HAND_OVER(status, reporter, made, release_reporter(made));
}

void ls_reporter_give(struct ls_reporter *reporter, char *body) {
    ls_monitor_lock(&reporter->monitor);
    free(reporter->next);
    reporter->next = body;
    ls_monitor_broadcast(&reporter->monitor);
    ls_monitor_unlock(&reporter->monitor);
}

ls_status ls_reporter_look(struct ls_reporter *reporter) {
    ls_monitor_lock(&reporter->monitor);
    ls_status status = ls_kept_error_raise(&reporter->last);
    ls_monitor_unlock(&reporter->monitor);
    return status;
}

ls_status ls_reporter_end(struct ls_reporter *reporter, int64_t deadline) {
    pthread_t thread = reporter->thread;
    ls_monitor_lock(&reporter->monitor);
    reporter->ending = true;
    ls_monitor_broadcast(&reporter->monitor);
    while (!reporter->ended && ls_monitor_wait(&reporter->monitor, reporter->sending ? deadline : LS_NEVER)) continue;
    bool left = reporter->left = !reporter->ended;
    ls_status status = left ? ls_fail(LS_DEADLINE_EXCEEDED, "POST %.300s: it takes too long", reporter->url)
                            : ls_kept_error_raise(&reporter->last);
    if (left) free(ls_steal(reporter->next));
    ls_monitor_unlock(&reporter->monitor);
    if (left) {
        (void)pthread_detach(thread);
        return status;
    }
    (void)pthread_join(thread, NULL);
    release_reporter(reporter);
    return status;
}
