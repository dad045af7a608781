/* Lines out of bytes, and sinks that are written to without waiting. One thread. */
#define _GNU_SOURCE
#include "launch/run_output.h"

#include <errno.h>
#include <fcntl.h>
#include <poll.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <time.h>
#include <unistd.h>

#define READ_SIZE    ((size_t)64 << 10)
#define BEHIND_LIMIT ((size_t)256 << 10)
#define PIPE_CHUNK   ((size_t)4096) /* bytes that a pipe takes without waiting once poll calls it writable */

/* Makes room for more bytes. Without memory the launcher ends, and its guard ends the workers. */
static void grow(char **data, size_t *capacity, size_t needed) {
    if (needed <= *capacity) return;
    size_t size = *capacity ? *capacity : 4096;
    while (size < needed) size *= 2;
    char *grown = realloc(*data, size);
    if (!grown) {
        (void)fprintf(stderr, "lockstep run: no memory for output (%zu bytes)\n", size);
        exit(1);
    }
    *data = grown;
    *capacity = size;
}

static void sink_init(struct ls_sink *sink, int fd) {
    struct stat about;
    bool known = !fstat(fd, &about);
    *sink = (struct ls_sink){.fd = fd, .closed = !known, .terminal = isatty(fd)};
    sink->stream_like = known && !S_ISREG(about.st_mode);
}

static bool sink_ready(const struct ls_sink *sink) {
    struct pollfd poll_fd = {.fd = sink->fd, .events = POLLOUT};
    return !sink->stream_like || poll(&poll_fd, 1, 0) > 0;
}

static void sink_flush(struct ls_sink *sink) {
    while (sink->used && !sink->closed && sink_ready(sink)) {
        size_t size = sink->stream_like && sink->used > PIPE_CHUNK ? PIPE_CHUNK : sink->used;
        ssize_t wrote = write(sink->fd, sink->data + sink->start, size);
        if (wrote < 0 && errno == EINTR) continue;
        if (wrote < 0 && errno == EAGAIN) return;
        if (wrote < 0) {
            sink->closed = true;
            if (errno != EPIPE) (void)fprintf(stderr, "lockstep run: cannot write output: %s\n", strerror(errno));
            break;
        }
        sink->start += (size_t)wrote;
        sink->used -= (size_t)wrote;
    }
    if (sink->closed) sink->used = 0;
    if (!sink->used) sink->start = 0;
}

static void sink_add(struct ls_sink *sink, const char *data, size_t size) {
    if (sink->closed || !size) return;
    if (sink->start && sink->start + sink->used + size > sink->capacity) {
        memmove(sink->data, sink->data + sink->start, sink->used);
        sink->start = 0;
    }
    grow(&sink->data, &sink->capacity, sink->start + sink->used + size);
    memcpy(sink->data + sink->start + sink->used, data, size);
    sink->used += size;
}

bool ls_sink_behind(const struct ls_sink *sink) {
    return sink->used > BEHIND_LIMIT;
}

void ls_output_init(struct ls_output *output) {
    *output = (struct ls_output){0};
    sink_init(&output->out, STDOUT_FILENO);
    sink_init(&output->err, STDERR_FILENO);
}

void ls_output_free(struct ls_output *output) {
    free(output->out.data);
    free(output->err.data);
}

void ls_output_flush(struct ls_output *output) {
    sink_flush(&output->out);
    sink_flush(&output->err);
}

/* Ends the line of a bar that stands on the terminal before a line of another stream. */
static void begin_line(struct ls_output *output, struct ls_sink *sink, const struct ls_stream *stream) {
    if (sink->terminal && output->bar && output->bar != stream) sink_add(sink, "\n", 1);
    if (sink->terminal) output->bar = NULL;
    sink->last = stream;
}

void ls_output_say(struct ls_output *output, const char *format, ...) {
    char text[1024], line[1100];
    va_list arguments;
    va_start(arguments, format);
    (void)vsnprintf(text, sizeof(text), format, arguments);
    va_end(arguments);
    int size = snprintf(line, sizeof(line), "lockstep run: %s\n", text);
    begin_line(output, &output->err, NULL);
    sink_add(&output->err, line, (size_t)size);
}

static void add_time(const struct ls_output *output, struct ls_sink *sink) {
    char text[64], whole[80];
    struct timespec time;
    struct tm parts;
    if (!output->times) return;
    (void)clock_gettime(CLOCK_REALTIME, &time);
    size_t length = localtime_r(&time.tv_sec, &parts) ? strftime(text, sizeof(text), "%Y-%m-%d %H:%M:%S", &parts) : 0;
    text[length] = 0;
    int size = snprintf(whole, sizeof(whole), "%s.%03d ", text, (int)(time.tv_nsec / 1000000));
    sink_add(sink, whole, (size_t)size);
}

/* One line with its end. A '\r' alone redraws nothing: every line begins at column 0 already. */
static void add_line(struct ls_output *output, struct ls_stream *stream, const char *line, size_t size) {
    struct ls_sink *sink = stream->sink;
    bool completes = stream->after_return && size == 1 && line[0] == '\n';
    stream->after_return = false;
    if (completes) {
        if (sink->last != stream) return; /* another stream's line has followed since */
        sink_add(sink, "\n", 1);
        if (output->bar == stream) output->bar = NULL;
        return;
    }
    if (size == 1 && line[0] == '\r') return;
    begin_line(output, sink, stream);
    add_time(output, sink);
    sink_add(sink, stream->prefix, strlen(stream->prefix));
    sink_add(sink, line, size);
    stream->after_return = line[size - 1] == '\r';
    if (stream->after_return && sink->terminal) output->bar = stream;
}

static void add_unfinished(struct ls_output *output, struct ls_stream *stream, size_t size) {
    grow(&stream->line, &stream->capacity, size + 1);
    char next = stream->line[size];
    stream->line[size] = '\n';
    add_line(output, stream, stream->line, size + 1);
    stream->line[size] = next;
}

/* One past the end of the line that begins at start; start if it has no end yet. */
static size_t line_end(const struct ls_stream *stream, size_t start) {
    size_t at = stream->scanned > start ? stream->scanned : start;
    while (at < stream->used && stream->line[at] != '\n' && stream->line[at] != '\r') at++;
    if (at == stream->used) return start;
    bool pair = stream->line[at] == '\r' && at + 1 < stream->used && stream->line[at + 1] == '\n';
    return at + (pair ? 2 : 1);
}

/* The position at which to break a line that is too long: never inside a UTF-8 character. */
static size_t break_point(const char *line, size_t size) {
    for (size_t back = 0; back < 4; back++)
        if (((unsigned char)line[size - back - 1] & 0xC0U) != 0x80U)
            return (unsigned char)line[size - back - 1] >= 0xC0U ? size - back - 1 : size;
    return size;
}

static void drop_front(struct ls_stream *stream, size_t size) {
    stream->used -= size;
    memmove(stream->line, stream->line + size, stream->used);
    stream->scanned = stream->used;
}

static void take_lines(struct ls_output *output, struct ls_stream *stream) {
    size_t start = 0;
    for (size_t end; (end = line_end(stream, start)) > start; start = end)
        add_line(output, stream, stream->line + start, end - start);
    drop_front(stream, start);
    if (stream->used < LS_LINE_LIMIT) return;
    size_t size = break_point(stream->line, stream->used);
    add_unfinished(output, stream, size);
    drop_front(stream, size);
}

void ls_stream_init(struct ls_stream *stream, int fd, struct ls_sink *sink, const char *prefix) {
    *stream = (struct ls_stream){.open = true, .fd = fd, .copy = -1, .sink = sink};
    (void)snprintf(stream->prefix, sizeof(stream->prefix), "%s", prefix);
    if (fd >= 0) (void)fcntl(fd, F_SETFL, O_NONBLOCK);
}

/* The last got bytes of the line are new. */
static void take_bytes(struct ls_output *output, struct ls_stream *stream, size_t got) {
    const char *bytes = stream->line + stream->used;
    if (stream->copy >= 0 && write(stream->copy, bytes, got) != (ssize_t)got) {
        ls_output_say(output, "cannot write the copy of %sfor --output-filename: %s", stream->prefix, strerror(errno));
        (void)close(stream->copy);
        stream->copy = -1;
    }
    stream->used += got;
    take_lines(output, stream);
}

void ls_stream_add(struct ls_output *output, struct ls_stream *stream, const char *data, size_t size) {
    if (!stream->open || (stream->sink->closed && stream->copy < 0)) return;
    grow(&stream->line, &stream->capacity, stream->used + size);
    memcpy(stream->line + stream->used, data, size);
    take_bytes(output, stream, size);
}

bool ls_stream_read(struct ls_output *output, struct ls_stream *stream) {
    if (stream->fd < 0) return false;
    grow(&stream->line, &stream->capacity, stream->used + READ_SIZE);
    ssize_t got = read(stream->fd, stream->line + stream->used, READ_SIZE);
    if (got < 0 && (errno == EAGAIN || errno == EINTR)) return false;
    if (got <= 0 || (stream->sink->closed && stream->copy < 0)) {
        ls_stream_close(output, stream);
        return false;
    }
    take_bytes(output, stream, (size_t)got);
    return true;
}

void ls_stream_close(struct ls_output *output, struct ls_stream *stream) {
    if (!stream->open) return;
    if (stream->used) add_unfinished(output, stream, stream->used);
    if (stream->fd >= 0) (void)close(stream->fd);
    if (stream->copy >= 0) (void)close(stream->copy);
    free(stream->line);
    stream->open = false;
    stream->fd = stream->copy = -1;
    stream->line = NULL;
}
