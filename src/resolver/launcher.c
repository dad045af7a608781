/* The steps that the readers of launchers' variables share. */
#include "resolver/launcher.h"

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/memory.h"
#include "base/random.h"
#include "base/status.h"

#define FIRST_PORT 61440
#define PORTS      4096
#define MOST_TASKS 1000000

void ls_launcher_release(struct ls_launcher *launch) {
    for (int i = 0; launch->places && i < launch->size; i++) ls_free(launch->places[i].host);
    ls_free(launch->places);
    *launch = (struct ls_launcher){0};
}

const char *ls_launcher_variable(const char *name) {
    const char *text = getenv(name);
    return text && *text ? text : NULL;
}

ls_status ls_launcher_number(const char *name, int least, int most, int *value) {
    const char *text = ls_launcher_variable(name);
    char *end = NULL;
    errno = 0;
    long number = text && strspn(text, "0123456789") ? strtol(text, &end, 10) : -1;
    if (!end || *end || errno || number < least || number > most)
        return ls_fail(LS_INVALID_ARGUMENT, "%s='%.80s' is no number from %d to %d", name, text ? text : "", least,
                       most);
    *value = (int)number;
    return LS_OK;
}

ls_status ls_launcher_all_here(const struct ls_launcher *launch, const char *local_size, bool *here) {
    int local = 0;
    if (!ls_launcher_variable(local_size)) return LS_OK;
    ls_status status = ls_launcher_number(local_size, 1, launch->size, &local);
    *here = local == launch->size;
    return status;
}

ls_status ls_launcher_count(struct ls_launcher *launch, const char *rank, const char *size) {
    bool has_rank = ls_launcher_variable(rank), has_size = ls_launcher_variable(size);
    int own, all;
    if (!has_rank && !has_size) return LS_OK;
    if (has_rank != has_size)
        return ls_fail(LS_INVALID_ARGUMENT, "%s is set and %s is not: set both, or neither", has_rank ? rank : size,
                       has_rank ? size : rank);
    ls_status status = ls_launcher_number(size, 1, MOST_TASKS, &all);
    if (!status) status = ls_launcher_number(rank, 0, all - 1, &own);
    if (status) return status;
    launch->rank = own;
    launch->size = all;
    (void)snprintf(launch->says, sizeof(launch->says), "%s=%d of %s=%d", rank, own, size, all);
    return LS_OK;
}

ls_status ls_launcher_put(struct ls_launcher *launch, int rank, const char *host, int port) {
    if (!launch->places) launch->places = ls_alloc_array((size_t)launch->size, sizeof(*launch->places));
    char *copy = launch->places ? ls_strdup(host) : NULL;
    if (!copy) return ls_fail_memory("the places of a launch", (size_t)launch->size * sizeof(*launch->places));
    ls_free(launch->places[rank].host);
    launch->places[rank] = (struct ls_launcher_place){copy, port};
    return LS_OK;
}

int ls_launcher_port(uint64_t job, int index) {
    return FIRST_PORT + (int)((job % PORTS + (uint64_t)index) % PORTS);
}

void ls_launcher_meet(struct ls_launcher *launch, const char *host, int port, const char *job) {
    (void)snprintf(launch->meet_host, sizeof(launch->meet_host), "%s", host);
    (void)snprintf(launch->job, sizeof(launch->job), "%s", job);
    launch->meet_port = port ? port : ls_launcher_port(ls_random_stream(job), 0);
}

ls_status ls_launcher_put_local(struct ls_launcher *launch, const char *job) {
    ls_status status = LS_OK;
    uint64_t number = ls_random_stream(job);
    for (int i = 0; i < launch->size && !status; i++)
        status = ls_launcher_put(launch, i, "127.0.0.1", ls_launcher_port(number, i));
    return status;
}

ls_status ls_launcher_put_numbered(struct ls_launcher *launch, const char *variable, const char *name, int port) {
    size_t end = strcspn(name, "."), begin = end;
    char host[600];
    ls_status status = LS_OK;
    while (begin && name[begin - 1] >= '0' && name[begin - 1] <= '9') begin--;
    if (begin == end || !begin || name[begin - 1] != '-' || strlen(name) > 500)
        return ls_fail(LS_INVALID_ARGUMENT,
                       "%s='%.200s' does not end in '-' and a number before the first dot, so the names of the others "
                       "cannot be made of it: give TF_CONFIG",
                       variable, name);
    for (int i = 0; i < launch->size && !status; i++) {
        (void)snprintf(host, sizeof(host), "%.*s%d%s", (int)begin, name, i, name + end);
        status = ls_launcher_put(launch, i, host, port);
    }
    return status;
}
