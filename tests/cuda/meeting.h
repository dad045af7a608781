/* Ranks of one process or several that meet in a file of shared memory: what the tests' stand-ins for NCCL are made of.
 * Nobody waits here: each asks again whether all have come. Ranks that bring different calls are told so. */
#pragma once
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#define LS_MEETING_NAME  128
#define LS_MEETING_RANKS 64
#define LS_MEETING_CHUNK 65536 /* bytes that a rank brings at a time */

enum ls_meeting_kind { LS_MEETING_ALL_REDUCE, LS_MEETING_BROADCAST, LS_MEETING_ALL_GATHER, LS_MEETING_REDUCE_SCATTER };
enum ls_meeting_op { LS_MEETING_SUM, LS_MEETING_MEAN, LS_MEETING_MIN, LS_MEETING_MAX };
enum ls_meeting_type { LS_MEETING_FLOAT32, LS_MEETING_FLOAT64, LS_MEETING_INT32, LS_MEETING_INT64 };
/* Equal on all ranks. count elements: of the whole vector, or of one rank's part (all-gather, reduce-scatter). */
struct ls_meeting_call {
    int32_t kind, op, type, root;
    uint64_t count;
};
struct ls_meeting;
/* A new place to meet; false: there is none. */
bool ls_meeting_new_id(char name[LS_MEETING_NAME]);
/* NULL: the name is no place, or has another number of ranks. */
struct ls_meeting *ls_meeting_join(const char *name, int rank, int total);
void ls_meeting_leave(struct ls_meeting *meeting);
bool ls_meeting_all_joined(const struct ls_meeting *meeting);
/* The process of a rank that had joined has ended, and has not left. */
bool ls_meeting_has_lost(const struct ls_meeting *meeting);
/* To the others this process has ended. */
void ls_meeting_vanish(struct ls_meeting *meeting);

/* One rank's part in a call, from the first time it asks until it is done. */
struct ls_meeting_part {
    struct ls_meeting *meeting;
    struct ls_meeting_call call;
    const void *input;
    void *output;
    size_t done; /* bytes of the way */
    bool posted; /* its chunk lies there */
};
/* 1: done; 0: not yet; -1: the others make another call. */
int ls_meeting_ask(struct ls_meeting_part *part);
