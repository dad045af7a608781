/* A stranger may send as much HTTP/2 as one call with a Hello takes, and no more, until it has proved to be a worker.
 * gRPC itself sets no such limit: each call that is opened and reset at once costs it 13 KB (docs/security.md,
 * "Strangers"). The check reads the bytes on their way through the relay, in portions of any size, and keeps no state
 * but this struct. */
#pragma once
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#define LS_FRAMES_MOST    128 /* frames; a worker sends about ten, and one more for each 16 KB of its Hello */
#define LS_FRAMES_HEADERS 8192

struct ls_http2_frames { /* begins as zeros but for most */
    size_t bytes, most;  /* that have come; that may come in all */
    size_t read;         /* bytes of HTTP/2's connection preface that have come */
    bool other;          /* it began with something else, and is not checked */
    uint8_t header[9];
    size_t header_read, body; /* bytes of the present frame's header that have come; bytes of its payload yet to come */
    int count;                /* of frames */
    bool called;              /* a HEADERS frame has come */
};
/* Returns NULL when these bytes may pass, else the reason against them, in words that go on from "it". */
const char *ls_http2_frames_look(struct ls_http2_frames *frames, const uint8_t *bytes, size_t size);
