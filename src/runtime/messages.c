/* The public API of messages between two ranks. */
#include "base/need.h"
#include "base/options.h"
#include "base/status.h"
#include "collective/messages/mail.h"
#include "runtime/communicator.h"

static ls_status check_allowed(const ls_communicator *communicator) {
    return communicator->async
               ? ls_fail(LS_INVALID_ARGUMENT, "there are no messages between two ranks where calls are matched by name "
                                              "(ls_communicator_negotiate): use a process set")
               : LS_OK;
}

ls_status ls_send(ls_communicator *communicator, const ls_send_options *options) {
    LS_NEED(communicator, options);
    ls_send_options call;
    ls_status status = ls_options_copy("ls_send_options", &call, sizeof(call), options);
    if (!status) status = check_allowed(communicator);
    if (status) return status;
    int64_t begun = ls_track_begin(communicator->track);
    status = ls_mail_send(communicator->ranks->group, &call);
    ls_communicator_note(communicator, begun, "send", call.name, call.count * ls_dtype_size(call.dtype));
    return status;
}

/* wake: of ls_try_receive; NULL: it waits for the message. */
static ls_status receive(ls_communicator *communicator, const ls_receive_options *options, const int *wake,
                         bool *received) {
    ls_receive_options call;
    ls_status status = ls_options_copy("ls_receive_options", &call, sizeof(call), options);
    if (!status) status = check_allowed(communicator);
    if (status) return status;
    struct ls_group *group = communicator->ranks->group;
    int64_t begun = ls_track_begin(communicator->track);
    bool has_come = !wake;
    status = wake ? ls_mail_try_receive(group, &call, *wake, &has_come) : ls_mail_receive(group, &call);
    if (!status) *received = has_come;
    if (status || has_come)
        ls_communicator_note(communicator, begun, "receive", call.name, call.count * ls_dtype_size(call.dtype));
    return status;
}

ls_status ls_receive(ls_communicator *communicator, const ls_receive_options *options) {
    LS_NEED(communicator, options);
    return receive(communicator, options, NULL, &(bool){false});
}

ls_status ls_try_receive(ls_communicator *communicator, const ls_receive_options *options, int wake, bool *received) {
    LS_NEED(communicator, options, received);
    return receive(communicator, options, &wake, received);
}

ls_status ls_split_counts(size_t count, int size, size_t *counts) {
    LS_NEED(counts);
    if (size < 1) return ls_fail(LS_INVALID_ARGUMENT, "size %d of a split must be 1 or more", size);
    for (size_t i = 0, ranks = (size_t)size; i < ranks; i++) counts[i] = count / ranks + (i < count % ranks);
    return LS_OK;
}
