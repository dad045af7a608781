/* A detached thread ("ls-resolve") runs getaddrinfo, which has no deadline and cannot be cancelled. The request counts
 * its owners: the caller and the thread. The last of the two to release it frees it, so that giving up never waits for
 * the resolver. `done` is stored after `list` and `why`, so a caller that sees it may read both. */
#include "cluster/net/name_lookup.h"

#include <stdatomic.h>
#include <stdio.h>
#include <string.h>
#include <sys/socket.h>

#include "base/new.h"
#include "base/thread.h"

struct ls_name_lookup {
    atomic_int owners;
    atomic_bool done;
    char *host, port[12], why[160];
    struct addrinfo *list;
};

static void release_name_lookup(struct ls_name_lookup *resolve) {
    if (atomic_fetch_sub(&resolve->owners, 1) != 1) return;
    if (resolve->list) freeaddrinfo(resolve->list);
    ls_free(resolve->host);
    ls_free(resolve);
}

static int look_up(struct ls_name_lookup *resolve, int flags) {
    struct addrinfo hints = {.ai_family = AF_UNSPEC, .ai_socktype = SOCK_STREAM, .ai_flags = flags | AI_NUMERICSERV};
    return getaddrinfo(resolve->host, resolve->port, &hints, &resolve->list);
}

static void *resolve_name(void *argument) {
    struct ls_name_lookup *resolve = argument;
    int error = look_up(resolve, 0);
    if (error) {
        resolve->list = NULL;
        (void)snprintf(resolve->why, sizeof(resolve->why), LS_NAME_NOT_FOUND " (%s)", gai_strerror(error));
    }
    atomic_store(&resolve->done, true);
    release_name_lookup(resolve);
    return NULL;
}

static ls_status resolve_in_thread(struct ls_name_lookup *resolve) {
    pthread_t thread;
    atomic_store(&resolve->owners, 2);
    ls_status status = ls_thread_start(&thread, "ls-resolve", resolve_name, resolve);
    if (status)
        atomic_store(&resolve->owners, 1);
    else
        (void)pthread_detach(thread);
    return status;
}

ls_status ls_name_lookup_start(const char *host, int port, struct ls_name_lookup **made) {
    LS_NEW(struct ls_name_lookup, resolve, "a name to resolve");
    resolve->host = ls_strdup(host);
    atomic_store(&resolve->owners, 1);
    (void)snprintf(resolve->port, sizeof(resolve->port), "%d", port);
    ls_status status = LS_OK;
    if (!resolve->host)
        status = ls_fail_memory("a name to resolve", strlen(host));
    else if (look_up(resolve, AI_NUMERICHOST) == 0)
        atomic_store(&resolve->done, true);
    else
        status = resolve_in_thread(resolve);
    return LS_HAND_OVER(status, made, resolve, release_name_lookup(resolve));
}

bool ls_name_lookup_done(struct ls_name_lookup *resolve, const struct addrinfo **list, const char **why) {
    if (!atomic_load(&resolve->done)) return false;
    *list = resolve->list;
    *why = resolve->why;
    return true;
}

void ls_name_lookup_free(struct ls_name_lookup *resolve) {
    if (resolve) release_name_lookup(resolve);
}
