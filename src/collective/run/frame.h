/* The frame that opens every collective on every link, in both directions: the fingerprint of the call. 160 bytes,
 * little-endian. A rank that receives a frame compares it with its own call. */
#pragma once
#include <lockstep/lockstep.h>

#define LS_FRAME_SIZE 160
#define LS_FRAME_NAME 60 /* bytes of the name on the wire, the zero included; the digest covers the whole name */

enum ls_collective_kind {
    LS_KIND_ALL_REDUCE = 1,
    LS_KIND_BROADCAST,
    LS_KIND_ALL_GATHER,
    LS_KIND_BARRIER,
    LS_KIND_REDUCE_SCATTER,
    LS_KIND_ALL_TO_ALL,
    LS_KIND_SEND,         /* of one rank to another; the sequence is the pair's */
    LS_KIND_PUSH,         /* of the workers to the parameter servers, who keep the sums */
    LS_KIND_PULL,         /* back */
    LS_KIND_FAILURE = 255 /* no collective: the sender has given up. count: its status; bytes: of its message */
};

struct ls_frame {
    uint64_t generation, sequence;
    uint64_t count;       /* elements; all_gather: those of the sender */
    uint64_t total;       /* all_reduce, push: leaves; all_gather, reduce_scatter: elements of all ranks */
    uint64_t layout;      /* digest of how leaves or counts are divided over the ranks */
    uint64_t bytes;       /* of payload that follow on this link */
    uint64_t name_digest; /* of the whole name */
    double prescale;      /* all_reduce: of each input; else 0 */
    double postscale;     /* likewise, of the result; with parameter servers: the divisor of a mean */
    int32_t rank;         /* of the sender */
    int32_t size;         /* of the group */
    int32_t root;         /* broadcast; else -1 */
    int32_t kind, op, dtype, communication;
    int32_t algorithm;        /* all_reduce: that runs it, of the sender */
    int32_t compression;      /* likewise, as asked for: an enum ls_compression */
    char name[LS_FRAME_NAME]; /* its first 59 bytes, control characters as '?' */
};

void ls_frame_name(struct ls_frame *frame, const char *name);
void ls_frame_encode(const struct ls_frame *frame, unsigned char bytes[LS_FRAME_SIZE]);
/* Returns DATA_LOSS if the bytes are no frame of this version. */
ls_status ls_frame_decode(const unsigned char bytes[LS_FRAME_SIZE], struct ls_frame *frame);
typedef const char *ls_frame_name_fn(int value);
/* Returns INVALID_ARGUMENT if the frame from peer differs from the frame that rank own expects. The error names the
 * collective, the field, both values and both ranks. algorithm_name gives the names of algorithms. */
ls_status ls_frame_compare(const struct ls_frame *expected, const struct ls_frame *got, int own, int peer,
                           ls_frame_name_fn *algorithm_name);
struct ls_frame_text {
    char text[LS_FRAME_NAME + 64]; /* "all_reduce 'name' (sequence 7)" */
};
struct ls_frame_text ls_frame_describe(const struct ls_frame *frame);
/* "all_reduce" of an enum ls_collective_kind; "unknown" for any other value. */
const char *ls_frame_collective_name(int kind);
/* Continues a digest as FNV-1a does, but by whole values; start with 0. */
static inline uint64_t ls_frame_digest(uint64_t digest, uint64_t value) {
    if (!digest) digest = UINT64_C(0xCBF29CE484222325);
    digest = (digest ^ value) * UINT64_C(0x100000001B3);
    return digest ^ digest >> 32;
}
