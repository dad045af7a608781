/* The first bytes of a data connection: who dials, and a proof that it has the key that belongs to the control
 * streams. 64 bytes, little endian, answered by one byte. The key itself is not shown, and each attempt has a number,
 * so that who has seen a preface cannot use it a second time. */
#pragma once
#include <lockstep/lockstep.h>

#include "cluster/message.h"

#define LS_PREFACE_SIZE 64
#define LS_PREFACE_ACK  0x06

struct ls_preface {
    uint32_t protocol;
    int rank;
    uint64_t generation, incarnation;
    uint64_t attempt;                /* counts the data connections that a process dials to another, from 1 */
    uint8_t proof[LS_DATA_KEY_SIZE]; /* of all the rest */
};
/* Fills in the proof; false where libcrypto fails. */
bool ls_preface_sign(struct ls_preface *preface, const uint8_t key[LS_PROOF_SIZE]);
bool ls_preface_is_signed(const struct ls_preface *preface, const uint8_t key[LS_PROOF_SIZE]);
void ls_preface_encode(const struct ls_preface *preface, uint8_t bytes[LS_PREFACE_SIZE]);
/* INVALID_ARGUMENT naming the field that is not right. */
ls_status ls_preface_decode(const uint8_t bytes[LS_PREFACE_SIZE], struct ls_preface *preface);

/* What a probe begins with; it says no more (probe.h). */
#define LS_PROBE_REQUEST "LSPROBE\n"
#define LS_PROBE_SIZE    8

/* What a connection's first bytes say. */
enum ls_first_bytes { LS_FIRST_MORE, LS_FIRST_CONTROL, LS_FIRST_DATA, LS_FIRST_PROBE, LS_FIRST_JUNK };
/* CONTROL: HTTP/2, as far as its preface's first line; DATA: a whole data preface; PROBE: all of it; MORE: not yet
 * decided. */
enum ls_first_bytes ls_first_bytes(const uint8_t *bytes, size_t size);
