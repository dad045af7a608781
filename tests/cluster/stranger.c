/* Strangers: what they hear is kept, and they take no link. */
#include "cluster/stranger.h"

#include <arpa/inet.h>
#include <check.h>
#include <stdio.h>
#include <sys/socket.h>
#include <unistd.h>

#include "base/clock.h"

static void hear(void *context, struct ls_rpc_stream *stream, const void *data, size_t size) {
    struct stranger *stranger = context;
    struct ls_message message;
    (void)stream;
    if (ls_message_decode(data, size, &message) != LS_OK) return;
    stranger->answered = true;
    stranger->verdict = message.reply.verdict;
    stranger->code = message.reply.code;
    (void)snprintf(stranger->text, sizeof(stranger->text), "%s", message.reply.message);
    ls_message_release(&message);
}

static void end(void *context, struct ls_rpc_stream *stream) {
    struct stranger *stranger = context;
    (void)stream;
    stranger->answered = true;
    stranger->ended++;
}

static bool no_link(void *context, const struct ls_rpc_caller *caller, const void *preface, size_t size,
                    struct ls_link *link) {
    (void)context, (void)caller, (void)preface, (void)size, (void)link;
    return false;
}

static void change(void *context) {
    struct stranger *stranger = context;
    ls_monitor_lock(&stranger->monitor);
    ls_monitor_broadcast(&stranger->monitor);
    ls_monitor_unlock(&stranger->monitor);
}

void stranger_start(struct stranger *stranger, const struct ls_rpc_tls *tls) {
    struct ls_rpc_config config = {.monitor = &stranger->monitor,
                                   .context = stranger,
                                   .message_max = LS_MESSAGE_MAX,
                                   .tls = tls,
                                   .silence_timeout = 10,
                                   .message = hear,
                                   .closed = end,
                                   .link_arrived = no_link,
                                   .link_changed = change};
    *stranger = (struct stranger){.answered = false};
    ck_assert_int_eq(ls_monitor_init(&stranger->monitor), LS_OK);
    ck_assert_msg(ls_rpc_new(&config, &stranger->rpc) == LS_OK, "%s", ls_error());
}

void stranger_stop(struct stranger *stranger) {
    ls_rpc_free(stranger->rpc);
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

void stranger_say(struct stranger *stranger, struct ls_rpc_stream *stream, const void *data, size_t size) {
    int64_t deadline = ls_now() + 5 * LS_SECOND;
    stranger->answered = false;
    stranger->verdict = (enum ls_verdict)0;
    ck_assert_int_eq(ls_rpc_send(stream, data, size), LS_OK);
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
    struct ls_link *link;
    int fd = stranger_dial(port);
    int64_t deadline = ls_now() + 5 * LS_SECOND;
    ls_monitor_lock(&stranger->monitor);
    ck_assert_int_eq(ls_rpc_link_open(stranger->rpc, fd, target, preface, size, &link), LS_OK);
    while (ls_rpc_link_state(link) == LS_RPC_LINK_OPENING && ls_monitor_wait(&stranger->monitor, deadline)) continue;
    ck_assert_int_eq(ls_rpc_link_state(link), LS_RPC_LINK_CLOSED);
    ls_monitor_unlock(&stranger->monitor);
    link->ops->close(link);
}
