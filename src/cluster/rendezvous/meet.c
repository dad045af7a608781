/* Encodes and decodes the words of a rendezvous. It checks what a stranger says. */
#include "cluster/rendezvous/meet.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/memory.h"
#include "base/status.h"
#include "resolver/tf_config.h"

#define ROSTER_MOST ((size_t)LS_MAX_WORKERS * 300)
#define MAGIC       8

static const char answer_magic[MAGIC + 1] = "LSROOM1\n";

void ls_meet_encode_ask(const struct ls_meet_ask *ask, uint8_t bytes[LS_MEET_SIZE]) {
    memcpy(bytes, LS_MEET_MAGIC, MAGIC);
    ls_preface_put(bytes + 8, ask->protocol, 4);
    ls_preface_put(bytes + 12, (uint32_t)ask->rank, 4);
    ls_preface_put(bytes + 16, (uint32_t)ask->size, 4);
    ls_preface_put(bytes + 20, (uint32_t)ask->port, 2);
    ls_preface_put(bytes + 22, ask->token, 2);
    ls_preface_put(bytes + 24, ask->job, 8);
    memcpy(bytes + 32, ask->nonce, LS_MEET_NONCE);
}

ls_status ls_meet_decode_ask(const uint8_t bytes[LS_MEET_SIZE], struct ls_meet_ask *ask) {
    uint64_t rank = ls_preface_get(bytes + 12, 4), size = ls_preface_get(bytes + 16, 4),
             port = ls_preface_get(bytes + 20, 2);
    if (memcmp(bytes, LS_MEET_MAGIC, MAGIC) != 0) return ls_fail(LS_INVALID_ARGUMENT, "it has a bad magic");
    if (size < 2 || size > LS_MAX_WORKERS)
        return ls_fail(LS_INVALID_ARGUMENT, "it says that there are %llu workers", (unsigned long long)size);
    if (rank >= size)
        return ls_fail(LS_INVALID_ARGUMENT, "it says that it is rank %llu of %llu", (unsigned long long)rank,
                       (unsigned long long)size);
    if (!port || ls_preface_get(bytes + 22, 2) > 1) return ls_fail(LS_INVALID_ARGUMENT, "it has a bad port or flag");
    *ask = (struct ls_meet_ask){.protocol = (uint32_t)ls_preface_get(bytes + 8, 4),
                                .rank = (int)rank,
                                .size = (int)size,
                                .port = (int)port,
                                .token = bytes[22],
                                .job = ls_preface_get(bytes + 24, 8)};
    memcpy(ask->nonce, bytes + 32, LS_MEET_NONCE);
    return LS_OK;
}

void ls_meet_encode_answer(const struct ls_meet_answer *answer, uint8_t bytes[LS_MEET_HEADER]) {
    memset(bytes, 0, LS_MEET_HEADER);
    memcpy(bytes, answer_magic, MAGIC);
    ls_preface_put(bytes + 8, (uint32_t)answer->kind, 4);
    ls_preface_put(bytes + 12, (uint32_t)answer->code, 4);
    ls_preface_put(bytes + 16, answer->length, 4);
    memcpy(bytes + 20, answer->proof, LS_PROOF_SIZE);
}

static bool fits(const struct ls_meet_answer *answer) {
    switch (answer->kind) {
    case LS_MEET_CHALLENGE:
        return answer->length == LS_MEET_NONCE && !answer->code;
    case LS_MEET_ROSTER:
        return answer->length > 0 && answer->length <= ROSTER_MOST && !answer->code;
    case LS_MEET_REFUSAL:
        return answer->length > 0 && answer->length < LS_ERROR_SIZE && answer->code > LS_OK &&
               answer->code <= LS_UNAUTHENTICATED;
    default:
        return false;
    }
}

ls_status ls_meet_decode_answer(const uint8_t bytes[LS_MEET_HEADER], struct ls_meet_answer *answer) {
    struct ls_meet_answer decoded = {.kind = (enum ls_meet_kind)ls_preface_get(bytes + 8, 4),
                                     .code = (ls_status)ls_preface_get(bytes + 12, 4),
                                     .length = (size_t)ls_preface_get(bytes + 16, 4)};
    if (memcmp(bytes, LS_TLS_HERE, sizeof(LS_TLS_HERE) - 1) == 0)
        return ls_fail(LS_INVALID_ARGUMENT, "it has TLS and this worker has none: set LOCKSTEP_TLS_* on all, or on "
                                            "none");
    if (memcmp(bytes, answer_magic, MAGIC) != 0 || ls_preface_get(bytes + 52, 4) || !fits(&decoded))
        return ls_fail(LS_INVALID_ARGUMENT, "its answer is none of Lockstep's");
    memcpy(decoded.proof, bytes + 20, LS_PROOF_SIZE);
    *answer = decoded;
    return LS_OK;
}

char *ls_meet_print_roster(const struct ls_cluster_view *spec, size_t *length) {
    char *text = NULL;
    FILE *out = open_memstream(&text, length);
    for (int i = 0; out && i < spec->task_count; i++) (void)fprintf(out, "%s\n", spec->tasks[i].address);
    if (out && !fclose(out)) return text;
    free(text);
    return NULL;
}

static ls_status read_line(struct ls_task *task, const char *line, size_t length) {
    char address[300], key[40], *host = NULL;
    int port;
    if (length >= sizeof(address))
        return ls_fail(LS_INVALID_ARGUMENT, "the roster has an address of %zu bytes", length);
    memcpy(address, line, length);
    address[length] = 0;
    (void)snprintf(key, sizeof(key), "the roster's rank %d", task->index);
    ls_status status = ls_tf_config_address_parse(key, address, &host, &port);
    if (!status) status = ls_cluster_view_place(task, host, port);
    ls_free(host);
    return status;
}

ls_status ls_meet_read_roster(struct ls_cluster_view *spec, const char *text, size_t length) {
    const char *end = text + length;
    int rank = 0;
    for (const char *next; text < end; text = next + 1, rank++) {
        next = memchr(text, '\n', (size_t)(end - text));
        if (!next || rank == spec->task_count) break;
        ls_status status = read_line(&spec->tasks[rank], text, (size_t)(next - text));
        if (status) return status;
    }
    if (text != end || rank != spec->task_count)
        return ls_fail(LS_INVALID_ARGUMENT, "the roster has not the addresses of %d workers", spec->task_count);
    return LS_OK;
}

bool ls_meet_prove(struct ls_secret token, const char *purpose, const struct ls_meet_ask *ask,
                   const uint8_t nonce[LS_MEET_NONCE], struct ls_secret text, uint8_t proof[LS_PROOF_SIZE]) {
    uint8_t bytes[LS_MEET_SIZE];
    char *all = NULL;
    size_t size = 0;
    FILE *out = open_memstream(&all, &size);
    if (!out) return false;
    ls_meet_encode_ask(ask, bytes);
    (void)fprintf(out, "lockstep %u meet %s\n", LS_PROTOCOL_VERSION, purpose);
    (void)fwrite(bytes, 1, sizeof(bytes), out);
    (void)fwrite(nonce, 1, LS_MEET_NONCE, out);
    if (text.size) (void)fwrite(text.data, 1, text.size, out);
    bool made = !fclose(out) && ls_proof_make(token, all, size, proof) == LS_OK;
    free(all);
    return made;
}
