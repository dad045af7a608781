/* Sends, receives and folds of an all-reduce, with compression or without. */
#include "collective/schedule/wire.h"

#include "collective/schedule/convert.h"

/* With compression the sum is added in float32 and rounded once, into narrow_to. The executor then widens it again into
 * to. So the rank that made a result keeps the same rounded values as the ranks that receive it, and replicas stay
 * equal. */
int ls_wire_fold(struct ls_schedule *schedule, const struct ls_reduction *reduction, struct ls_action fold,
                 struct ls_values *sent) {
    bool narrow = reduction->compression != LS_COMPRESS_NONE;
    fold.kind = LS_ACTION_FOLD;
    if (narrow) fold.narrow_to = ls_schedule_take(schedule, ls_narrow_size(fold.size));
    if (!narrow && !fold.to) fold.to = ls_schedule_take(schedule, fold.size);
    int index = ls_schedule_add(schedule, fold);
    *sent = (struct ls_values){narrow ? fold.narrow_to : fold.to, narrow, index, false};
    return index;
}

void ls_wire_source(struct ls_schedule *schedule, int fold, struct ls_subtree covers, const struct ls_values *values) {
    ls_schedule_gate(schedule, fold, values->gate);
    if (values->narrow)
        ls_schedule_narrow_source(schedule, fold, covers, values->at);
    else
        ls_schedule_source(schedule, fold, covers, values->at);
    if (values->ring) ls_schedule_read_ring(schedule, fold, values->gate);
}

/* An uncompressed send reads the memory of the values itself, so they are free behind the send. A compressed one reads
 * a rounded copy in scratch, so they are free behind the fold that made the copy. */
int ls_wire_send(struct ls_schedule *schedule, int peer, const struct ls_values *values, size_t size) {
    int sent = ls_schedule_add(schedule, (struct ls_action){.kind = LS_ACTION_SEND,
                                                            .peer = peer,
                                                            .from = values->at,
                                                            .size = values->narrow ? ls_narrow_size(size) : size,
                                                            .narrow = values->narrow});
    ls_schedule_gate(schedule, sent, values->gate);
    return values->narrow ? values->gate : sent;
}

/* Into scratch, of room bytes. */
static struct ls_values receive_values(struct ls_schedule *schedule, int peer, bool narrow, size_t size, size_t room) {
    size_t bytes = narrow ? ls_narrow_size(size) : size, ring = narrow ? ls_narrow_size(room) : room;
    unsigned char *to = ls_schedule_take(schedule, ring);
    struct ls_action action = {.kind = LS_ACTION_RECEIVE,
                               .peer = peer,
                               .to = to,
                               .size = bytes,
                               .narrow = narrow,
                               .ring = room < size ? ring : 0};
    return (struct ls_values){to, narrow, ls_schedule_add(schedule, action), room < size};
}

/* A ring of LS_WIRE_RING bytes in place of the whole block keeps the bytes in the caches between the link and the fold.
 * Only the last part from a peer may have one: an earlier part in a ring would wait for the fold, which waits for the
 * later part behind it on the same link. */
struct ls_values ls_wire_receive(struct ls_schedule *schedule, const struct ls_reduction *reduction, int peer,
                                 size_t size, bool last) {
    bool narrow = reduction->compression != LS_COMPRESS_NONE;
    return receive_values(schedule, peer, narrow, size, last && size > LS_WIRE_RING ? LS_WIRE_RING : size);
}

struct ls_values ls_wire_receive_into(struct ls_schedule *schedule, const struct ls_reduction *reduction,
                                      struct ls_action receive, int *whole) {
    if (!reduction->compression) {
        *whole = ls_schedule_receive(schedule, receive.peer, receive.to, receive.size);
        return (struct ls_values){.at = receive.to, .gate = *whole};
    }
    struct ls_values values = receive_values(schedule, receive.peer, true, receive.size, receive.size);
    *whole =
        ls_schedule_add(schedule, (struct ls_action){.kind = LS_ACTION_FOLD, .to = receive.to, .size = receive.size});
    ls_wire_source(schedule, *whole, (struct ls_subtree){0, 1}, &values);
    return values;
}
