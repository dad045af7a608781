/* A connection at rank 0 that asks for the addresses: what it has said, and what it is told. Nothing here waits. */
#pragma once
#include <lockstep/lockstep.h>

#include "cluster/rendezvous/meet.h"
#include "cluster/net/address.h"
#include "cluster/net/rate_limit.h"
#include "cluster/net/relay.h"

enum ls_meet_state { LS_MEET_PROVING, LS_MEET_WAITING, LS_MEET_TELLING }; /* rendezvous_server.c has their meaning */

struct ls_meet_caller {
    struct ls_meet_caller *next;
    int fd;
    enum ls_meet_state state;
    int64_t deadline;
    char who[LS_ADDRESS_TEXT], own[LS_ADDRESS_TEXT]; /* both ends' addresses */
    struct ls_rate_source source;                    /* as the listener counts them */
    struct ls_meet_ask ask;
    uint8_t nonce[LS_MEET_NONCE], shown[LS_PROOF_SIZE]; /* shown: what has come of its proof */
    char *words;                                        /* to be sent, NULL: nothing */
    size_t size, sent, heard;                           /* heard: bytes of shown */
    bool awaited;                                       /* rank 0 waits until its words have gone */
};
/* Reads the ask, and takes fd. relay: of TLS, or NULL. NULL, and fd closed: it is none, or there is no memory. */
struct ls_meet_caller *ls_meet_caller_new(int fd, struct ls_relay *relay);
void ls_meet_caller_free(struct ls_meet_caller *caller);
/* The host at one end, `who` or `own`: of an IPv4 address in IPv6's clothes the IPv4 address. */
void ls_meet_caller_host(const char *end, char host[LS_ADDRESS_TEXT]);
/* Queues an answer and its text, proved with the token if that is one. */
void ls_meet_caller_answer(struct ls_meet_caller *caller, struct ls_secret token, struct ls_meet_answer *answer,
                           const char *purpose, const char *text);
/* Sends what is queued. Returns true if no more can be sent, or all of a last word has been. */
bool ls_meet_caller_send(struct ls_meet_caller *caller);
/* Takes what has come of its proof, which is whole where heard is its size. Returns true if the caller has gone. */
bool ls_meet_caller_hear(struct ls_meet_caller *caller);
/* Returns true if a caller that should be silent has closed its connection, or talks. */
bool ls_meet_caller_has_gone(const struct ls_meet_caller *caller);
