/* Which ranks have begun which calls: Horovod's negotiation, without its coordinator. Every rank holds the same table,
 * for all of them read the same rounds in the same order. It does no I/O, and has no thread of its own. */
#pragma once
#include "collective/run/frame.h"

/* A call that some ranks have begun and not all of them. */
struct ls_negotiated {
    struct ls_frame frame; /* as the first rank has sent it */
    unsigned char *begun;  /* [size] */
    int missing;           /* ranks that have neither begun it nor joined */
    int64_t since;         /* when this rank has heard of it */
    struct ls_negotiated *chained;
};
struct ls_negotiation {
    int size;
    struct ls_negotiated **calls;   /* in the order in which they came */
    struct ls_negotiated **by_name; /* [capacity] chains: a name is found as quickly among many calls as among few */
    size_t count, capacity;         /* a power of two */
    unsigned char *joined;          /* [size] */
    int joined_count, last_joined;
};
ls_status ls_negotiation_init(struct ls_negotiation *negotiation, int size);
void ls_negotiation_free(struct ls_negotiation *negotiation);

/* A rank sends in a round a header, then the fingerprints of the calls that it has begun since the last one. */
#define LS_ROUND_HEADER 8     /* bytes: how many fingerprints, whether it has joined */
#define LS_ROUND_MOST   65536 /* fingerprints of a rank in a round */
void ls_negotiation_encode_header(unsigned char bytes[LS_ROUND_HEADER], size_t count, bool joined);
/* DATA_LOSS for what is no header. */
ls_status ls_negotiation_read_header(const unsigned char bytes[LS_ROUND_HEADER], size_t *count, bool *joined);
/* Takes a fingerprint from rank. INVALID_ARGUMENT names the difference to another rank's call of the name. */
ls_status ls_negotiation_read(struct ls_negotiation *negotiation, int rank, const unsigned char bytes[LS_FRAME_SIZE]);
void ls_negotiation_join(struct ls_negotiation *negotiation, int rank);
/* All have joined: nobody has from here on. */
void ls_negotiation_part(struct ls_negotiation *negotiation);

/* The first call that all ranks but those that have joined have begun; NULL if there is none. */
struct ls_negotiated *ls_negotiation_ready(const struct ls_negotiation *negotiation);
void ls_negotiation_remove(struct ls_negotiation *negotiation, struct ls_negotiated *call);
/* "all_reduce 'x' has been begun by ranks 0, 2, and not by rank 1" */
void ls_negotiation_describe(const struct ls_negotiation *negotiation, const struct ls_negotiated *call, char *text,
                             size_t size);
