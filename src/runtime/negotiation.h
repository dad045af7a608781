/* Which ranks have begun which calls: Horovod's negotiation, without its coordinator. Every rank holds the same table,
 * for all of them read the same rounds in the same order. It does no I/O, and has no thread of its own. */
#pragma once
#include <sys/queue.h>

#include "collective/run/frame.h"

/* A call that some ranks have begun and not all of them. */
struct ls_negotiated {
    struct ls_frame frame; /* as the first rank has sent it; at the beginning for ls_negotiation_compare_names */
    unsigned char *begun;  /* [size] */
    int missing;           /* ranks that have neither begun it nor joined */
    int64_t since;         /* when this rank has heard of it */
    TAILQ_ENTRY(ls_negotiated) link;
};
TAILQ_HEAD(ls_negotiated_list, ls_negotiated);
struct ls_negotiation {
    int size;
    void *by_name;                     /* all calls, in a tree of tsearch(3) */
    struct ls_negotiated_list waiting; /* of ranks, in the order in which they came */
    struct ls_negotiated_list ready;   /* in the order in which they became so */
    unsigned char *joined;             /* [size] */
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
/* All have joined, and what was ready is removed: nobody has from here on. */
void ls_negotiation_part(struct ls_negotiation *negotiation);

/* For tsearch(3) and its like: the order of two things that begin with a struct ls_frame, by their names' digests. */
int ls_negotiation_compare_names(const void *a, const void *b);

/* The first call that all ranks but those that have joined have begun; NULL if there is none. */
struct ls_negotiated *ls_negotiation_ready(const struct ls_negotiation *negotiation);
void ls_negotiation_remove(struct ls_negotiation *negotiation, struct ls_negotiated *call);
/* "all_reduce 'x' has been begun by ranks 0, 2, and not by rank 1" */
void ls_negotiation_describe(const struct ls_negotiation *negotiation, const struct ls_negotiated *call, char *text,
                             size_t size);
