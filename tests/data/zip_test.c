/* ZIP archives as the format allows them: ZIP64's numbers in any place, other extra fields, comments; and their damage.
 */
#include "data/zip.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/memory.h"
#include "data/reader.h"
#include "harness.h"
#include "property/draw.h"

enum { ROOM = 8192, MOST = 4, MOST_BYTES = 300 };

/* An archive that is written by the rules of APPNOTE 4.3, and what is in it. */
struct sample {
    uint8_t bytes[ROOM];
    size_t size;
    struct file {
        char name[16];
        uint8_t bytes[MOST_BYTES];
        size_t size, offset;
    } files[MOST];
    size_t count;
};

static void put(struct sample *sample, int size, uint64_t value) {
    for (int i = 0; i < size; i++) sample->bytes[sample->size++] = (uint8_t)(value >> 8 * i);
}

static void put_bytes(struct sample *sample, const void *bytes, size_t size) {
    memcpy(sample->bytes + sample->size, bytes, size);
    sample->size += size;
}

/* Version, flags, method, time, date, checksum. */
static void put_common(struct sample *sample, const struct file *file) {
    put(sample, 2, 45), put(sample, 2, 0), put(sample, 2, 0), put(sample, 2, 0), put(sample, 2, 0x21);
    put(sample, 4, ls_reader_crc32(0, file->bytes, file->size));
}

static void put_local(struct sample *sample, struct file *file) {
    file->offset = sample->size;
    put(sample, 4, 0x04034B50);
    put_common(sample, file);
    put(sample, 4, UINT32_MAX), put(sample, 4, UINT32_MAX); /* the directory's sizes count */
    put(sample, 2, strlen(file->name)), put(sample, 2, 0);
    put_bytes(sample, file->name, strlen(file->name));
    put_bytes(sample, file->bytes, file->size);
}

static void put_other_extra(struct sample *sample, struct draw *draw) {
    size_t size = draw_below(draw, 9);
    put(sample, 2, 2 + draw_below(draw, 1000)), put(sample, 2, size);
    for (size_t i = 0; i < size; i++) put(sample, 1, draw_below(draw, 256));
}

/* Each number is in the entry or, drawn, in the extra field. */
static void put_central(struct sample *sample, const struct file *file, struct draw *draw) {
    const bool large[] = {draw_once_in(draw, 2), draw_once_in(draw, 2), draw_once_in(draw, 2)};
    const uint64_t numbers[] = {file->size, file->size, file->offset}; /* unpacked, packed, place */
    int count = large[0] + large[1] + large[2];
    size_t comment = draw_below(draw, 3);
    put(sample, 4, 0x02014B50), put(sample, 2, 45);
    put_common(sample, file);
    put(sample, 4, large[1] ? UINT32_MAX : numbers[1]), put(sample, 4, large[0] ? UINT32_MAX : numbers[0]);
    put(sample, 2, strlen(file->name));
    size_t at = sample->size;
    put(sample, 2, 0), put(sample, 2, comment), put(sample, 8, 0);
    put(sample, 4, large[2] ? UINT32_MAX : numbers[2]);
    put_bytes(sample, file->name, strlen(file->name));
    size_t begin = sample->size;
    if (draw_once_in(draw, 2)) put_other_extra(sample, draw);
    if (count) put(sample, 2, 1), put(sample, 2, (uint64_t)count * 8);
    for (int i = 0; i < 3; i++)
        if (large[i]) put(sample, 8, numbers[i]);
    if (draw_once_in(draw, 2)) put_other_extra(sample, draw);
    sample->bytes[at] = (uint8_t)(sample->size - begin);
    for (size_t i = 0; i < comment; i++) put(sample, 1, 'c');
}

static void put_end(struct sample *sample, size_t directory, struct draw *draw) {
    const bool large[] = {draw_once_in(draw, 2), draw_once_in(draw, 2), draw_once_in(draw, 2)};
    size_t end = sample->size, comment = draw_below(draw, 20);
    if (large[0] || large[1] || large[2]) {
        put(sample, 4, 0x06064B50), put(sample, 8, 44), put(sample, 2, 45), put(sample, 2, 45), put(sample, 8, 0);
        put(sample, 8, sample->count), put(sample, 8, sample->count);
        put(sample, 8, end - directory), put(sample, 8, directory);
        put(sample, 4, 0x07064B50), put(sample, 4, 0), put(sample, 8, end), put(sample, 4, 1);
    }
    put(sample, 4, 0x06054B50), put(sample, 4, 0);
    for (int i = 0; i < 2; i++) put(sample, 2, large[0] ? UINT16_MAX : sample->count);
    put(sample, 4, large[1] ? UINT32_MAX : end - directory), put(sample, 4, large[2] ? UINT32_MAX : directory);
    put(sample, 2, comment);
    for (size_t i = 0; i < comment; i++) put(sample, 1, 'e');
}

static void draw_sample(struct sample *sample, struct draw *draw) {
    *sample = (struct sample){.count = 1 + draw_below(draw, MOST)};
    for (size_t i = 0; i < sample->count; i++) {
        struct file *file = &sample->files[i];
        (void)snprintf(file->name, sizeof(file->name), "%zu.npy", i);
        file->size = draw_below(draw, MOST_BYTES);
        for (size_t k = 0; k < file->size; k++) file->bytes[k] = (uint8_t)draw_below(draw, 256);
        put_local(sample, file);
    }
    size_t directory = sample->size;
    for (size_t i = 0; i < sample->count; i++) put_central(sample, &sample->files[i], draw);
    put_end(sample, directory, draw);
}

/* *right becomes false where a file is another one. */
static ls_status read_all(const struct sample *sample, const uint8_t *bytes, size_t size, bool *right) {
    ls_status status = LS_OK;
    *right = true;
    for (size_t i = 0; i < sample->count && !status; i++) {
        uint8_t *output = NULL;
        size_t length = 0;
        const struct file *file = &sample->files[i];
        status = ls_zip_read(&(struct ls_zip){"a.npz", bytes, size}, file->name, &output, &length);
        if (status) ck_assert_ptr_null(output);
        *right = *right && !status && length == file->size && !memcmp(output, file->bytes, length);
        ls_free(output);
    }
    return status;
}

TEST(numbers_of_zip64_stand_anywhere) {
    struct draw draw = draw_from(first_seed(), 1);
    for (int round = 0; round < 1000; round++) {
        struct sample sample;
        struct ls_names names;
        bool right;
        draw_sample(&sample, &draw);
        assert_ok(read_all(&sample, sample.bytes, sample.size, &right));
        ck_assert(right);
        assert_ok(ls_zip_list(&(struct ls_zip){"a.npz", sample.bytes, sample.size}, &names));
        ck_assert_int_eq(names.count, (int64_t)sample.count);
        for (int64_t i = 0; i < names.count; i++) ck_assert_str_eq(names.names[i], sample.files[i].name);
        ls_files_names_free(&names);
    }
}

/* A byte that matters, or an end that is missing, is an error; the others change nothing. */
TEST(damage_is_found) {
    struct draw draw = draw_from(first_seed(), 2);
    for (int round = 0; round < 3; round++) {
        struct sample sample;
        int found = 0;
        bool right;
        draw_sample(&sample, &draw);
        for (size_t at = 0; at < sample.size; at++) {
            uint8_t *part = malloc(at ? at : 1), change = (uint8_t)(1 + draw_below(&draw, 255));
            memcpy(part, sample.bytes, at); /* of its own size, for AddressSanitizer */
            sample.bytes[at] ^= change;
            bool damaged = read_all(&sample, sample.bytes, sample.size, &right) != LS_OK;
            sample.bytes[at] ^= change;
            ck_assert_msg(damaged || right, "byte %zu of %zu", at, sample.size);
            found += damaged;
            ls_status cut = read_all(&sample, part, at, &right);
            ck_assert_msg(cut ? cut == LS_DATA_LOSS : right, "cut at %zu of %zu", at, sample.size);
            free(part);
        }
        ck_assert_int_ge(found, 30);
    }
}

TESTS("zip", .seconds = 60)
