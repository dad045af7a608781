/* An attempt to map each other's memory: every rank makes a segment, tells the others where it is, opens theirs, and
 * tells all how it fared. */
#pragma once
#include "collective/group.h"
#include "collective/hosts.h"
#include "collective/segment.h"

struct ls_attempt_offer;
struct ls_attempt {
    struct ls_group *group;
    const struct ls_hosts *hosts;
    int rank, size;
    size_t *counts;                  /* [size] */
    struct ls_attempt_offer *offers; /* [size] */
    int32_t *errors;                 /* [size * size]: of row's attempt to open column's; 0: done, or not tried */
    struct ls_segment *segments;     /* [size] */
};
struct ls_attempt_options {
    size_t bytes;
    bool wanted;                  /* false: this rank gives no memory */
    const struct ls_hosts *hosts; /* each rank tries only those of its own host; NULL: all */
    int pretended_host;           /* other ranks of the same number only are on this host */
};
/* Collective. */
ls_status ls_attempt_begin(struct ls_attempt *attempt, struct ls_group *group,
                           const struct ls_attempt_options *options);
/* Ranks whose every pair could open each other's segments: each rank joins the first host where it could be, so that
 * all ranks find the same. reason says why not all are on one. */
ls_status ls_attempt_hosts(const struct ls_attempt *attempt, struct ls_hosts *hosts, char *reason, size_t size);
/* Whether all ranks of this rank's host could; otherwise reason says why not. */
bool ls_attempt_succeeded(const struct ls_attempt *attempt, char *reason, size_t size);
/* The segment of rank, which the caller unmaps. */
struct ls_segment ls_attempt_take(struct ls_attempt *attempt, int rank);
/* Unmaps what was not taken. */
void ls_attempt_end(struct ls_attempt *attempt);
