/* A caller's bytes are read as they come: poll() tells of unread bytes again and again, and a caller may be a stranger
 * who sends a part of its proof and no more. */
#include "cluster/rendezvous/meet_caller.h"

#include <arpa/inet.h>
#include <errno.h>
#include <netinet/in.h>
#include <stdio.h>
#include <string.h>
#include <sys/socket.h>
#include <unistd.h>

#include "base/memory.h"
#include "base/status.h"

/* ---- addresses ---- */

void ls_meet_caller_host(const char *end, char host[LS_ADDRESS_TEXT]) {
    const char *mapped = "::ffff:", *begin = *end == '[' ? end + 1 : end;
    const char *last = *end == '[' ? strchr(end, ']') : strrchr(end, ':');
    if (!strncmp(begin, mapped, strlen(mapped)) && strchr(begin, '.')) begin += strlen(mapped);
    (void)snprintf(host, LS_ADDRESS_TEXT, "%.*s", last && last > begin ? (int)(last - begin) : 0, begin);
}

static struct ls_rate_source find_rate_source(const struct ls_meet_caller *caller) {
    union {
        struct sockaddr_storage any;
        struct sockaddr_in v4;
        struct sockaddr_in6 v6;
    } address = {.any.ss_family = AF_INET};
    char host[LS_ADDRESS_TEXT];
    ls_meet_caller_host(caller->who, host);
    if (inet_pton(AF_INET, host, &address.v4.sin_addr) != 1 && inet_pton(AF_INET6, host, &address.v6.sin6_addr) == 1)
        address.any.ss_family = AF_INET6;
    return ls_rate_limit_source_of(&address.any);
}

/* ---- making ---- */

struct ls_meet_caller *ls_meet_caller_new(int fd, struct ls_relay *relay) {
    uint8_t bytes[LS_MEET_SIZE];
    struct ls_meet_caller *caller = ls_alloc(sizeof(*caller));
    if (!caller || recv(fd, bytes, sizeof(bytes), MSG_DONTWAIT) != LS_MEET_SIZE ||
        ls_meet_decode_ask(bytes, &caller->ask)) {
        ls_free(caller);
        (void)close(fd);
        return NULL;
    }
    caller->fd = fd;
    for (int own = 0; own < 2; own++)
        if (relay)
            ls_relay_describe(relay, fd, own, own ? caller->own : caller->who);
        else
            ls_address_describe(fd, own, own ? caller->own : caller->who);
    caller->source = find_rate_source(caller);
    return caller;
}

void ls_meet_caller_free(struct ls_meet_caller *caller) {
    (void)close(caller->fd);
    ls_free(caller->words);
    ls_free(caller);
}

/* ---- talking ---- */

void ls_meet_caller_answer(struct ls_meet_caller *caller, struct ls_secret token, struct ls_meet_answer *answer,
                           const char *purpose, const char *text) {
    struct ls_secret bytes = {text, answer->length};
    ls_free(caller->words);
    caller->size = LS_MEET_HEADER + answer->length;
    caller->sent = 0;
    caller->words = ls_alloc(caller->size);
    if (!caller->words) caller->size = 0;
    if (!caller->words) return;
    if (token.size) (void)ls_meet_prove(token, purpose, &caller->ask, caller->nonce, bytes, answer->proof);
    ls_meet_encode_answer(answer, (uint8_t *)caller->words);
    memcpy(caller->words + LS_MEET_HEADER, text, answer->length);
}

bool ls_meet_caller_send(struct ls_meet_caller *caller) {
    while (caller->sent < caller->size) {
        ssize_t done =
            send(caller->fd, caller->words + caller->sent, caller->size - caller->sent, MSG_DONTWAIT | MSG_NOSIGNAL);
        if (done < 0 && (errno == EAGAIN || errno == EINTR)) return false;
        if (done <= 0) return true;
        caller->sent += (size_t)done;
    }
    return caller->state == LS_MEET_TELLING;
}

bool ls_meet_caller_hear(struct ls_meet_caller *caller) {
    size_t missing = sizeof(caller->shown) - caller->heard;
    ssize_t size = recv(caller->fd, caller->shown + caller->heard, missing, MSG_DONTWAIT);
    if (size > 0) caller->heard += (size_t)size;
    return !size || (size < 0 && errno != EAGAIN && errno != EINTR);
}

bool ls_meet_caller_has_gone(const struct ls_meet_caller *caller) {
    char byte;
    ssize_t size = recv(caller->fd, &byte, 1, MSG_PEEK | MSG_DONTWAIT);
    return size >= 0 || (errno != EAGAIN && errno != EINTR);
}
