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

#define BEHIND_LIMIT ((size_t)256 << 10)
#define PIPE_CHUNK   ((size_t)4096) /* bytes that a pipe takes without waiting once poll calls it writable */

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
    struct ls_frame_buffer *waits = &sink->waits;
    while (waits->used && !sink->closed && sink_ready(sink)) {
        size_t size = sink->stream_like && waits->used > PIPE_CHUNK ? PIPE_CHUNK : waits->used;
        ssize_t wrote = write(sink->fd, waits->data + waits->start, size);
        if (wrote < 0 && errno == EINTR) continue;
        if (wrote < 0 && errno == EAGAIN) return;
        if (wrote >= 0) {
            ls_frame_drop(waits, (size_t)wrote);
            continue;
        }
        sink->closed = true;
        if (errno != EPIPE) (void)fprintf(stderr, "lockstep run: cannot write output: %s\n", strerror(errno));
    }
    if (sink->closed) ls_frame_drop(waits, waits->used);
}

static void sink_add(struct ls_sink *sink, const char *data, size_t size) {
    if (!sink->closed) ls_frame_append(&sink->waits, data, size);
}

bool ls_sink_behind(const struct ls_sink *sink) {
    return sink->waits.used > BEHIND_LIMIT;
}

void ls_output_init(struct ls_output *output) {
    *output = (struct ls_output){0};
    sink_init(&output->out, STDOUT_FILENO);
    sink_init(&output->err, STDERR_FILENO);
}

void ls_output_free(struct ls_output *output) {
    ls_frame_buffer_free(&output->out.waits);
    ls_frame_buffer_free(&output->err.waits);
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
    add_line(output, stream, stream->line.data + stream->line.start, size);
    sink_add(stream->sink, "\n", 1);
}

/* The bytes of the first line with its end; 0 if it has none yet. */
static size_t first_line(const struct ls_stream *stream) {
    const char *line = stream->line.data + stream->line.start;
    size_t at = stream->scanned, used = stream->line.used;
    while (at < used && line[at] != '\n' && line[at] != '\r') at++;
    if (at == used) return 0;
    return at + (line[at] == '\r' && at + 1 < used && line[at + 1] == '\n' ? 2 : 1);
}

/* The position at which to break a line that is too long: never inside a UTF-8 character. */
static size_t break_point(const char *line, size_t size) {
    for (size_t back = 0; back < 4; back++)
        if (((unsigned char)line[size - back - 1] & 0xC0U) != 0x80U)
            return (unsigned char)line[size - back - 1] >= 0xC0U ? size - back - 1 : size;
    return size;
}

static void take_lines(struct ls_output *output, struct ls_stream *stream) {
    struct ls_frame_buffer *line = &stream->line;
    for (size_t size; (size = first_line(stream)); stream->scanned = 0) {
        add_line(output, stream, line->data + line->start, size);
        ls_frame_drop(line, size);
    }
    stream->scanned = line->used;
    if (line->used < LS_LINE_LIMIT) return;
    size_t size = break_point(line->data + line->start, line->used);
    add_unfinished(output, stream, size);
    ls_frame_drop(line, size);
    stream->scanned = line->used;
}

void ls_stream_init(struct ls_stream *stream, struct ls_sink *sink, const char *prefix) {
    *stream = (struct ls_stream){.open = true, .copy = -1, .sink = sink};
    (void)snprintf(stream->prefix, sizeof(stream->prefix), "%s", prefix);
}

void ls_stream_add(struct ls_output *output, struct ls_stream *stream, const char *data, size_t size) {
    if (!stream->open || (stream->sink->closed && stream->copy < 0)) return;
    if (stream->copy >= 0 && write(stream->copy, data, size) != (ssize_t)size) {
        ls_output_say(output, "cannot write the copy of %sfor --output-filename: %s", stream->prefix, strerror(errno));
        (void)close(stream->copy);
        stream->copy = -1;
    }
    ls_frame_append(&stream->line, data, size);
    take_lines(output, stream);
}

void ls_stream_close(struct ls_output *output, struct ls_stream *stream) {
    if (!stream->open) return;
    if (stream->line.used) add_unfinished(output, stream, stream->line.used);
    if (stream->copy >= 0) (void)close(stream->copy);
    ls_frame_buffer_free(&stream->line);
    stream->open = false;
    stream->copy = -1;
}
