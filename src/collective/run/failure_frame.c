/* Failure frames. A rank that gives up sends its message to its peers where they expect a frame. So ranks that wait for
 * it end with the same cause, even on hosts that cannot see the failure itself. */
#include "collective/run/failure_frame.h"

#include <errno.h>
#include <stdio.h>
#include <string.h>

#include "collective/run/executor.h"
#include "collective/run/wait.h"

/* True if the peer expects a frame next on this link. */
static bool stands_between_calls(const struct ls_executor_peer *peer) {
    bool before = peer->frame_sent == 0, after = peer->frame_sent == LS_FRAME_SIZE && peer->sending < 0;
    return peer->link && !peer->write_error && (before || after);
}

static void send_all(struct ls_executor_peer *peer, const unsigned char *bytes, size_t size) {
    for (size_t at = 0; at < size;) {
        const struct iovec piece = {(void *)(uintptr_t)(bytes + at), size - at};
        ssize_t sent = peer->link->ops->send(peer->link, &piece, 1);
        if (sent <= 0) {
            peer->write_error = EPIPE; /* nothing more can be said */
            return;
        }
        at += (size_t)sent;
    }
}

void ls_failure_frame_send(struct ls_executor *executor, uint64_t generation, ls_status status, const char *cause) {
    unsigned char bytes[LS_FRAME_SIZE + LS_ERROR_SIZE];
    char *message = (char *)bytes + LS_FRAME_SIZE;
    if (executor->told)
        (void)snprintf(message, LS_ERROR_SIZE, "%s", cause);
    else
        (void)snprintf(message, LS_ERROR_SIZE, "rank %d: %s", executor->rank, cause);
    struct ls_frame frame = {.generation = generation,
                             .count = (uint64_t)status,
                             .bytes = strlen(message),
                             .rank = executor->rank,
                             .size = executor->size,
                             .root = -1,
                             .kind = LS_KIND_FAILURE};
    ls_frame_encode(&frame, bytes);
    for (int i = 0; i < executor->size; i++)
        if (stands_between_calls(&executor->peers[i]))
            send_all(&executor->peers[i], bytes, LS_FRAME_SIZE + frame.bytes);
}

bool ls_failure_frame_is_sent(const struct ls_executor *executor, struct ls_executor_peer *peer,
                              const struct ls_frame *frame) {
    if (frame->kind != LS_KIND_FAILURE || frame->generation != executor->call->frame.generation ||
        frame->rank != (int)(peer - executor->peers))
        return false;
    peer->told = (size_t)frame->bytes;
    return true;
}

void ls_failure_frame_receive(struct ls_executor *executor, struct ls_executor_peer *peer) {
    struct ls_frame frame;
    char message[LS_ERROR_SIZE];
    ls_status status = ls_frame_decode(peer->inbox, &frame);
    if (status) return; /* it was decoded before */
    memcpy(message, peer->inbox + LS_FRAME_SIZE, peer->told);
    message[peer->told] = 0;
    for (size_t i = 0; i < peer->told; i++)
        if ((unsigned char)message[i] < 0x20 || message[i] == 0x7F) message[i] = '?';
    peer->inbox_taken = LS_FRAME_SIZE;
    executor->told = true;
    if ((ls_status)frame.count == LS_UNAVAILABLE) atomic_store(&executor->severed, true);
    ls_wait_trouble(executor, peer, ls_fail((ls_status)frame.count, "%s", message));
}
