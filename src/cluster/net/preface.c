/* This file encodes the preface of data connections, decodes it with all checks, signs it, and tells the kinds of
 * connections apart by their first bytes. */
#include "cluster/net/preface.h"

#include <string.h>

#include "base/status.h"

static const uint8_t data_magic[8] = {'L', 'S', 'D', 'A', 'T', 'A', '1', '\n'};
static const uint8_t http2_magic[14] = {'P', 'R', 'I', ' ', '*', ' ', 'H', 'T', 'T', 'P', '/', '2', '.', '0'};

void ls_preface_put(uint8_t *bytes, uint64_t value, int count) {
    for (int i = 0; i < count; i++) bytes[i] = (uint8_t)(value >> (8 * i));
}

uint64_t ls_preface_get(const uint8_t *bytes, int count) {
    uint64_t value = 0;
    for (int i = 0; i < count; i++) value |= (uint64_t)bytes[i] << (8 * i);
    return value;
}

/* The fields begin at these bytes: magic 0, protocol 8, rank 12, generation 16, incarnation 24, proof 32, attempt 48,
 * to 56, channel 60, memory 64. */
void ls_preface_encode(const struct ls_preface *preface, uint8_t bytes[LS_PREFACE_SIZE]) {
    memset(bytes, 0, LS_PREFACE_SIZE);
    memcpy(bytes, data_magic, sizeof(data_magic));
    ls_preface_put(bytes + 8, preface->protocol, 4);
    ls_preface_put(bytes + 12, (uint32_t)preface->rank, 4);
    ls_preface_put(bytes + 16, preface->generation, 8);
    ls_preface_put(bytes + 24, preface->incarnation, 8);
    memcpy(bytes + 32, preface->proof, LS_PREFACE_PROOF);
    ls_preface_put(bytes + 48, preface->attempt, 8);
    ls_preface_put(bytes + 56, (uint32_t)preface->to, 4);
    ls_preface_put(bytes + 60, preface->channel, 4);
    memcpy(bytes + 64, preface->memory, LS_PREFACE_MEMORY);
}

/* Computes the HMAC-SHA256 over the encoded preface with zeros in place of the proof. The preface carries the first 16
 * of its 32 bytes: 128 bits, which nobody guesses in the lifetime of a key. */
static bool prove(const struct ls_preface *preface, const uint8_t key[LS_PROOF_SIZE], uint8_t proof[LS_PROOF_SIZE]) {
    struct ls_preface bare = *preface;
    uint8_t bytes[LS_PREFACE_SIZE];
    memset(bare.proof, 0, sizeof(bare.proof));
    ls_preface_encode(&bare, bytes);
    return ls_proof_make((struct ls_secret){key, LS_PROOF_SIZE}, bytes, sizeof(bytes), proof) == LS_OK;
}

bool ls_preface_sign(struct ls_preface *preface, const uint8_t key[LS_PROOF_SIZE]) {
    uint8_t proof[LS_PROOF_SIZE];
    if (!prove(preface, key, proof)) return false;
    memcpy(preface->proof, proof, sizeof(preface->proof)); /* the first half */
    return true;
}

bool ls_preface_is_signed(const struct ls_preface *preface, const uint8_t key[LS_PROOF_SIZE]) {
    uint8_t proof[LS_PROOF_SIZE];
    return prove(preface, key, proof) && ls_proof_equal(preface->proof, proof, sizeof(preface->proof));
}

ls_status ls_preface_decode(const uint8_t bytes[LS_PREFACE_SIZE], struct ls_preface *preface) {
    uint64_t rank = ls_preface_get(bytes + 12, 4), to = ls_preface_get(bytes + 56, 4);
    if (memcmp(bytes, data_magic, sizeof(data_magic)) != 0)
        return ls_fail(LS_INVALID_ARGUMENT, "a data connection has a bad magic");
    if (rank >= LS_MAX_WORKERS || to >= LS_MAX_WORKERS)
        return ls_fail(LS_INVALID_ARGUMENT, "a data connection has a bad rank");
    struct ls_preface decoded = {.protocol = (uint32_t)ls_preface_get(bytes + 8, 4),
                                 .rank = (int)rank,
                                 .to = (int)to,
                                 .generation = ls_preface_get(bytes + 16, 8),
                                 .incarnation = ls_preface_get(bytes + 24, 8),
                                 .attempt = ls_preface_get(bytes + 48, 8),
                                 .channel = (uint32_t)ls_preface_get(bytes + 60, 4)};
    memcpy(decoded.proof, bytes + 32, LS_PREFACE_PROOF);
    memcpy(decoded.memory, bytes + 64, LS_PREFACE_MEMORY);
    *preface = decoded;
    return LS_OK;
}

/* Compares as many bytes as both have. The first three bytes tell the magics apart; where fewer have come, those
 * that still match say MORE alike. */
static bool starts(const uint8_t *bytes, size_t size, const uint8_t *magic, size_t length) {
    return memcmp(bytes, magic, size < length ? size : length) == 0;
}

enum ls_first_bytes ls_preface_first_bytes(const uint8_t *bytes, size_t size) {
    if (!size) return LS_FIRST_MORE;
    if (starts(bytes, size, http2_magic, sizeof(http2_magic)))
        return size >= sizeof(http2_magic) ? LS_FIRST_CONTROL : LS_FIRST_MORE;
    if (starts(bytes, size, data_magic, sizeof(data_magic)))
        return size >= LS_PREFACE_SIZE ? LS_FIRST_DATA : LS_FIRST_MORE;
    if (starts(bytes, size, (const uint8_t *)LS_PROBE_REQUEST, LS_PROBE_SIZE))
        return size >= LS_PROBE_SIZE ? LS_FIRST_PROBE : LS_FIRST_MORE;
    if (starts(bytes, size, (const uint8_t *)LS_MEET_MAGIC, sizeof(LS_MEET_MAGIC) - 1))
        return size >= LS_MEET_SIZE ? LS_FIRST_MEET : LS_FIRST_MORE;
    return LS_FIRST_JUNK;
}
