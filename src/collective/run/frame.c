/* The wire form of a frame and the comparison of two. Decoding checks every byte: a frame that decodes encodes to the
 * same bytes. */
#include "collective/run/frame.h"

#include <endian.h>
#include <math.h>
#include <stdio.h>
#include <string.h>

#include "base/shape.h"
#include "base/float_bits.h"
#include "base/options.h"
#include "base/random.h"
#include "base/status.h"
#include "collective/schedule/reduction.h"
#include "base/plain.h"

#define MAGIC   UINT32_C(0x4643534C) /* "LSCF" */
#define VERSION 2

const char *ls_frame_collective_name(int kind) {
    static const char *const names[] = {"all_reduce", "broadcast", "all_gather", "barrier", "reduce_scatter",
                                        "all_to_all", "send",      "push",       "pull"};
    if (kind == LS_KIND_FAILURE) return "failure";
    return kind >= LS_KIND_ALL_REDUCE && kind <= LS_KIND_PULL ? names[kind - 1] : "unknown";
}

#define NAMER(name, type, name_of)                                                                                     \
    static const char *name(int value) {                                                                               \
        return name_of((type)value);                                                                                   \
    }
NAMER(communication_name, ls_communication, ls_option_names_communication)
NAMER(op_name, ls_reduce_op, ls_option_names_reduce_op)
NAMER(compression_name, ls_compression, ls_option_names_compression)
NAMER(dtype_name, ls_dtype, ls_dtype_name)

/* The place of each field in the struct and on the wire (a double as its bits), in the order in which differences are
 * reported. */
static const struct field {
    const char *label;
    size_t offset, wire;
    int width;              /* bytes on the wire; the struct holds uint64_t for 8, int32_t for 4 and 1 */
    ls_frame_name_fn *text; /* of a value that has a name */
} fields[] = {
    {"generation", offsetof(struct ls_frame, generation), 8, 8, NULL},
    {"size of the group", offsetof(struct ls_frame, size), 68, 4, NULL},
    {"rank at the other end", offsetof(struct ls_frame, rank), 64, 4, NULL},
    {"sequence", offsetof(struct ls_frame, sequence), 16, 8, NULL},
    {"kind", offsetof(struct ls_frame, kind), 76, 1, ls_frame_collective_name},
    {"name", offsetof(struct ls_frame, name_digest), 56, 8, NULL},
    {"dtype", offsetof(struct ls_frame, dtype), 78, 1, dtype_name},
    {"op", offsetof(struct ls_frame, op), 77, 1, op_name},
    {"communication", offsetof(struct ls_frame, communication), 79, 1, communication_name},
    {"root", offsetof(struct ls_frame, root), 72, 4, NULL},
    {"count", offsetof(struct ls_frame, count), 24, 8, NULL},
    {"total", offsetof(struct ls_frame, total), 32, 8, NULL},
    {"digest of the layout over ranks", offsetof(struct ls_frame, layout), 40, 8, NULL},
    {"compression", offsetof(struct ls_frame, compression), 81, 1, compression_name},
    {"prescale", offsetof(struct ls_frame, prescale), 144, 8, NULL},
    {"postscale", offsetof(struct ls_frame, postscale), 152, 8, NULL},
    {"algorithm", offsetof(struct ls_frame, algorithm), 80, 1, NULL},
    {"bytes that follow", offsetof(struct ls_frame, bytes), 48, 8, NULL},
};
#define FIELD_COUNT   (sizeof(fields) / sizeof(fields[0]))
#define WIRE_RESERVED 82 /* zero up to the name */
#define WIRE_NAME     84

static uint64_t field_value(const struct ls_frame *frame, const struct field *field) {
    const char *at = (const char *)frame + field->offset;
    uint64_t wide;
    int32_t narrow;
    if (field->width == 8) {
        memcpy(&wide, at, sizeof(wide));
        return wide;
    }
    memcpy(&narrow, at, sizeof(narrow));
    return (uint64_t)(int64_t)narrow;
}

static void field_set(struct ls_frame *frame, const struct field *field, uint64_t value) {
    char *at = (char *)frame + field->offset;
    int32_t narrow = (int32_t)(uint32_t)value;
    if (field->width == 8)
        memcpy(at, &value, sizeof(value));
    else
        memcpy(at, &narrow, sizeof(narrow));
}

/* The common widths as constants: one store each. */
static void put_word(unsigned char *bytes, uint64_t value, int width) {
    value = htole64(value);
    if (width == 8)
        memcpy(bytes, &value, 8);
    else if (width == 4)
        memcpy(bytes, &value, 4);
    else
        memcpy(bytes, &value, (size_t)width);
}

static uint64_t get(const unsigned char *bytes, int width) {
    uint64_t value = 0;
    memcpy(&value, bytes, (size_t)width);
    return le64toh(value);
}

void ls_frame_name(struct ls_frame *frame, const char *name) {
    memset(frame->name, 0, sizeof(frame->name));
    for (size_t i = 0; name[i] && i + 1 < sizeof(frame->name); i++) {
        unsigned char byte = (unsigned char)name[i];
        frame->name[i] = byte < 0x20 || byte == 0x7F ? '?' : name[i];
    }
    frame->name_digest = ls_random_stream(name);
}

void ls_frame_encode(const struct ls_frame *frame, unsigned char bytes[LS_FRAME_SIZE]) {
    put_word(bytes, MAGIC, 4);
    put_word(bytes + 4, VERSION, 4);
    for (size_t i = 0; i < FIELD_COUNT; i++)
        put_word(bytes + fields[i].wire, field_value(frame, &fields[i]), fields[i].width);
    put_word(bytes + WIRE_RESERVED, 0, WIRE_NAME - WIRE_RESERVED);
    memcpy(bytes + WIRE_NAME, frame->name, LS_FRAME_NAME);
}

static bool name_is_well_formed(const char name[LS_FRAME_NAME]) {
    size_t length = strnlen(name, LS_FRAME_NAME);
    for (size_t i = 0; i < LS_FRAME_NAME; i++) {
        unsigned char byte = (unsigned char)name[i];
        if (i < length ? byte < 0x20 || byte == 0x7F : byte) return false;
    }
    return length < LS_FRAME_NAME;
}

static ls_status check_kind(const struct ls_frame *frame) {
    if (frame->kind == LS_KIND_FAILURE) {
        if (frame->count > LS_OK && frame->count <= LS_UNAUTHENTICATED && frame->bytes && frame->bytes < LS_ERROR_SIZE)
            return LS_OK;
        return ls_fail(LS_DATA_LOSS, "a frame tells of a failure with status %llu in %llu bytes",
                       (unsigned long long)frame->count, (unsigned long long)frame->bytes);
    }
    if (frame->kind < LS_KIND_ALL_REDUCE || frame->kind > LS_KIND_PULL)
        return ls_fail(LS_DATA_LOSS, "a collective's frame has the unknown kind %d", frame->kind);
    return LS_OK;
}

static ls_status check_values(const struct ls_frame *frame) {
    ls_status status = check_kind(frame);
    if (status) return status;
    if (ls_dtype_check((ls_dtype)frame->dtype) || ls_option_names_check_reduce_op((ls_reduce_op)frame->op) ||
        frame->communication > LS_NCCL)
        return ls_fail(LS_DATA_LOSS, "a collective's frame has dtype %d, op %d, communication %d: not all known",
                       frame->dtype, frame->op, frame->communication);
    if (frame->algorithm >= LS_ALGORITHM_COUNT || frame->compression > LS_COMPRESS_BF16)
        return ls_fail(LS_DATA_LOSS, "a collective's frame has algorithm %d, compression %d: not all known",
                       frame->algorithm, frame->compression);
    if (frame->size < 1 || frame->rank < 0 || frame->rank >= frame->size || frame->root < -1 ||
        frame->root >= frame->size)
        return ls_fail(LS_DATA_LOSS, "a collective's frame has rank %d, root %d in a group of %d", frame->rank,
                       frame->root, frame->size);
    if (!isfinite(frame->prescale) || !isfinite(frame->postscale))
        return ls_fail(LS_DATA_LOSS, "a collective's frame has prescale %g, postscale %g: not finite", frame->prescale,
                       frame->postscale);
    if (!name_is_well_formed(frame->name)) return ls_fail(LS_DATA_LOSS, "a collective's frame has a broken name");
    return LS_OK;
}

ls_status ls_frame_decode(const unsigned char bytes[LS_FRAME_SIZE], struct ls_frame *frame) {
    struct ls_frame read = {0};
    if (get(bytes, 4) != MAGIC)
        return ls_fail(LS_DATA_LOSS, "what came is no collective's frame (it begins %02x %02x %02x %02x)", bytes[0],
                       bytes[1], bytes[2], bytes[3]);
    if (get(bytes + 4, 4) != VERSION)
        return ls_fail(LS_DATA_LOSS, "a collective's frame has version %llu, this library speaks %d",
                       (unsigned long long)get(bytes + 4, 4), VERSION);
    if (get(bytes + WIRE_RESERVED, WIRE_NAME - WIRE_RESERVED))
        return ls_fail(LS_DATA_LOSS, "a collective's frame is not zero where it must be");
    for (size_t i = 0; i < FIELD_COUNT; i++) field_set(&read, &fields[i], get(bytes + fields[i].wire, fields[i].width));
    memcpy(read.name, bytes + WIRE_NAME, LS_FRAME_NAME);
    ls_status status = check_values(&read);
    if (!status) *frame = read;
    return status;
}

static void field_text(const struct ls_frame *frame, const struct field *field, ls_frame_name_fn *algorithm_name,
                       char text[LS_FRAME_NAME + 2]) {
    uint64_t value = field_value(frame, field);
    if (field->offset == offsetof(struct ls_frame, prescale) || field->offset == offsetof(struct ls_frame, postscale))
        (void)ls_plain_text(text, LS_FRAME_NAME + 2, "%.17g", ls_float_bits_double(value));
    else if (field->offset == offsetof(struct ls_frame, name_digest))
        (void)snprintf(text, LS_FRAME_NAME + 2, "'%s'", frame->name);
    else if (field->offset == offsetof(struct ls_frame, algorithm))
        (void)snprintf(text, LS_FRAME_NAME + 2, "%s", algorithm_name((int)value));
    else if (field->text)
        (void)snprintf(text, LS_FRAME_NAME + 2, "%s", field->text((int)value));
    else if (field->width == 8)
        (void)snprintf(text, LS_FRAME_NAME + 2, "%llu", (unsigned long long)value);
    else
        (void)snprintf(text, LS_FRAME_NAME + 2, "%lld", (long long)value);
}

ls_status ls_frame_compare(const struct ls_frame *expected, const struct ls_frame *got, int own, int peer,
                           ls_frame_name_fn *algorithm_name) {
    char ours[LS_FRAME_NAME + 2], theirs[LS_FRAME_NAME + 2];
    for (size_t i = 0; i < FIELD_COUNT; i++) {
        if (field_value(expected, &fields[i]) == field_value(got, &fields[i])) continue;
        field_text(expected, &fields[i], algorithm_name, ours);
        field_text(got, &fields[i], algorithm_name, theirs);
        return ls_fail(LS_INVALID_ARGUMENT,
                       "%s: %s differs: %s on rank %d, %s on rank %d; every rank must make the same calls in the same "
                       "order",
                       ls_frame_describe(expected).text, fields[i].label, ours, own, theirs, peer);
    }
    return LS_OK;
}

struct ls_frame_text ls_frame_describe(const struct ls_frame *frame) {
    struct ls_frame_text call;
    (void)snprintf(call.text, sizeof(call.text), "%s '%s' (sequence %llu)", ls_frame_collective_name(frame->kind),
                   frame->name, (unsigned long long)frame->sequence);
    return call;
}
