/* The fingerprints of a process' newest calls, for the calls of others that wait in vain. Among many ranks fingerprints
 * go along the edges of the schedule alone. So where ranks make unlike calls, one may wait for a rank whose schedule
 * knows no edge to it. It tells the others in which call it waits, and each compares that with its own record. Any
 * thread may compare while another one makes calls. */
#pragma once
#include "base/monitor.h"
#include "collective/run/frame.h"

#define LS_CALL_RECORD_CALLS 128 /* that are kept */

struct ls_call_record {
    struct ls_monitor monitor;
    struct ls_frame frames[LS_CALL_RECORD_CALLS]; /* that of sequence s at s modulo their number; size 0: none yet */
};

ls_status ls_call_record_init(struct ls_call_record *record);
void ls_call_record_destroy(struct ls_call_record *record);
/* This process makes the call. */
void ls_call_record_note(struct ls_call_record *record, const struct ls_frame *frame);
/* LS_OK where the call of these bytes, an encoded frame, is this process' own of the same generation and sequence, or
 * where this one has made none yet or no longer knows it. Returns INVALID_ARGUMENT as ls_frame_compare does if they
 * differ, and DATA_LOSS if the bytes are no frame. */
ls_status ls_call_record_compare(struct ls_call_record *record, const unsigned char bytes[LS_FRAME_SIZE],
                                 ls_frame_name_fn *algorithm_name);
