/* The preface opens a data connection. It names the worker that dials and the one that is dialled, and proves that the
 * first knows the key of the generation, which came with Propose over its control streams (docs/protocol.md, "From a
 * loss to the next step", item 5). It has 96 bytes, little endian, and the other side answers with one byte. The
 * preface does not show the key: the proof is an HMAC over all other fields. `attempt` is one of them and counts up, so
 * a program that has recorded a preface cannot use it a second time (docs/security.md, "A token"). It may offer memory
 * of this host; the answer says whether the other side has it. */
#pragma once
#include <lockstep/lockstep.h>

#include "cluster/security/proof.h"

#define LS_PROTOCOL_VERSION 10U   /* of data connections and control messages */
#define LS_MAX_WORKERS      65536 /* ranks are below it */

#define LS_PREFACE_SIZE       96
#define LS_PREFACE_PROOF      16 /* bytes of the proof */
#define LS_PREFACE_MEMORY     32
#define LS_PREFACE_ACK        0x06
#define LS_PREFACE_ACK_MEMORY 0x07 /* the connection uses the memory that was offered */

struct ls_preface {
    uint32_t protocol;
    int rank, to; /* the side that dials; the side that is dialled */
    uint64_t generation, incarnation;
    uint64_t attempt;                  /* counts the data connections that a process dials to another, from 1 */
    uint32_t channel;                  /* which of their groups of connections it belongs to (cluster/data/data.h) */
    uint8_t memory[LS_PREFACE_MEMORY]; /* where the memory is (collective/link/shm.h); zeros: none is offered */
    uint8_t proof[LS_PREFACE_PROOF];   /* of all the rest */
};
/* Numbers of count bytes, little endian. */
void ls_preface_put(uint8_t *bytes, uint64_t value, int count);
uint64_t ls_preface_get(const uint8_t *bytes, int count);
/* Fills in the proof; false where libcrypto fails. */
bool ls_preface_sign(struct ls_preface *preface, const uint8_t key[LS_PROOF_SIZE]);
bool ls_preface_is_signed(const struct ls_preface *preface, const uint8_t key[LS_PROOF_SIZE]);
void ls_preface_encode(const struct ls_preface *preface, uint8_t bytes[LS_PREFACE_SIZE]);
/* INVALID_ARGUMENT naming the field that is not right. */
ls_status ls_preface_decode(const uint8_t bytes[LS_PREFACE_SIZE], struct ls_preface *preface);

/* A probe sends these bytes and no more (tools/probe.h). */
#define LS_PROBE_REQUEST "LSPROBE\n"
#define LS_PROBE_SIZE    8

/* LS_PLAIN_HERE is the answer of a worker without TLS to a caller that begins with TLS. LS_TLS_HERE is the answer of a
 * worker with TLS to a caller in the clear: the message of a gRPC status on a control connection, the bare text on any
 * other. Each caller so learns the difference from the address that it has dialled, and ends its own join by that
 * (docs/security.md, "TLS"). */
#define LS_PLAIN_HERE "LSPLAIN\n"
#define LS_TLS_HERE   "LOCKSTEP-TLS"

/* A worker that knows rank 0's address alone begins with LS_MEET_SIZE bytes (cluster/rendezvous/meet.h). */
#define LS_MEET_MAGIC "LSMEET1\n"
#define LS_MEET_SIZE  48

/* The kind of a connection, as its first bytes tell. */
enum ls_first_bytes { LS_FIRST_MORE, LS_FIRST_CONTROL, LS_FIRST_DATA, LS_FIRST_PROBE, LS_FIRST_MEET, LS_FIRST_JUNK };
/* Returns CONTROL after the first line of HTTP/2's connection preface, DATA after a whole data preface, PROBE after a
 * whole request of a probe, MEET after a whole ask of a rendezvous, JUNK as soon as the bytes can be none of these, and
 * MORE before that is decided. */
enum ls_first_bytes ls_preface_first_bytes(const uint8_t *bytes, size_t size);
