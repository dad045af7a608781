/* Reading and writing files of tokens: llm.c's (llmc/dataloader.h), nanoGPT's, and numbers in text. */
#include <string.h>

#include "base/grow.h"
#include "base/plain.h"
#include "base/status.h"
#include "data/token_file.h"
#include "tools/tokens_file.h"

#define SMALL_IDS 65536 /* that uint16 holds */

ls_status ls_tokens_file_add(struct ls_tokens_list *tokens, const int32_t *ids, size_t count) {
    size_t needed = tokens->count + count + 1; /* of no token, too, there is a list */
    ls_status status = LS_GROW(tokens->ids, tokens->room, needed, 1024, "tokens");
    if (status || !count) return status;
    memcpy(tokens->ids + tokens->count, ids, count * sizeof(*ids));
    tokens->count += count;
    return LS_OK;
}

/* ---- formats ---- */

static bool is_binary(const char *path) {
    size_t length = strlen(path);
    return length > 4 && ls_plain_same(path + length - 4, ".bin");
}

ls_status ls_tokens_file_named(const char *name, const char *path, enum ls_tokens_format *format) {
    static const char *const names[] = {"text", "llmc", "uint16"};
    *format = path && is_binary(path) ? LS_TOKENS_FILE_LLMC : LS_TOKENS_FILE_TEXT;
    if (!name) return LS_OK;
    for (size_t i = 0; i < sizeof(names) / sizeof(*names); i++) {
        if (strcmp(names[i], name) != 0) continue;
        *format = (enum ls_tokens_format)i;
        return LS_OK;
    }
    return ls_fail(LS_INVALID_ARGUMENT, "format '%s': it is none of text, llmc and uint16", name);
}

static uint32_t number_at(const char *bytes, size_t width) {
    uint32_t number = 0;
    for (size_t i = width; i-- > 0;) number = number << 8 | (uint8_t)bytes[i];
    return number;
}

static const struct ls_token_header *header_of(const char *bytes, size_t size) {
    return ls_token_file_find_header((const uint8_t *)bytes, size);
}

enum ls_tokens_format ls_tokens_file_format(const char *path, const char *bytes, size_t size) {
    if (header_of(bytes, size)) return LS_TOKENS_FILE_LLMC;
    return is_binary(path) ? LS_TOKENS_FILE_UINT16 : LS_TOKENS_FILE_TEXT;
}

/* ---- reading ---- */

static ls_status read_ids(const char *path, const char *bytes, size_t count, size_t width,
                          struct ls_tokens_list *tokens) {
    ls_status status = LS_OK;
    for (size_t i = 0; i < count && !status; i++) {
        uint32_t id = number_at(bytes + i * width, width);
        if (id > INT32_MAX) return ls_fail(LS_DATA_LOSS, "'%s': token %zu is %u, and no id", path, i, id);
        status = ls_tokens_file_add(tokens, &(int32_t){(int32_t)id}, 1);
    }
    return status;
}

static ls_status read_llmc(const char *path, const char *bytes, size_t size, struct ls_tokens_list *tokens) {
    const struct ls_token_header *header = header_of(bytes, size);
    size_t begun = LS_TOKEN_HEADER;
    if (!header)
        return ls_fail(LS_DATA_LOSS, "'%s' is no file of llm.c: its %zu bytes do not begin with %lld or %lld at byte 0",
                       path, size, (long long)ls_token_file_header(2)->magic,
                       (long long)ls_token_file_header(4)->magic);
    uint32_t version = number_at(bytes + 4, 4), count = number_at(bytes + 8, 4);
    size_t width = (size_t)header->width;
    if (version != header->version)
        return ls_fail(LS_DATA_LOSS, "'%s' has version %u at byte 4, and %lld is read", path, version,
                       (long long)header->version);
    if (size - begun != count * width)
        return ls_fail(LS_DATA_LOSS, "'%s' has %u tokens at byte 8, which end at byte %zu, and the file at byte %zu",
                       path, count, begun + count * width, size);
    return read_ids(path, bytes + begun, count, width, tokens);
}

static ls_status read_uint16(const char *path, const char *bytes, size_t size, struct ls_tokens_list *tokens) {
    if (size % 2) return ls_fail(LS_DATA_LOSS, "'%s' ends at byte %zu, within a token of 2 bytes", path, size);
    return read_ids(path, bytes, size / 2, 2, tokens);
}

static ls_status read_text(const char *path, const char *bytes, size_t size, struct ls_tokens_list *tokens) {
    ls_status status = LS_OK;
    for (size_t at = 0; at < size && !status; at++) {
        int64_t number = 0;
        size_t begun = at;
        for (; at < size && bytes[at] >= '0' && bytes[at] <= '9' && number <= INT32_MAX; at++)
            number = number * 10 + (bytes[at] - '0');
        if (number > INT32_MAX || (at < size && !ls_plain_is_space(bytes[at])))
            return ls_fail(LS_DATA_LOSS, "'%s' byte %zu: the word there is no id, a number below 2147483648", path,
                           begun);
        if (at > begun) status = ls_tokens_file_add(tokens, &(int32_t){(int32_t)number}, 1);
    }
    return status;
}

ls_status ls_tokens_file_read(const char *path, const char *bytes, size_t size, enum ls_tokens_format format,
                              struct ls_tokens_list *tokens) {
    if (format == LS_TOKENS_FILE_LLMC) return read_llmc(path, bytes, size, tokens);
    return format == LS_TOKENS_FILE_UINT16 ? read_uint16(path, bytes, size, tokens)
                                           : read_text(path, bytes, size, tokens);
}

/* ---- writing ---- */

ls_status ls_tokens_file_check(enum ls_tokens_format format, size_t count, int64_t vocabulary) {
    if (format == LS_TOKENS_FILE_UINT16 && vocabulary > SMALL_IDS)
        return ls_fail(LS_INVALID_ARGUMENT, "format uint16 holds ids below %d, and the vocabulary has %lld: use llmc",
                       SMALL_IDS, (long long)vocabulary);
    if (format == LS_TOKENS_FILE_LLMC && count > INT32_MAX)
        return ls_fail(LS_INVALID_ARGUMENT, "format llmc holds %d tokens, and these are %zu: write several files",
                       INT32_MAX, count);
    return LS_OK;
}

static void put_number(uint32_t number, size_t width, FILE *out) {
    for (size_t i = 0; i < width; i++, number >>= 8) (void)fputc((int)(number & 0xFF), out);
}

static void put_header(size_t count, bool large, FILE *out) {
    const struct ls_token_header *header = ls_token_file_header(large ? 4 : 2);
    put_number((uint32_t)header->magic, 4, out);
    put_number((uint32_t)header->version, 4, out);
    put_number((uint32_t)count, 4, out);
    for (size_t i = 3; i < LS_TOKEN_HEADER / sizeof(int32_t); i++) put_number(0, 4, out);
}

void ls_tokens_file_put(const struct ls_tokens_list *tokens, enum ls_tokens_format format, int64_t vocabulary,
                        FILE *out) {
    bool large = vocabulary > SMALL_IDS;
    if (format == LS_TOKENS_FILE_LLMC) put_header(tokens->count, large, out);
    for (size_t i = 0; i < tokens->count; i++)
        if (format == LS_TOKENS_FILE_TEXT)
            (void)fprintf(out, "%s%d", i ? " " : "", tokens->ids[i]);
        else
            put_number((uint32_t)tokens->ids[i], format == LS_TOKENS_FILE_LLMC && large ? 4 : 2, out);
    if (format == LS_TOKENS_FILE_TEXT) (void)fputc('\n', out);
}
