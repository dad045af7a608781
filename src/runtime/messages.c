/* The public API of messages between two ranks, and of collectives of parts whose sizes only their senders know. */
#include "base/need.h"
#include "base/status.h"
#include "collective/mail.h"
#include "collective/ragged.h"
#include "runtime/communicator.h"

static size_t sum_bytes(const ls_communicator *communicator, ls_dtype dtype, const size_t *counts) {
    size_t sum = 0;
    for (int i = 0; i < communicator->runtime->size; i++) sum += counts[i];
    return sum * ls_dtype_size(dtype);
}

ls_status ls_all_to_all(ls_communicator *communicator, const char *name, ls_dtype dtype, const void *input,
                        const size_t *send_counts, void **output, size_t *receive_counts) {
    LS_NEED(communicator, send_counts, output, receive_counts);
    int64_t begun = ls_track_begin(communicator->track);
    ls_status status =
        ls_ragged_all_to_all(communicator->runtime->group, name, dtype, input, send_counts, output, receive_counts);
    return ls_communicator_note(communicator, begun, "all-to-all", name, sum_bytes(communicator, dtype, send_counts),
                                status);
}

ls_status ls_all_gather_ragged(ls_communicator *communicator, const char *name, ls_dtype dtype, const void *input,
                               size_t count, void **output, size_t *counts) {
    LS_NEED(communicator, output, counts);
    int64_t begun = ls_track_begin(communicator->track);
    ls_status status = ls_ragged_all_gather(communicator->runtime->group, name, dtype, input, count, output, counts);
    return ls_communicator_note(communicator, begun, "all-gather", name, count * ls_dtype_size(dtype), status);
}

ls_status ls_all_gather_bytes(ls_communicator *communicator, const char *name, const void *input, size_t size,
                              void **output, size_t *sizes) {
    return ls_all_gather_ragged(communicator, name, LS_UINT8, input, size, output, sizes);
}

ls_status ls_broadcast_bytes(ls_communicator *communicator, const char *name, int root, const void *input, size_t size,
                             void **output, size_t *output_size) {
    LS_NEED(communicator, output, output_size);
    int64_t begun = ls_track_begin(communicator->track);
    size_t received = 0;
    ls_status status = ls_ragged_broadcast(communicator->runtime->group, name, root, input, size, output, &received);
    if (!status) *output_size = received;
    return ls_communicator_note(communicator, begun, "broadcast", name, received, status);
}

ls_status ls_send(ls_communicator *communicator, const char *name, int to, ls_dtype dtype, const void *data,
                  size_t count) {
    LS_NEED(communicator);
    int64_t begun = ls_track_begin(communicator->track);
    ls_status status = ls_mail_send(communicator->runtime->group, name, to, dtype, data, count);
    return ls_communicator_note(communicator, begun, "send", name, count * ls_dtype_size(dtype), status);
}

ls_status ls_receive(ls_communicator *communicator, const char *name, int from, ls_dtype dtype, void *data,
                     size_t count) {
    LS_NEED(communicator);
    int64_t begun = ls_track_begin(communicator->track);
    ls_status status = ls_mail_receive(communicator->runtime->group, name, from, dtype, data, count);
    return ls_communicator_note(communicator, begun, "receive", name, count * ls_dtype_size(dtype), status);
}

ls_status ls_split_counts(size_t count, int size, size_t *counts) {
    LS_NEED(counts);
    if (size < 1) return ls_fail(LS_INVALID_ARGUMENT, "size %d of a split must be 1 or more", size);
    for (size_t i = 0, ranks = (size_t)size; i < ranks; i++) counts[i] = count / ranks + (i < count % ranks);
    return LS_OK;
}
