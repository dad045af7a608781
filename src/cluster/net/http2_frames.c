/* A connection of HTTP/2 (RFC 9113) is a preface of 24 bytes (section 3.4) and then frames (section 4.1). A frame is a
 * header of 9 bytes and a payload: the header has the payload's length (24 bits, big endian), the frame's type (8), its
 * flags (8) and the stream's number (32). This file reads the headers and counts the payloads past, so it needs 9 bytes
 * of memory whatever a stranger sends.
 *
 * It lets through the seven types that gRPC's client sends. It refuses CONTINUATION, with which a stranger could make a
 * header block grow without end, PUSH_PROMISE, which no client may send (section 8.4), and PRIORITY, which is
 * deprecated (section 5.3.2). The size of a frame is no reason: the Hello of 500 workers is longer than the 16 KB that
 * a frame may have at first (section 6.5.2), gRPC's server lets a client send longer ones, and all bytes are counted.
 */
#include "cluster/net/http2_frames.h"

#include <string.h>

#include "base/memory.h"

#define END_HEADERS 4 /* the flag of a header block that no CONTINUATION follows (RFC 9113, section 6.2) */

enum { DATA, HEADERS, PRIORITY, RST_STREAM, SETTINGS, PUSH_PROMISE, PING, GOAWAY, WINDOW_UPDATE };

static const char beginning[] = "PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n";

/* A HEADERS frame opens a call. A worker opens one, and its header block fits into one frame. */
static const char *look_at_call(struct ls_http2_frames *frames, size_t length) {
    bool second = frames->called;
    frames->called = true;
    if (second) return "opens a second call and has not proved to be a worker";
    if (length > LS_FRAMES_HEADERS || !(frames->header[4] & END_HEADERS)) return "opens a call with too many headers";
    return NULL;
}

static const char *look_at_header(struct ls_http2_frames *frames) {
    size_t length = (size_t)frames->header[0] << 16 | (size_t)frames->header[1] << 8 | frames->header[2];
    frames->body = length;
    if (++frames->count > LS_FRAMES_MOST) return "sends more frames of HTTP/2 than a worker takes to prove itself";
    switch (frames->header[3]) {
    case HEADERS:
        return look_at_call(frames, length);
    case DATA:
    case RST_STREAM:
    case SETTINGS:
    case PING:
    case GOAWAY:
    case WINDOW_UPDATE:
        return NULL;
    default:
        return "sends frames of HTTP/2 that no worker sends";
    }
}

/* Compares with the connection preface and returns how many of the bytes belong to it. The listener has seen only its
 * first 14 bytes; the rest may come in any portions. */
static size_t look_at_beginning(struct ls_http2_frames *frames, const uint8_t *bytes, size_t size) {
    size_t part = ls_smaller_size(size, sizeof(beginning) - 1 - frames->read);
    frames->other = memcmp(bytes, beginning + frames->read, part) != 0;
    frames->read += part;
    return part;
}

/* Alternates between two states. With body 0 it fills `header`, and the ninth byte decides on the frame and sets body
 * to the payload's length. With body above 0 it skips payload. A portion may end anywhere, in the middle of a header
 * too, because `header_read` and `body` outlive the call. */
static const char *look_at_frames(struct ls_http2_frames *frames, const uint8_t *bytes, size_t size) {
    const char *why = NULL;
    while (size && !why) {
        size_t part = frames->body ? ls_smaller_size(size, frames->body)
                                   : ls_smaller_size(size, sizeof(frames->header) - frames->header_read);
        if (frames->body) {
            frames->body -= part;
        } else {
            memcpy(frames->header + frames->header_read, bytes, part);
            frames->header_read = (frames->header_read + part) % sizeof(frames->header);
            if (!frames->header_read) why = look_at_header(frames);
        }
        bytes += part;
        size -= part;
    }
    return why;
}

const char *ls_http2_frames_look(struct ls_http2_frames *frames, const uint8_t *bytes, size_t size) {
    if (frames->other) return NULL;
    size_t begun = look_at_beginning(frames, bytes, size);
    if (frames->other) return NULL;
    frames->bytes += size;
    if (frames->bytes > frames->most) return "sends more than a worker takes to prove itself";
    return look_at_frames(frames, bytes + begun, size - begun);
}
