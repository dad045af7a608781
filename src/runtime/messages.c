/* The public API of messages between two ranks, and of collectives of parts whose sizes only their senders know. */
#include "base/need.h"
#include "base/status.h"
#include "collective/messages/mail.h"
#include "runtime/communicator.h"

ls_status ls_all_to_all(ls_communicator *communicator, const char *name, ls_dtype dtype, const void *input,
                        const size_t *send_counts, void **output, size_t *receive_counts) {
    LS_NEED(communicator, send_counts, output, receive_counts);
    struct ls_operation operation = {.kind = LS_OPERATION_ALL_TO_ALL,
                                     .name = name,
                                     .reduce.dtype = dtype,
                                     .counts = send_counts,
                                     .only.input = input,
                                     .made = output,
                                     .made_counts = receive_counts};
    return ls_communicator_make(communicator, &operation);
}

ls_status ls_all_gather_ragged(ls_communicator *communicator, const char *name, ls_dtype dtype, const void *input,
                               size_t count, void **output, size_t *counts) {
    LS_NEED(communicator, output, counts);
    struct ls_operation operation = {.kind = LS_OPERATION_RAGGED_GATHER,
                                     .name = name,
                                     .reduce.dtype = dtype,
                                     .count = count,
                                     .only.input = input,
                                     .made = output,
                                     .made_counts = counts};
    return ls_communicator_make(communicator, &operation);
}

ls_status ls_all_gather_bytes(ls_communicator *communicator, const char *name, const void *input, size_t size,
                              void **output, size_t *sizes) {
    return ls_all_gather_ragged(communicator, name, LS_UINT8, input, size, output, sizes);
}

ls_status ls_broadcast_bytes(ls_communicator *communicator, const char *name, int root, const void *input, size_t size,
                             void **output, size_t *output_size) {
    LS_NEED(communicator, output, output_size);
    size_t received = 0;
    struct ls_operation operation = {.kind = LS_OPERATION_RAGGED_BROADCAST,
                                     .name = name,
                                     .reduce.dtype = LS_UINT8,
                                     .root = root,
                                     .count = size,
                                     .only.input = input,
                                     .made = output,
                                     .made_counts = &received};
    ls_status status = ls_communicator_make(communicator, &operation);
    if (!status) *output_size = received;
    return status;
}

static ls_status check_messages(const ls_communicator *communicator) {
    return communicator->async
               ? ls_fail(LS_INVALID_ARGUMENT, "there are no messages between two ranks where calls are matched by name "
                                              "(ls_communicator_negotiate): use a process set")
               : LS_OK;
}

ls_status ls_send(ls_communicator *communicator, const char *name, int to, ls_dtype dtype, const void *data,
                  size_t count) {
    LS_NEED(communicator);
    ls_status status = check_messages(communicator);
    if (status) return status;
    int64_t begun = ls_track_begin(communicator->track);
    status = ls_mail_send(communicator->runtime->group, name, to, dtype, data, count);
    return ls_communicator_note(communicator, begun, "send", name, count * ls_dtype_size(dtype), status);
}

ls_status ls_receive(ls_communicator *communicator, const char *name, int from, ls_dtype dtype, void *data,
                     size_t count) {
    LS_NEED(communicator);
    ls_status status = check_messages(communicator);
    if (status) return status;
    int64_t begun = ls_track_begin(communicator->track);
    status = ls_mail_receive(communicator->runtime->group, name, from, dtype, data, count);
    return ls_communicator_note(communicator, begun, "receive", name, count * ls_dtype_size(dtype), status);
}

ls_status ls_try_receive(ls_communicator *communicator, const char *name, int from, ls_dtype dtype, void *data,
                         size_t count, int wake, bool *received) {
    LS_NEED(communicator, received);
    ls_status status = check_messages(communicator);
    if (status) return status;
    const struct ls_mail_letter letter = {name, from, dtype, data, count};
    int64_t begun = ls_track_begin(communicator->track);
    bool has_come = false;
    status = ls_mail_try_receive(communicator->runtime->group, &letter, wake, &has_come);
    if (!status) *received = has_come;
    if (!status && !has_come) return LS_OK;
    return ls_communicator_note(communicator, begun, "receive", name, count * ls_dtype_size(dtype), status);
}

ls_status ls_split_counts(size_t count, int size, size_t *counts) {
    LS_NEED(counts);
    if (size < 1) return ls_fail(LS_INVALID_ARGUMENT, "size %d of a split must be 1 or more", size);
    for (size_t i = 0, ranks = (size_t)size; i < ranks; i++) counts[i] = count / ranks + (i < count % ranks);
    return LS_OK;
}
