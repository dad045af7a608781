/* The fingerprints of a process' newest calls. */
#include "collective/run/call_record.h"

ls_status ls_call_record_init(struct ls_call_record *record) {
    return ls_monitor_init(&record->monitor);
}

void ls_call_record_destroy(struct ls_call_record *record) {
    ls_monitor_destroy(&record->monitor);
}

static struct ls_frame *slot_of(struct ls_call_record *record, uint64_t sequence) {
    return &record->frames[sequence % LS_CALL_RECORD_CALLS];
}

void ls_call_record_note(struct ls_call_record *record, const struct ls_frame *frame) {
    LS_HOLD(&record->monitor);
    *slot_of(record, frame->sequence) = *frame;
}

/* The frame that the other rank would send in the own call. The fields that may be unlike on two ranks are its. The
 * counts of an all-gather are in the digest of the layout. */
static struct ls_frame expect_frame(const struct ls_frame *own, const struct ls_frame *other) {
    struct ls_frame expected = *own;
    expected.rank = other->rank;
    expected.bytes = other->bytes;
    if (own->kind == LS_KIND_ALL_GATHER) expected.count = other->count;
    return expected;
}

ls_status ls_call_record_compare(struct ls_call_record *record, const unsigned char bytes[LS_FRAME_SIZE],
                                 ls_frame_name_fn *algorithm_name) {
    struct ls_frame other;
    ls_status status = ls_frame_decode(bytes, &other);
    if (status) return status;
    ls_monitor_lock(&record->monitor);
    const struct ls_frame own = *slot_of(record, other.sequence);
    ls_monitor_unlock(&record->monitor);
    if (!own.size || own.generation != other.generation || own.sequence != other.sequence) return LS_OK;
    struct ls_frame expected = expect_frame(&own, &other);
    return ls_frame_compare(&expected, &other, own.rank, other.rank, algorithm_name);
}
