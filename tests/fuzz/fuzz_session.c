/* Words, heads and failures of a session of asynchronous training, and its records, from any bytes: refused with one
 * error, or taken. Then they encode to the same bytes, and the record can be kept. The first byte says what the others
 * are. */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "base/memory.h"
#include "base/status.h"
#include "fuzz/fuzz.h"
#include "store/session/session_record.h"
#include "store/session/tickets.h"

enum { WORDS, HEAD, FAILURE, RECORD, INPUTS, WORKERS = 3, SERVERS = 2, TICKETS = 5, BEGIN = 10 };

static const struct ls_session small = {.begin = BEGIN, .tickets = TICKETS, .staleness = -1};

static void require(bool condition) {
    if (!condition) abort();
}

static void require_status(ls_status status, bool good) {
    require(!status || (good && ls_error()[0]));
}

static void read_words(const uint8_t *data, size_t size) {
    int64_t words[LS_SESSION_WORDS] = {0}, again[LS_SESSION_WORDS], more[LS_SESSION_WORDS];
    struct ls_session session;
    if (size) memcpy(words, data, size < sizeof(words) ? size : sizeof(words));
    ls_status status = ls_session_decode(words, &session);
    require_status(status, status == LS_DATA_LOSS);
    if (status) return;
    ls_session_encode(&session, again);
    require(!memcmp(again, words, 8 * sizeof(*words)));
    require(!ls_session_decode(again, &session));
    ls_session_encode(&session, more);
    require(!memcmp(again, more, sizeof(more)));
    float factor = ls_session_factor(&session, session.tickets);
    require(factor >= 0 && factor <= 1);
}

static void read_head(const uint8_t *data, size_t size) {
    unsigned char bytes[LS_POST_HEAD] = {0}, again[LS_POST_HEAD];
    struct ls_session_head head;
    if (size) memcpy(bytes, data, size < sizeof(bytes) ? size : sizeof(bytes));
    ls_status status = ls_session_head_decode(bytes, &small, WORKERS, &head);
    require_status(status, status == LS_DATA_LOSS);
    if (status) return;
    ls_session_head_encode(&head, again);
    require(!memcmp(again, bytes, sizeof(bytes)));
}

static void read_failure(const uint8_t *data, size_t size) {
    struct ls_letter letter = {.from = 1, .size = LS_POST_HEAD + size};
    LS_CLEANUP(ls_free_pointer) unsigned char *bytes = ls_alloc(letter.size);
    require(bytes);
    if (size) memcpy(bytes + LS_POST_HEAD, data, size);
    letter.bytes = bytes;
    ls_status status = ls_session_failure(&letter);
    require(status > LS_OK && status <= LS_UNAUTHENTICATED && ls_error()[0]);
}

/* Gives what the record gives next at the version, and reads it on every server there. */
static void read_all(struct ls_session_replay *replay, int64_t version) {
    int64_t versions[SERVERS], ticket;
    for (int given = 0; (ticket = ls_session_replay_next(replay, version, versions)) != LS_NO_TICKET; given++) {
        require(given < TICKETS && ticket >= 0 && ticket < TICKETS && versions[0] == version);
        for (int s = 0; s < SERVERS; s++) {
            require(versions[s] >= BEGIN && versions[s] < BEGIN + TICKETS);
            require(ls_session_replay_read(replay, ticket, s, versions[s]));
        }
    }
}

static void keep(struct ls_session_replay *replay) {
    int64_t ticket, decided = 0;
    float factor;
    require(!ls_session_replay_read(replay, TICKETS, 0, BEGIN) && !ls_session_replay_read(replay, 0, SERVERS, BEGIN));
    require(!ls_session_replay_read(replay, 0, 0, BEGIN + TICKETS + 1));
    for (int64_t version = BEGIN; version <= BEGIN + TICKETS; version++) {
        read_all(replay, version);
        if (!ls_session_replay_may(replay, version, &ticket, &factor)) continue;
        require(ticket >= 0 && ticket < TICKETS && factor >= 0 && factor <= 1);
        require(!(decided >> ticket & 1));
        decided |= INT64_C(1) << ticket;
    }
    require(!ls_session_replay_may(replay, BEGIN + TICKETS, &ticket, &factor));
}

static void read_record(const uint8_t *data, size_t size) {
    char path[] = "/tmp/fuzz_session.XXXXXX";
    struct ls_session_replay *replay = NULL;
    int file = mkstemp(path);
    require(file >= 0 && write(file, data, size) == (ssize_t)size && !close(file));
    ls_status status = ls_session_replay_open(path, &small, SERVERS, WORKERS, &replay);
    require(!unlink(path));
    require_status(status, status == LS_DATA_LOSS || status == LS_FAILED_PRECONDITION);
    require(!status == (replay != NULL));
    if (replay) keep(replay);
    ls_session_replay_free(replay);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size) {
    static void (*const readers[INPUTS])(const uint8_t *, size_t) = {read_words, read_head, read_failure, read_record};
    if (size) readers[data[0] % INPUTS](data + 1, size - 1);
    return 0;
}
