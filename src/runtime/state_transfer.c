/* Transfer of a process's state to a joining worker. The source sends size and checksum of all parts, then the bytes of
 * each. The receiver keeps the bytes beside its own state until all checksums are right, so the loss of the source
 * tears nothing. */
#include "runtime/state_transfer.h"

#include "base/record_frame.h"
#include "base/difference.h"
#include "base/memory.h"
#include "base/status.h"
#include "collective/collectives.h"

/* It is broadcast as words. */
struct heading {
    int64_t size;     /* bytes; the negated status if the source could not give the part */
    int64_t checksum; /* their CRC-32C */
};
#define WORDS_OF_HEADINGS (LS_STATE_PARTS * sizeof(struct heading) / sizeof(int64_t))

struct part {
    struct ls_bytes bytes;
    void *made; /* owns: the bytes, if they are not borrowed */
};

static size_t words(size_t size) {
    return ls_state_transfer_round(size) / sizeof(int64_t);
}

static ls_status encode_part(const struct ls_runtime *runtime, int index, struct part *part) {
    const struct ls_state_source *source = &runtime->sources[index];
    part->bytes = runtime->inherited[index];
    if (part->bytes.data || !source->encode) return LS_OK;
    return source->encode(source->context, &part->bytes, &part->made);
}

static void describe_parts(const struct ls_runtime *runtime, struct part *parts, struct heading *headings) {
    bool any = false;
    for (int i = 0; i < LS_STATE_PARTS; i++) {
        const struct ls_bytes *bytes = &parts[i].bytes;
        ls_status status = encode_part(runtime, i, &parts[i]);
        headings[i].size = status ? -(int64_t)status : (int64_t)bytes->size;
        headings[i].checksum = status ? 0 : ls_crc32c(bytes->data, bytes->size);
        any = any || headings[i].size;
    }
    if (!any) headings[0].size = -(int64_t)LS_INTERNAL;
}

static ls_status broadcast_part(struct ls_runtime *runtime, int source, const struct heading *heading,
                                struct part *part) {
    if (heading->size < 0) return ls_fail((ls_status)-heading->size, "rank %d cannot give its state", source);
    if (!heading->size) return LS_OK;
    size_t size = (size_t)heading->size;
    if (!part->bytes.data) {
        part->made = ls_alloc(words(size) * sizeof(int64_t));
        part->bytes = (struct ls_bytes){part->made, size};
    }
    if (!part->bytes.data) return ls_fail_memory("the state of another worker", size);
    ls_status status =
        ls_group_broadcast(runtime->group, LS_BROADCAST("state", part->bytes.data, words(size), LS_INT64, source));
    if (status || ls_crc32c(part->bytes.data, size) == heading->checksum) return status;
    return ls_fail(LS_DATA_LOSS, "the state of %zu bytes has changed on its way", size);
}

/* Takes the parts as this process's state. */
static void keep_parts(struct ls_runtime *runtime, const struct ls_generation *generation, struct part *parts) {
    size_t size = 0;
    for (int i = 0; i < LS_STATE_PARTS; i++) {
        ls_state_transfer_drop(runtime, (enum ls_state_part)i);
        runtime->inherited[i] = parts[i].bytes;
        parts[i].made = NULL;
        size += parts[i].bytes.size;
    }
    runtime->holds = true;
    runtime->position = generation->position;
    ls_log_info(&runtime->log, "took the state of the training over from rank %d (%zu bytes)", generation->source,
                size);
}

/* All members receive both broadcasts, also those whose state is whole: a collective has all members, and the bytes
 * go from host to host through them. It costs each the memory of one more state until the end. */
ls_status ls_state_transfer_copy(struct ls_runtime *runtime, const struct ls_generation *generation) {
    struct heading headings[LS_STATE_PARTS] = {0};
    struct part parts[LS_STATE_PARTS] = {0};
    if (runtime->rank == generation->source) describe_parts(runtime, parts, headings);
    ls_status status =
        ls_group_broadcast(runtime->group, LS_BROADCAST("headings of the state", headings, WORDS_OF_HEADINGS, LS_INT64,
                                                        generation->source));
    for (int i = 0; i < LS_STATE_PARTS && !status; i++)
        status = broadcast_part(runtime, generation->source, &headings[i], &parts[i]);
    if (!status && generation->lacks) keep_parts(runtime, generation, parts);
    for (int i = 0; i < LS_STATE_PARTS; i++) ls_free(parts[i].made);
    return status;
}

ls_status ls_state_transfer_compare(const struct ls_runtime *runtime, const char *what, const char *given,
                                    const char *own) {
    struct ls_difference difference;
    if (!ls_line_difference_find(given, own, &difference)) return LS_OK;
    return ls_fail(LS_INVALID_ARGUMENT,
                   "%s differs: '%s' in the %s that goes on, '%s' on rank %d, which came back; start it as it was "
                   "started before",
                   difference.field, difference.first, what, difference.second, runtime->rank);
}

void ls_state_transfer_drop(struct ls_runtime *runtime, enum ls_state_part part) {
    ls_free(runtime->inherited[part].data);
    runtime->inherited[part] = (struct ls_bytes){NULL, 0};
}

void ls_state_transfer_commit(struct ls_runtime *runtime) {
    runtime->holds = true;
    runtime->position++;
}

void ls_state_transfer_forget(struct ls_runtime *runtime) {
    for (int i = 0; i < LS_STATE_PARTS; i++) ls_state_transfer_drop(runtime, (enum ls_state_part)i);
    runtime->holds = false;
    runtime->position = 0;
}
