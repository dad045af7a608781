/* The workers' output, merged: bytes go in as they come from the pipes, whole lines with the rank before them go out.
 *
 * A line ends at '\n' or '\r' (a progress bar redraws itself with '\r'; "\r\n" is one end). Lines are never mixed with
 * one another, the last unfinished one is completed, and one longer than LS_LINE_LIMIT is broken, between UTF-8
 * characters. Bytes are passed through unread. A sink is written to only when it takes bytes, so that nobody waits for
 * a reader; while a sink is behind, the workers' pipes are left full, as they would be without the launcher. */
#pragma once
#include <stdbool.h>
#include <stddef.h>

#include "launch/run_frame.h"

#define LS_LINE_LIMIT ((size_t)1 << 20)

struct ls_stream;
/* Standard output or standard error of the launcher. */
struct ls_sink {
    int fd;
    bool terminal, stream_like; /* stream_like: may make a writer wait (pipe, terminal, socket) */
    bool closed;                /* its reader has gone: output to it is dropped */
    struct ls_frame_buffer waits;
    const struct ls_stream *last; /* whose line was added last */
};
struct ls_output {
    struct ls_sink out, err;
    const struct ls_stream *bar; /* whose line, ended by '\r', stands on the terminal now */
    bool times;                  /* the time before each line of a worker */
};
/* One pipe of one worker, which its agent reads. */
struct ls_stream {
    bool open; /* until its end */
    int copy;  /* a file that gets the bytes as well; -1 without */
    struct ls_sink *sink;
    char prefix[16];
    struct ls_frame_buffer line; /* the unfinished one, whose first scanned bytes hold no end */
    size_t scanned;
    bool after_return; /* the last line ended in '\r' at the end of the bytes read */
};

void ls_output_init(struct ls_output *output);
void ls_output_free(struct ls_output *output);
/* Writes as much as the sinks take now. */
void ls_output_flush(struct ls_output *output);
/* Adds "lockstep run: ..." as one line to standard error. */
void ls_output_say(struct ls_output *output, const char *format, ...) __attribute__((format(printf, 2, 3)));
/* True if the sink is so far behind that its streams should not be read. */
bool ls_sink_behind(const struct ls_sink *sink);

void ls_stream_init(struct ls_stream *stream, struct ls_sink *sink, const char *prefix);
/* Adds the lines that are complete with these bytes. */
void ls_stream_add(struct ls_output *output, struct ls_stream *stream, const char *data, size_t size);
/* Adds the unfinished line and closes. */
void ls_stream_close(struct ls_output *output, struct ls_stream *stream);
