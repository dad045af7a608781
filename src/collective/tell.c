/* Telling why: a rank that gives up sends its message where a frame is expected, so that those who wait for it, on
 * hosts that cannot see what it saw, end with the same cause. */
#include <errno.h>
#include <stdio.h>
#include <string.h>

#include "collective/executor.h"

/* Whoever reads from this link next expects a frame. */
static bool stands_between_calls(const struct ls_peer *peer) {
    bool before = peer->frame_sent == 0, after = peer->frame_sent == LS_FRAME_SIZE && peer->sending < 0;
    return peer->link && !peer->write_error && (before || after);
}

static void send_all(struct ls_peer *peer, const unsigned char *bytes, size_t size) {
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

void ls_executor_tell(struct ls_executor *executor, uint64_t generation, ls_status status, const char *cause) {
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

bool ls_executor_is_told(const struct ls_executor *executor, struct ls_peer *peer, const struct ls_frame *frame) {
    if (frame->kind != LS_KIND_FAILURE || frame->generation != executor->call->frame.generation ||
        frame->rank != (int)(peer - executor->peers))
        return false;
    peer->told = (size_t)frame->bytes;
    return true;
}

void ls_executor_hear(struct ls_executor *executor, struct ls_peer *peer) {
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
    ls_executor_trouble(executor, peer, ls_fail((ls_status)frame.count, "%s", message));
}
