/* The messages of the control streams as plain structs. Only message.c knows protobuf
 * (proto/cluster.proto says what each field means). */
#pragma once
#include <lockstep/lockstep.h>

#include "cluster/net/preface.h"
#include "cluster/quorum.h"

#define LS_MESSAGE_MAX (4U << 20) /* bytes of one encoded message */
#define LS_PAYLOAD_MAX (LS_MESSAGE_MAX - 4096U)
#define LS_NONCE_SIZE  32
#define LS_STALL_MAX   256                 /* bytes of a fingerprint */
#define LS_NUMBER_MAX  (UINT64_C(1) << 62) /* of a proposal */

/* The fields of Envelope's body. */
enum ls_message_kind {
    LS_MESSAGE_HELLO = 3,
    LS_MESSAGE_HELLO_REPLY,
    LS_MESSAGE_SHARE,
    LS_MESSAGE_LEAVE,
    LS_MESSAGE_BEAT,
    LS_MESSAGE_STOP,
    LS_MESSAGE_REPORT,
    LS_MESSAGE_PROPOSE,
    LS_MESSAGE_ACCEPT,
    LS_MESSAGE_BEGIN,
    LS_MESSAGE_SHARES,
    LS_MESSAGE_FINISHED,
    LS_MESSAGE_WAITING,
    LS_MESSAGE_CHALLENGE,
    LS_MESSAGE_STALL
};
enum ls_verdict { LS_VERDICT_ACCEPTED = 1, LS_VERDICT_RETRY, LS_VERDICT_REFUSED, LS_VERDICT_FENCED, LS_VERDICT_OVER };

struct ls_hello {
    uint32_t protocol;
    const char *version, *task_type;
    int task_index, rank, size;
    const char *cluster, *host;
    const char *transport; /* LOCKSTEP_TRANSPORT */
    const char *elastic;   /* the least number of members, or empty */
    const char *options;   /* lines "field=value\n" */
    const uint8_t *proof;  /* [LS_PROOF_SIZE]; NULL: none */
};
struct ls_challenge {
    const uint8_t *nonce; /* [LS_NONCE_SIZE] */
    const char *task_type;
    int task_index, rank;
    const uint8_t *proof; /* [LS_PROOF_SIZE] in an answer; else NULL */
};
struct ls_handshake_reply {
    enum ls_verdict verdict;
    ls_status code; /* INVALID_ARGUMENT or the like when refused, else LS_OK */
    const char *message, *task_type;
    int task_index, rank;
};
struct ls_share {
    uint64_t sequence;
    const char *name;
    const void *payload;
    size_t size;
};
struct ls_shares {
    uint64_t sequence;
    const char *name;
    int first, count;      /* members whose parts these are */
    const uint32_t *sizes; /* [count] */
    const void *payload;
    size_t size; /* the sum of sizes */
    ls_status code;
    const char *message;
};
struct ls_finished {
    int rank;
    uint64_t calls;
};
struct ls_waiting {
    uint64_t sequence; /* 0: in forming a generation */
    int missing;
    const char *message;
};
struct ls_stall {
    uint64_t sequence;
    const void *call;
    size_t size; /* at most LS_STALL_MAX */
};
struct ls_leave {
    ls_status code; /* LS_OK: in order */
    int root;
    bool lost;
    const char *message;
};
struct ls_stop {
    int root;
    const char *message;
    ls_status code; /* LS_OK: root was lost */
};
struct ls_report {
    bool holds;
    int64_t position;
    uint64_t heard;
    struct ls_rosters ledger; /* count 0: none */
    const uint64_t *closed;   /* [closed_count] incarnations */
    int closed_count;
};
struct ls_propose {
    uint64_t number;
    const uint64_t *incarnations; /* [size]; 0: not on the roster */
    int size;
    int64_t position;
    int source; /* on the roster */
    bool copy;
    struct ls_rosters ledger;
    const uint8_t *key;    /* [LS_PROOF_SIZE], of the data connections */
    const uint64_t *hosts; /* [size] */
};
struct ls_message {
    enum ls_message_kind kind;
    uint64_t incarnation, generation;
    union {
        struct ls_hello hello;
        struct ls_handshake_reply reply;
        struct ls_share share;
        struct ls_leave leave;
        struct ls_challenge challenge;
        struct ls_stop stop;
        struct ls_report report;
        struct ls_propose propose;
        struct ls_shares shares;
        struct ls_finished finished;
        struct ls_waiting waiting;
        struct ls_stall stall;
        uint64_t number; /* of an Accept or Begin */
        int leader;      /* of a Beat: a rank; -1: none */
    };
    void *storage; /* what the pointers of a decoded message lead into */
};

/* Allocates the encoded bytes; the caller frees them with ls_free. Control characters in texts become spaces. */
ls_status ls_message_encode(const struct ls_message *message, void **data, size_t *size);

/* INVALID_ARGUMENT naming the field that is not right. The message is released with ls_message_decode_release. */
ls_status ls_message_decode(const void *data, size_t size, struct ls_message *message);
void ls_message_decode_release(struct ls_message *message);
