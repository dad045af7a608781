/* The task's one port: accepts connections, looks at their first bytes and hands them on. */
#pragma once
#include <lockstep/lockstep.h>

#include "cluster/preface.h"

struct ls_listener;
/* All are called by the listener's thread and take fd. */
struct ls_listener_config {
    const int *listening; /* [listening_count]; taken, also on failure */
    int listening_count;
    void *context;
    void (*control)(void *context, int fd);                                /* HTTP/2; no byte was read */
    void (*data)(void *context, int fd, const struct ls_preface *preface); /* the preface was read */
    void (*probe)(void *context, int fd);                                  /* the request was read */
};
ls_status ls_listener_new(const struct ls_listener_config *config, struct ls_listener **listener);
/* Closes the port and every connection that was not handed on. */
void ls_listener_free(struct ls_listener *listener);
