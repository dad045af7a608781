/* The words of a rendezvous (docs/protocol.md, "Rendezvous"): a worker asks, rank 0 may challenge it, the worker proves
 * the token, and rank 0 answers with the roster or with the reason why not. All numbers are little endian. */
#pragma once
#include <lockstep/lockstep.h>

#include "cluster/net/preface.h"
#include "cluster/security/proof.h"
#include "resolver/cluster_view.h"

#define LS_MEET_NONCE  16
#define LS_MEET_HEADER 56 /* bytes of an answer before its text */

struct ls_meet_ask {
    uint32_t protocol;
    int rank, size;
    int port;     /* on which the worker is going to listen */
    bool token;   /* it has one */
    uint64_t job; /* equal for the workers of one job */
    uint8_t nonce[LS_MEET_NONCE];
};
void ls_meet_encode_ask(const struct ls_meet_ask *ask, uint8_t bytes[LS_MEET_SIZE]);
/* INVALID_ARGUMENT naming the field. */
ls_status ls_meet_decode_ask(const uint8_t bytes[LS_MEET_SIZE], struct ls_meet_ask *ask);

enum ls_meet_kind { LS_MEET_CHALLENGE = 1, LS_MEET_ROSTER, LS_MEET_REFUSAL };
struct ls_meet_answer {
    enum ls_meet_kind kind;
    ls_status code;               /* of a refusal */
    size_t length;                /* of the text that follows: a nonce, the roster, words */
    uint8_t proof[LS_PROOF_SIZE]; /* zeros without a token */
};
void ls_meet_encode_answer(const struct ls_meet_answer *answer, uint8_t bytes[LS_MEET_HEADER]);
/* INVALID_ARGUMENT naming the field. */
ls_status ls_meet_decode_answer(const uint8_t bytes[LS_MEET_HEADER], struct ls_meet_answer *answer);

/* Lines "host:port" in the order of the ranks; allocated, NULL: no memory. */
char *ls_meet_print_roster(const struct ls_cluster_view *spec, size_t *length);
/* Gives each task of spec its address. INVALID_ARGUMENT where the text is no roster of so many workers. */
ls_status ls_meet_read_roster(struct ls_cluster_view *spec, const char *text, size_t length);
/* The proof of purpose over the ask, rank 0's nonce and a text. False where libcrypto fails. */
bool ls_meet_prove(struct ls_secret token, const char *purpose, const struct ls_meet_ask *ask,
                   const uint8_t nonce[LS_MEET_NONCE], struct ls_secret text, uint8_t proof[LS_PROOF_SIZE]);
