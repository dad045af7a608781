/* A record in memory: its decisions in order, and how many reads each version still waits for. */
#include "store/session/session_record.h"

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/new.h"
#include "base/read_file.h"
#include "store/session/tickets.h"
#include "base/plain.h"

struct decision {
    int64_t ticket;
    float factor;
    int64_t next; /* that reads the first server at the same version; -1: none */
};
struct ls_session_replay {
    int64_t begin, count, filled;
    int servers;
    struct decision *decisions; /* [count] in their order */
    int64_t *versions;          /* [count][servers] */
    int64_t *missing;           /* [count + 1] by version: reads that are still to come */
    int64_t *places;            /* [count] of each ticket among the decisions */
    int64_t *first;             /* [count] by version: the decision whose ticket is given next there; -1: none */
};

void ls_session_replay_free(struct ls_session_replay *replay) {
    if (!replay) return;
    ls_free(replay->decisions);
    ls_free(replay->versions);
    ls_free(replay->missing);
    ls_free(replay->places);
    ls_free(replay->first);
    ls_free(replay);
}

static ls_status make_replay(const struct ls_session *session, int servers, struct ls_session_replay **replay) {
    size_t count = (size_t)session->tickets;
    LS_NEW(struct ls_session_replay, made, "a replay");
    *made = (struct ls_session_replay){.begin = session->begin, .count = session->tickets, .servers = servers};
    made->decisions = ls_alloc_array(count, sizeof(*made->decisions));
    made->versions = ls_alloc_array(count * (size_t)servers, sizeof(*made->versions));
    made->missing = ls_alloc_array(count + 1, sizeof(*made->missing));
    made->places = ls_alloc_array(count, sizeof(*made->places));
    made->first = ls_alloc_array(count, sizeof(*made->first));
    if (!made->decisions || !made->versions || !made->missing || !made->places || !made->first) {
        ls_session_replay_free(made);
        return ls_fail_memory("a replay", count * (size_t)servers * sizeof(*made->versions));
    }
    for (size_t i = 0; i < count; i++) made->places[i] = made->first[i] = -1;
    *replay = made;
    return LS_OK;
}

static bool read_integer(char **at, int64_t *number) {
    char *end;
    errno = 0;
    *number = strtoll(*at, &end, 10);
    bool read = end != *at && !errno;
    *at = end;
    return read;
}

/* A decision with versions that can be: read before it, and after the session's begin. */
static bool read_decision(struct ls_session_replay *replay, char *line) {
    int64_t ticket, place = replay->filled;
    char *end;
    if (place == replay->count || !read_integer(&line, &ticket) || ticket < 0 || ticket >= replay->count ||
        replay->places[ticket] >= 0)
        return false;
    float factor = (float)ls_plain_number(line, &end);
    bool good = end != line && factor >= 0 && factor <= 1;
    line = end;
    for (int s = 0; s < replay->servers && good; s++) {
        int64_t *version = &replay->versions[place * replay->servers + s];
        good = read_integer(&line, version) && *version >= replay->begin && *version <= replay->begin + place;
        if (good) replay->missing[*version - replay->begin]++;
    }
    if (!good || (*line && *line != '\n')) return false;
    replay->decisions[place] = (struct decision){ticket, factor, -1};
    replay->places[ticket] = replay->filled++;
    return true;
}

/* Forgets what the servers that went on did not have. */
static bool go_back(struct ls_session_replay *replay, int64_t version) {
    if (version < replay->begin || version > replay->begin + replay->filled) return false;
    int64_t count = version - replay->begin;
    while (replay->filled > count) {
        int64_t place = --replay->filled;
        replay->places[replay->decisions[place].ticket] = -1;
        for (int s = 0; s < replay->servers; s++)
            replay->missing[replay->versions[place * replay->servers + s] - replay->begin]--;
    }
    return true;
}

/* *ours: it opens the session. */
static ls_status read_head(const char *path, const char *line, const struct ls_session *session, int servers,
                           int workers, struct ls_session_replay *replay, bool *ours) {
    long long begin, tickets, version;
    int of_servers, of_workers;
    bool read = sscanf(line, "session %lld %lld %d %d %lld", &begin, &tickets, &of_servers, &of_workers, &version) == 5;
    *ours = read && begin == session->begin;
    if (!read || (*ours && !go_back(replay, version)))
        return ls_fail(LS_DATA_LOSS, "LOCKSTEP_REPLAY='%.200s': '%.60s' opens no session", path, line);
    if (!*ours || (tickets == session->tickets && of_servers == servers && of_workers <= workers)) return LS_OK;
    return ls_fail(
        LS_FAILED_PRECONDITION,
        "LOCKSTEP_REPLAY='%.200s': its session after step %lld has %lld batches of %d workers on %d parameter "
        "servers, and this one has %lld of %d on %d: take as many batches and servers, and no fewer workers",
        path, begin, tickets, of_workers, of_servers, (long long)session->tickets, workers, servers);
}

static ls_status read_file(FILE *file, const char *path, const struct ls_session *session, int servers, int workers,
                           struct ls_session_replay *replay) {
    size_t size = 128 + 24 * (size_t)servers;
    bool ours = false;
    ls_status status = LS_OK;
    LS_CLEANUP(ls_free_pointer) LS_NEW_ARRAY(char, line, size, "a line");
    while (!status && fgets(line, (int)size, file)) {
        if (*line == 's')
            status = read_head(path, line, session, servers, workers, replay, &ours);
        else if (ours && !read_decision(replay, line))
            status =
                ls_fail(LS_DATA_LOSS, "LOCKSTEP_REPLAY='%.200s': '%.60s' is no decision of its session", path, line);
    }
    if (!status && ferror(file)) return ls_read_file_fail("read", path);
    if (!status && replay->filled < replay->count)
        status = ls_fail(LS_FAILED_PRECONDITION,
                         "LOCKSTEP_REPLAY='%.200s' has %lld of the %lld batches of the session after step %lld", path,
                         (long long)replay->filled, (long long)replay->count, (long long)replay->begin);
    return status;
}

static void list_readers(struct ls_session_replay *replay) {
    for (int64_t i = replay->count - 1; i >= 0; i--) {
        int64_t *first = &replay->first[replay->versions[i * replay->servers] - replay->begin];
        replay->decisions[i].next = *first;
        *first = i;
    }
}

ls_status ls_session_replay_open(const char *path, const struct ls_session *session, int servers, int workers,
                                 struct ls_session_replay **replay) {
    struct ls_session_replay *made = NULL;
    if (!path || !*path) return LS_OK;
    FILE *file = fopen(path, "re");
    if (!file) return ls_fail_context(ls_read_file_fail("open", path), "LOCKSTEP_REPLAY");
    ls_status status = make_replay(session, servers, &made);
    if (!status) status = read_file(file, path, session, servers, workers, made);
    (void)fclose(file);
    if (!status) list_readers(made);
    return LS_HAND_OVER(status, replay, made, ls_session_replay_free(made));
}

/* ---- keeping ---- */

int64_t ls_session_replay_next(const struct ls_session_replay *replay, int64_t version, int64_t *versions) {
    int64_t at = version - replay->begin, place = at < replay->count ? replay->first[at] : -1;
    if (place < 0) return LS_NO_TICKET;
    memcpy(versions, &replay->versions[place * replay->servers], (size_t)replay->servers * sizeof(*versions));
    return replay->decisions[place].ticket;
}

bool ls_session_replay_read(struct ls_session_replay *replay, int64_t ticket, int server, int64_t version) {
    int64_t place = ticket >= 0 && ticket < replay->count ? replay->places[ticket] : -1;
    if (place < 0 || server < 0 || server >= replay->servers ||
        replay->versions[place * replay->servers + server] != version || !replay->missing[version - replay->begin])
        return false;
    replay->missing[version - replay->begin]--;
    if (!server) replay->first[version - replay->begin] = replay->decisions[place].next;
    return true;
}

bool ls_session_replay_may(const struct ls_session_replay *replay, int64_t version, int64_t *ticket, float *factor) {
    int64_t place = version - replay->begin;
    if (place >= replay->count || replay->missing[place]) return false;
    *ticket = replay->decisions[place].ticket;
    *factor = replay->decisions[place].factor;
    return true;
}
