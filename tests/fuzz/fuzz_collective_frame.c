/* A collective's frame from any bytes: decoding ends with a frame or with one error; what decodes encodes to the same
 * bytes, equals itself, and differs from another call with one named error. */
#include <stdlib.h>
#include <string.h>

#include "collective/run/frame.h"
#include "fuzz/fuzz.h"

#include <lockstep/lockstep.h>

static void require(bool condition) {
    if (!condition) abort();
}

static void check_frame(const struct ls_frame *frame, const uint8_t *bytes) {
    uint8_t again[LS_FRAME_SIZE];
    ls_frame_encode(frame, again);
    require(!memcmp(bytes, again, sizeof(again)));
    require(ls_frame_compare(frame, frame, 0, 1, NULL) == LS_OK);
    struct ls_frame other = *frame;
    other.sequence++;
    require(ls_frame_compare(&other, frame, 0, 1, NULL) == LS_INVALID_ARGUMENT && strstr(ls_error(), " differs: "));
    const struct ls_frame_text call = ls_frame_describe(frame);
    require(strlen(call.text) < sizeof(call.text));
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size) {
    unsigned char bytes[LS_FRAME_SIZE] = {0};
    struct ls_frame frame;
    memcpy(bytes, data, size < sizeof(bytes) ? size : sizeof(bytes));
    ls_status status = ls_frame_decode(bytes, &frame);
    require(status == LS_OK || (status == LS_DATA_LOSS && ls_error()[0]));
    if (!status) check_frame(&frame, bytes);
    return 0;
}
