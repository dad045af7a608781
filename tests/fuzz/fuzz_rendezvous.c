/* Strangers and a worker at rank 0's rendezvous: asks, whole and in pieces, proofs in pieces, ends and words out of
 * turn. Each byte of input is a step of one of the callers; what a caller says is taken from the input, or is right.
 * The rendezvous must take it all, count its places right, and give the roster to none without the token. */
#include <arpa/inet.h>
#include <poll.h>
#include <stdlib.h>
#include <string.h>
#include <sys/ioctl.h>
#include <sys/socket.h>
#include <linux/sockios.h>
#include <unistd.h>

#include "base/memory.h"
#include "cluster/rendezvous/meet.h"
#include "cluster/rendezvous/rendezvous.h"
#include "fuzz/fuzz.h"

enum { CALLERS = 8, SIZE = 3, JOB = 7, TURNS = 100000 };
static const char token[] = "0123456789abcdef";

struct input {
    const uint8_t *data;
    size_t size;
};

struct caller {
    int fd; /* -1: not there */
    struct ls_meet_ask ask;
    bool right; /* what it has said of its proof is right */
    uint8_t proof[LS_PROOF_SIZE];
    size_t said;
};

static void require(bool condition) {
    if (!condition) abort();
}

static uint8_t next(struct input *input) {
    if (!input->size) return 0;
    input->size--;
    return *input->data++;
}

/* Until the other side has read what this one has said, or has closed. */
static void await_reading(int fd) {
    int unread = 1;
    for (int i = 0; unread && i < TURNS; i++) {
        struct pollfd slot = {.fd = fd};
        if (ioctl(fd, SIOCOUTQ, &unread) || (poll(&slot, 1, 0) > 0 && slot.revents & POLLHUP)) return;
        (void)usleep(10);
    }
}

static void begin(struct ls_rendezvous *rendezvous, struct caller *caller, struct input *input) {
    uint8_t bytes[LS_MEET_SIZE], flaw = next(input);
    int ends[2];
    if (caller->fd >= 0) (void)close(caller->fd);
    *caller = (struct caller){.fd = -1};
    caller->ask = (struct ls_meet_ask){
        .protocol = LS_PROTOCOL_VERSION, .rank = flaw & 3, .size = SIZE, .port = 5000, .token = flaw & 4, .job = JOB};
    require(!socketpair(AF_UNIX, SOCK_STREAM, 0, ends));
    ls_meet_encode_ask(&caller->ask, bytes);
    if (flaw & 8) bytes[next(input) % LS_MEET_SIZE] ^= next(input);
    require(send(ends[0], bytes, flaw & 16 ? flaw % LS_MEET_SIZE : LS_MEET_SIZE, MSG_NOSIGNAL) > 0 || flaw & 16);
    caller->fd = ends[0];
    ls_rendezvous_server_take(rendezvous, ends[1], NULL);
}

/* Reads a challenge, if one has come. */
static void hear(struct caller *caller) {
    uint8_t bytes[LS_MEET_HEADER + 1024];
    struct ls_meet_answer answer;
    ssize_t size = recv(caller->fd, bytes, LS_MEET_HEADER, MSG_DONTWAIT);
    if (size < LS_MEET_HEADER) return;
    require(!ls_meet_decode_answer(bytes, &answer) && answer.length <= 1024);
    require(recv(caller->fd, bytes + LS_MEET_HEADER, answer.length, MSG_WAITALL) == (ssize_t)answer.length);
    if (answer.kind == LS_MEET_ROSTER) require(caller->right && caller->said >= LS_PROOF_SIZE);
    if (answer.kind != LS_MEET_CHALLENGE) return;
    caller->right = ls_meet_prove((struct ls_secret){token, sizeof(token) - 1}, "ask", &caller->ask,
                                  bytes + LS_MEET_HEADER, (struct ls_secret){0}, caller->proof);
}

static void say(struct caller *caller, struct input *input) {
    uint8_t bytes[LS_PROOF_SIZE + 8], how = next(input);
    size_t size = how & 31;
    bool proves = how & 32 && caller->right && caller->said < LS_PROOF_SIZE;
    if (proves && size > LS_PROOF_SIZE - caller->said) size = LS_PROOF_SIZE - caller->said;
    for (size_t i = 0; i < size; i++) bytes[i] = proves ? caller->proof[caller->said + i] : next(input);
    if (!size || send(caller->fd, bytes, size, MSG_NOSIGNAL | MSG_DONTWAIT) <= 0) return;
    if (!proves && caller->said < LS_PROOF_SIZE) caller->right = false;
    caller->said += size;
    if (how & 64) await_reading(caller->fd);
}

static void step(struct ls_rendezvous *rendezvous, struct caller *callers, struct input *input) {
    uint8_t what = next(input);
    struct caller *caller = &callers[what % CALLERS];
    if (what < 64 || caller->fd < 0) {
        begin(rendezvous, caller, input);
    } else if (what < 160) {
        say(caller, input);
    } else if (what < 224) {
        hear(caller);
    } else if (what < 240) {
        (void)shutdown(caller->fd, SHUT_WR);
    } else {
        (void)close(caller->fd);
        caller->fd = -1;
    }
}

static void make_spec(struct ls_cluster_view *spec) {
    require(!ls_cluster_view_make_workers(spec, SIZE) && !ls_cluster_view_place(&spec->tasks[0], "127.0.0.1", 4000));
    spec->type = LS_TASK_WORKER;
    spec->num_workers = SIZE;
    spec->meet_port = 4000;
    spec->job = JOB;
}

static void free_spec(struct ls_cluster_view *spec) {
    for (int i = 0; i < spec->task_count; i++) {
        ls_free(spec->tasks[i].host);
        ls_free(spec->tasks[i].address);
    }
    ls_free(spec->tasks);
    ls_free(spec->canonical);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size) {
    static const struct ls_settings settings = {.join_timeout = 10};
    struct input input = {data, size};
    struct caller callers[CALLERS];
    struct ls_credentials credentials = {.token_size = sizeof(token) - 1};
    struct ls_cluster_view spec = {0};
    struct ls_rendezvous *rendezvous;
    make_spec(&spec);
    memcpy(credentials.token, token, sizeof(token));
    require(!ls_rendezvous_server_new(&spec, &settings, NULL, &credentials, &rendezvous));
    for (int i = 0; i < CALLERS; i++) callers[i] = (struct caller){.fd = -1};
    while (input.size) step(rendezvous, callers, &input);
    ls_rendezvous_server_free(rendezvous);
    for (int i = 0; i < CALLERS; i++)
        if (callers[i].fd >= 0) (void)close(callers[i].fd);
    free_spec(&spec);
    return 0;
}
