/* Frames out of bytes, and bytes out of frames. Without memory the process ends: its guard ends the workers. */
#define _GNU_SOURCE
#include "launch/run_frame.h"

#include <endian.h>
#include <errno.h>
#include <stdarg.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#define READ_SIZE ((size_t)64 << 10)

/* Without memory the process ends: an agent with its workers, or the launcher with its agents. */
static void have_room(struct ls_frame_buffer *buffer, size_t size) {
    if (buffer->start && (!buffer->used || buffer->start + buffer->used + size > buffer->capacity)) {
        if (buffer->used) memmove(buffer->data, buffer->data + buffer->start, buffer->used);
        buffer->start = 0;
    }
    if (buffer->used + size <= buffer->capacity) return;
    size_t capacity = buffer->capacity ? buffer->capacity : READ_SIZE;
    while (capacity < buffer->used + size) capacity *= 2;
    char *grown = realloc(buffer->data, capacity);
    if (!grown) {
        (void)fprintf(stderr, "lockstep: no memory for %zu bytes between workers and launcher\n", capacity);
        exit(1);
    }
    buffer->data = grown;
    buffer->capacity = capacity;
}

void ls_frame_buffer_free(struct ls_frame_buffer *buffer) {
    free(buffer->data);
    *buffer = (struct ls_frame_buffer){0};
}

void ls_frame_append(struct ls_frame_buffer *buffer, const void *data, size_t size) {
    if (!size) return;
    have_room(buffer, size);
    memcpy(buffer->data + buffer->start + buffer->used, data, size);
    buffer->used += size;
}

void ls_frame_add(struct ls_frame_buffer *buffer, int kind, int rank, const void *data, size_t size) {
    const uint32_t header[] = {htole32((uint32_t)size), htole32((uint32_t)kind), htole32((uint32_t)rank)};
    ls_frame_append(buffer, header, sizeof(header));
    ls_frame_append(buffer, data, size);
}

void ls_frame_say(struct ls_frame_buffer *buffer, int kind, int rank, const char *format, ...) {
    char text[2048];
    va_list arguments;
    va_start(arguments, format);
    int length = vsnprintf(text, sizeof(text), format, arguments);
    va_end(arguments);
    if (length >= (int)sizeof(text)) length = (int)sizeof(text) - 1;
    for (int i = 0; i < length; i++)
        if (text[i] == '\n') text[i] = 0;
    ls_frame_add(buffer, kind, rank, text, (size_t)length + 1);
}

int ls_frame_next(struct ls_frame_buffer *buffer, struct ls_run_frame *frame) {
    uint32_t header[3];
    if (buffer->used < LS_FRAME_HEADER) return 0;
    const char *at = buffer->data + buffer->start;
    memcpy(header, at, LS_FRAME_HEADER);
    uint32_t size = le32toh(header[0]), kind = le32toh(header[1]), rank = le32toh(header[2]);
    if (size > LS_FRAME_LIMIT || kind < 1 || kind >= LS_FRAME_KINDS || rank > INT32_MAX) return -1;
    if (buffer->used < LS_FRAME_HEADER + (size_t)size) return 0;
    *frame = (struct ls_run_frame){(int)kind, (int)rank, at + LS_FRAME_HEADER, size};
    ls_frame_drop(buffer, LS_FRAME_HEADER + (size_t)size);
    return 1;
}

void ls_frame_drop(struct ls_frame_buffer *buffer, size_t size) {
    buffer->start += size;
    buffer->used -= size;
}

ssize_t ls_frame_read(struct ls_frame_buffer *buffer, int fd) {
    have_room(buffer, READ_SIZE);
    ssize_t got = read(fd, buffer->data + buffer->start + buffer->used, READ_SIZE);
    if (got < 0) return errno == EAGAIN || errno == EINTR ? -1 : 0;
    buffer->used += (size_t)got;
    return got;
}

bool ls_frame_write(struct ls_frame_buffer *buffer, int fd) {
    while (buffer->used) {
        ssize_t wrote = write(fd, buffer->data + buffer->start, buffer->used);
        if (wrote < 0 && errno == EINTR) continue;
        if (wrote < 0) return errno == EAGAIN;
        ls_frame_drop(buffer, (size_t)wrote);
    }
    return true;
}

const char *ls_frame_text(struct ls_run_frame *frame) {
    const char *text = frame->data, *end = frame->size ? memchr(text, 0, frame->size) : NULL;
    if (!end) return NULL;
    frame->data = end + 1;
    frame->size -= (size_t)(end + 1 - text);
    return text;
}

bool ls_frame_number(struct ls_run_frame *frame, long low, long high, int *number) {
    const char *text = ls_frame_text(frame);
    char *end;
    if (!text || !*text) return false;
    errno = 0;
    long value = strtol(text, &end, 10);
    if (*end || errno || value < low || value > high) return false;
    *number = (int)value;
    return true;
}
