/* The stream between lockstep run and an agent, from any bytes: whole frames come out as they would if they came byte
 * by byte, texts stay in their payload, and what is no frame ends the stream. */
#include <stdlib.h>
#include <string.h>

#include "launch/run_frame.h"
#include "fuzz/fuzz.h"

static void require(bool condition) {
    if (!condition) abort();
}

static void read_texts(struct ls_run_frame frame) {
    const char *end = frame.data + frame.size;
    struct ls_run_frame numbers = frame;
    int number = 7;
    for (const char *text; (text = ls_frame_text(&frame));) require(text + strlen(text) < end);
    require(frame.data + frame.size == end);
    while (numbers.size && memchr(numbers.data, 0, numbers.size))
        if (ls_frame_number(&numbers, 1, 2048, &number)) require(number >= 1 && number <= 2048);
}

/* The same bytes in pieces of step give the same frames. */
static void read_in_steps(const uint8_t *data, size_t size, size_t step, int *frames, size_t *bytes, int *last) {
    struct ls_frame_buffer buffer = {0};
    struct ls_run_frame frame;
    *frames = *last = 0;
    *bytes = 0;
    for (size_t at = 0; at < size && *last >= 0; at += step) {
        ls_frame_append(&buffer, data + at, size - at < step ? size - at : step);
        while ((*last = ls_frame_next(&buffer, &frame)) > 0) {
            require(frame.kind > 0 && frame.kind < LS_FRAME_KINDS && frame.rank >= 0 && frame.size <= LS_FRAME_LIMIT);
            ++*frames;
            *bytes += frame.size;
            read_texts(frame);
        }
    }
    ls_frame_buffer_free(&buffer);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size) {
    int frames, others, last, other_last;
    size_t bytes, other_bytes;
    if (size > 65536) return 0;
    read_in_steps(data, size, size ? size : 1, &frames, &bytes, &last);
    read_in_steps(data, size, 7, &others, &other_bytes, &other_last);
    require(frames == others && bytes == other_bytes && last == other_last);
    return 0;
}
