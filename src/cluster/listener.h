/* The task's one port: accepts connections, looks at their first bytes and hands them on. Until it is told that a
 * control connection is a worker's, it keeps an eye on it: strangers are few at a time, and not for long. */
#pragma once
#include <lockstep/lockstep.h>

#include "cluster/preface.h"
#include "cluster/refusals.h"

struct ls_listener;
/* All are called by the listener's thread and take fd. */
struct ls_listener_config {
    const int *listening; /* [listening_count]; taken, also on failure */
    int listening_count;
    struct ls_refusals *refusals; /* borrowed */
    void *context;
    void (*control)(void *context, int fd);                                /* HTTP/2; no byte was read */
    void (*data)(void *context, int fd, const struct ls_preface *preface); /* the preface was read */
    void (*probe)(void *context, int fd);                                  /* the request was read */
};
ls_status ls_listener_new(const struct ls_listener_config *config, struct ls_listener **listener);
/* The control connection that was handed on as fd is a worker's. From any thread; does not wait. */
void ls_listener_trust(struct ls_listener *listener, int fd);
/* Closes the port and every connection that was not handed on. */
void ls_listener_free(struct ls_listener *listener);
