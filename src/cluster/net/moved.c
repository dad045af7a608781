/* A launcher that moves workers, or starts them later, gives all the same TF_CONFIG for as long as the group lives. It
 * keeps a file on each host, a row a worker that it has ever started: its rank, a blank, its address now. A row counts
 * before TF_CONFIG. There, a worker that is not started yet has a host that ends in ".invalid", a name that leads
 * nowhere (RFC 6761). The file is read anew while somebody is dialled. It is replaced as a whole; one that cannot be
 * read leaves what was read before. */
#include "cluster/net/moved.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/clock.h"
#include "base/new.h"
#include "base/read_file.h"
#include "resolver/tf_config.h"

#define READ_PAUSE (200 * LS_MILLISECOND)
#define FILE_MOST  (512 << 10)

static const char *path_of(const struct ls_moved *moved) {
    return moved->settings->addresses;
}

static void release_rows(struct ls_moved_task *rows, int count) {
    for (int i = 0; rows && i < count; i++) ls_free(rows[i].host);
    ls_free(rows);
}

void ls_moved_release(struct ls_moved *moved) {
    release_rows(ls_steal(moved->at), moved->size);
}

/* One row, without its end. */
static ls_status read_row(const struct ls_moved *moved, char *line, int number, struct ls_moved_task *rows) {
    char *address, key[320], *host = NULL;
    int port;
    long rank = strtol(line, &address, 10);
    (void)snprintf(key, sizeof(key), "line %d of LOCKSTEP_ADDRESSES '%.250s'", number, path_of(moved));
    if (address == line || *address != ' ' || rank < 0 || rank >= moved->size)
        return ls_fail(LS_INVALID_ARGUMENT, "%s: '%.80s' is not RANK HOST:PORT, with a rank from 0 to %d", key, line,
                       moved->size - 1);
    ls_status status = ls_tf_config_address_parse(key, address + 1, &host, &port);
    if (status) return status;
    ls_free(rows[rank].host);
    rows[rank] = (struct ls_moved_task){host, port};
    return LS_OK;
}

static ls_status read_rows(const struct ls_moved *moved, char *text, struct ls_moved_task **made) {
    LS_NEW_ARRAY(struct ls_moved_task, rows, (size_t)moved->size, "addresses");
    ls_status status = LS_OK;
    int number = 0;
    for (char *rest = text, *line; !status && (line = strsep(&rest, "\n"));)
        if (number++, *line) status = read_row(moved, line, number, rows);
    return LS_HAND_OVER(status, made, rows, release_rows(rows, moved->size));
}

static ls_status read_places(const struct ls_moved *moved, struct ls_moved_task **made) {
    LS_CLEANUP(ls_free_pointer) char *text = NULL;
    size_t size;
    ls_status status = ls_read_file_given("LOCKSTEP_ADDRESSES", path_of(moved), FILE_MOST, &text, &size);
    return status ? status : read_rows(moved, text, made);
}

ls_status ls_moved_open(struct ls_moved *moved) {
    return *path_of(moved) ? read_places(moved, &moved->at) : LS_OK;
}

static void refresh(struct ls_moved *moved) {
    struct ls_moved_task *rows;
    if (!moved->at || ls_now() < moved->read_at) return;
    moved->read_at = ls_now() + READ_PAUSE;
    if (read_places(moved, &rows)) return;
    ls_moved_release(moved);
    moved->at = rows;
}

bool ls_moved_place(const struct ls_moved *moved, int rank, const char **host, int *port) {
    const struct ls_moved_task *row = moved->at ? &moved->at[rank] : NULL;
    const struct ls_task *task = ls_cluster_view_member(moved->tf_config, rank);
    bool has = row && row->host;
    *host = has ? row->host : task->host;
    *port = has ? row->port : task->port;
    return has || !moved->at || !ls_tf_config_address_is_nowhere(task->host);
}

int ls_moved_dial(struct ls_moved *moved, int rank, struct ls_dial *dial) {
    const char *host;
    int port;
    if (!dial->resolve) refresh(moved);
    bool somewhere = ls_moved_place(moved, rank, &host, &port);
    if (somewhere || dial->resolve) return ls_dial_step(dial, host, port);
    if (ls_now() >= dial->retry_at) ls_dial_fail(dial, "it is not started yet");
    return -1;
}
