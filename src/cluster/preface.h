/* The first bytes of a data connection: who dials, and the key that it was given over the control stream. 64 bytes,
 * little endian, answered by one byte. */
#pragma once
#include <lockstep/lockstep.h>

#include "cluster/message.h"

#define LS_PREFACE_SIZE 64
#define LS_PREFACE_ACK  0x06

struct ls_preface {
    uint32_t protocol;
    int rank;
    uint64_t generation, incarnation;
    uint8_t key[LS_DATA_KEY_SIZE];
};
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
