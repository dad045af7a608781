/* Rounds of calls begun from any bytes: headers and fingerprints, rank after rank. Each is taken or refused with one
 * error; what is ready was begun by all ranks but those that have joined, and each name stands in the table once. */
#include <stdlib.h>
#include <string.h>

#include "base/status.h"
#include "fuzz/fuzz.h"
#include "runtime/negotiation.h"

enum { SIZE = 3 };

static void require(bool condition) {
    if (!condition) abort();
}

/* Each call stands once, and waits as long as a rank is missing. */
static void check_list(const struct ls_negotiation *negotiation, const struct ls_negotiated_list *list, bool waits) {
    char text[300];
    for (const struct ls_negotiated *call = TAILQ_FIRST(list); call; call = TAILQ_NEXT(call, link)) {
        int begun = 0, missing = 0;
        for (int rank = 0; rank < SIZE; rank++) begun += call->begun[rank];
        for (int rank = 0; rank < SIZE; rank++) missing += !call->begun[rank] && !negotiation->joined[rank];
        require(begun > 0 && missing == call->missing && waits == (missing > 0));
        for (const struct ls_negotiated *later = TAILQ_NEXT(call, link); later; later = TAILQ_NEXT(later, link))
            require(call->frame.name_digest != later->frame.name_digest);
        ls_negotiation_describe(negotiation, call, text, sizeof(text));
        require(strlen(text) < sizeof(text) && strstr(text, "begun by rank"));
    }
}

static void check_table(const struct ls_negotiation *negotiation) {
    check_list(negotiation, &negotiation->waiting, true);
    check_list(negotiation, &negotiation->ready, false);
}

static void make_ready(struct ls_negotiation *negotiation) {
    struct ls_negotiated *call;
    while ((call = ls_negotiation_ready(negotiation))) {
        for (int rank = 0; rank < SIZE; rank++) require(call->begun[rank] || negotiation->joined[rank]);
        ls_negotiation_remove(negotiation, call);
    }
    if (negotiation->joined_count == SIZE) ls_negotiation_part(negotiation);
}

/* Reads the header and the fingerprints of rank, and moves on. */
static ls_status read_rank(struct ls_negotiation *negotiation, int rank, const uint8_t **data, size_t *size) {
    unsigned char bytes[LS_FRAME_SIZE] = {0};
    size_t count = 0, taken = *size < LS_ROUND_HEADER ? *size : LS_ROUND_HEADER;
    bool joined = false;
    memcpy(bytes, *data, taken);
    *data += taken, *size -= taken;
    ls_status status = ls_negotiation_read_header(bytes, &count, &joined);
    for (size_t i = 0; i < count && *size >= LS_FRAME_SIZE && !status; i++) {
        status = ls_negotiation_read(negotiation, rank, *data);
        *data += LS_FRAME_SIZE, *size -= LS_FRAME_SIZE;
    }
    if (!status && joined) ls_negotiation_join(negotiation, rank);
    return status;
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size) {
    struct ls_negotiation negotiation;
    ls_status status = ls_negotiation_init(&negotiation, SIZE);
    for (int turn = 0; size && !status; turn++) {
        status = read_rank(&negotiation, turn % SIZE, &data, &size);
        require(!status || ((status == LS_DATA_LOSS || status == LS_INVALID_ARGUMENT) && ls_error()[0]));
        check_table(&negotiation);
        if (turn % SIZE == SIZE - 1 && !status) make_ready(&negotiation);
    }
    ls_negotiation_free(&negotiation);
    return 0;
}
