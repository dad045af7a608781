/* Strangers: what they hear is kept. */
#include "cluster/message.h"
#include "cluster/stranger.h"

#include <arpa/inet.h>
#include <poll.h>
#include <stdio.h>
#include <sys/socket.h>
#include <unistd.h>

#include "base/clock.h"
#include "cluster/rpc/rpc_stream.h"
#include "harness.h"

static void hear(void *context, struct ls_rpc_stream *stream, const void *data, size_t size) {
    struct stranger *stranger = context;
    struct ls_message message;
    (void)stream;
    if (ls_message_decode(data, size, &message) != LS_OK) return;
    stranger->answered = true;
    stranger->verdict = message.reply.verdict;
    stranger->code = message.reply.code;
    (void)snprintf(stranger->text, sizeof(stranger->text), "%s", message.reply.message);
    ls_message_decode_release(&message);
}

static void end(void *context, struct ls_rpc_stream *stream) {
    struct stranger *stranger = context;
    (void)stream;
    stranger->answered = true;
    stranger->ended++;
}

void stranger_start(struct stranger *stranger, struct ls_tls_identity *identity) {
    struct ls_rpc_config config = {.monitor = &stranger->monitor,
                                   .context = stranger,
                                   .message_max = LS_MESSAGE_MAX,
                                   .streams_most = 64,
                                   .silence_timeout = 10,
                                   .message = hear,
                                   .closed = end};
    *stranger = (struct stranger){.identity = identity};
    assert_ok(ls_relay_new(&stranger->refusals, &stranger->relay));
    assert_ok(ls_monitor_init(&stranger->monitor));
    assert_ok(ls_rpc_new(&config, &stranger->rpc));
}

void stranger_stop(struct stranger *stranger) {
    ls_rpc_free(stranger->rpc);
    ls_relay_free(stranger->relay);
    ls_tls_identity_free(stranger->identity);
    ls_monitor_destroy(&stranger->monitor);
}

int stranger_dial(int port) {
    struct sockaddr_in address = {.sin_family = AF_INET, .sin_port = htons((uint16_t)port)};
    address.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
    for (int64_t until = ls_now() + 5 * LS_SECOND; ls_now() < until; (void)usleep(10000)) {
        int fd = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);
        if (connect(fd, (struct sockaddr *)&address, sizeof(address)) == 0) return fd;
        (void)close(fd);
    }
    ck_abort_msg("nobody listens");
}

int stranger_dial_tls(struct stranger *stranger, int port, const char *name) {
    int fd = stranger_dial(port);
    struct ls_tls *tls = ls_tls_new(stranger->identity, fd, name);
    enum ls_tls_state state;
    ck_assert_ptr_nonnull(tls);
    while ((state = ls_tls_open(tls)) < LS_TLS_OPEN) {
        struct pollfd slot = {.fd = fd, .events = state == LS_TLS_READS ? POLLIN : POLLOUT};
        ck_assert_int_eq(poll(&slot, 1, 5000), 1);
    }
    if (state == LS_TLS_OPEN) return ls_relay_add(stranger->relay, fd, tls, 0);
    (void)snprintf(stranger->text, sizeof(stranger->text), "%s", ls_tls_why(tls));
    ls_tls_free(tls);
    (void)close(fd);
    return -1;
}

void stranger_say(struct stranger *stranger, struct ls_rpc_stream *stream, const void *data, size_t size) {
    int64_t deadline = ls_now() + 5 * LS_SECOND;
    stranger->answered = false;
    stranger->verdict = (enum ls_verdict)0;
    assert_ok(ls_rpc_stream_send(stream, data, size));
    while (!stranger->answered && ls_monitor_wait(&stranger->monitor, deadline)) continue;
    ck_assert(stranger->answered);
}

double stranger_wait_end(struct stranger *stranger, double limit) {
    int64_t begun = ls_now(), deadline = ls_deadline_after(begun, limit);
    ls_monitor_lock(&stranger->monitor);
    int before = stranger->ended;
    while (stranger->ended == before && ls_monitor_wait(&stranger->monitor, deadline)) continue;
    bool ended = stranger->ended > before;
    ls_monitor_unlock(&stranger->monitor);
    return ended ? ls_seconds_since(begun) : -1;
}

void stranger_is_refused(struct stranger *stranger, int port, const char *target, const void *preface, size_t size) {
    int fd = stranger->identity ? stranger_dial_tls(stranger, port, target) : stranger_dial(port);
    uint8_t byte = 0;
    if (fd < 0) return;
    ck_assert_int_eq((int)send(fd, preface, size, MSG_NOSIGNAL), (int)size);
    struct pollfd slot = {.fd = fd, .events = POLLIN};
    ck_assert_int_eq(poll(&slot, 1, 5000), 1);
    ck_assert_int_le((int)recv(fd, &byte, 1, MSG_DONTWAIT), 0);
    (void)close(fd);
}
