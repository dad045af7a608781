/* The reader of encoder.json: an object with the id of each token, whose bytes are written as letters. */
#include "data/text/gpt2.h"

#include <cjson/cJSON.h>
#include <string.h>

#include "base/new.h"
#include "base/plain.h"
#include "data/text/letters.h"

enum { SHOWN = 60 }; /* bytes of a token in messages */

__attribute__((format(printf, 2, 3))) static ls_status fail_vocabulary(const char *path, const char *format, ...) {
    char text[256];
    (void)LS_PLAIN_ARGUMENTS(text, sizeof(text), format);
    return ls_fail(LS_DATA_LOSS, "vocabulary '%s': %s; take GPT-2's encoder.json as it was published", path, text);
}

/* cJSON ends a text at a zero, and what stands behind it would be lost. */
static ls_status check_zeros(const char *path, const char *text, size_t size) {
    const char *zero = memchr(text, 0, size);
    bool escape = false;
    for (size_t i = 0; i < size && !zero; i++) {
        escape = text[i] == '\\' && !escape;
        if (escape && !strncmp(text + i, "\\u0000", 6)) zero = text + i;
    }
    return zero ? fail_vocabulary(path, "byte %zu is a zero, or stands for one", (size_t)(zero - text)) : LS_OK;
}

/* names[id] becomes the name of each token, which lives as long as object. */
static ls_status sort_names(const char *path, const cJSON *object, const char **names, int64_t count) {
    const cJSON *item;
    cJSON_ArrayForEach(item, object) {
        double id = cJSON_IsNumber(item) ? item->valuedouble : -1;
        if (!(id >= 0 && id < (double)count) || id != (double)(int64_t)id)
            return fail_vocabulary(path, "the id of token '%.*s' is no whole number from 0 to %lld", SHOWN,
                                   item->string, (long long)count - 1);
        if (names[(int64_t)id])
            return fail_vocabulary(path, "tokens '%.*s' and '%.*s' have the id %lld", SHOWN, names[(int64_t)id], SHOWN,
                                   item->string, (long long)id);
        names[(int64_t)id] = item->string;
    }
    return LS_OK;
}

static ls_status take_token(const char *path, const char *name, int32_t id, const struct ls_letters *letters,
                            struct ls_gpt2 *gpt2) {
    struct ls_token_table *table = &gpt2->tokenizer.table;
    uint8_t *bytes = table->bytes + table->starts[id];
    size_t size;
    if (!ls_letters_read(letters, name, strlen(name), bytes, &size))
        return fail_vocabulary(path, "token '%.*s' of id %d has a character that stands for no byte, or none", SHOWN,
                               name, id);
    table->starts[id + 1] = table->starts[id] + size;
    if (!strcmp(name, LS_END_OF_TEXT)) gpt2->tokenizer.end_of_text = id;
    if (size != 1) return LS_OK;
    if (gpt2->bytes[*bytes] >= 0) return fail_vocabulary(path, "token '%s' stands twice", name);
    gpt2->bytes[*bytes] = id;
    return LS_OK;
}

static ls_status fill_table(const char *path, const char **names, int64_t count, struct ls_gpt2 *gpt2) {
    struct ls_letters letters;
    size_t most = 0;
    ls_letters_fill(&letters);
    for (int64_t id = 0; id < count; id++) most += strlen(names[id]);
    ls_status status = ls_tokenizer_table_new(count, most, &gpt2->tokenizer.table);
    for (int64_t id = 0; id < count && !status; id++) status = take_token(path, names[id], (int32_t)id, &letters, gpt2);
    for (int byte = 0; byte < 256 && !status; byte++)
        if (gpt2->bytes[byte] < 0) status = fail_vocabulary(path, "no token is the byte 0x%02x alone", byte);
    return status;
}

static ls_status read_tokens(const char *path, const cJSON *object, struct ls_gpt2 *gpt2) {
    int64_t count = 0;
    const cJSON *item;
    if (!cJSON_IsObject(object)) return fail_vocabulary(path, "it is no JSON object of tokens and their ids");
    cJSON_ArrayForEach(item, object) count++;
    if (count > INT32_MAX) return fail_vocabulary(path, "it has %lld tokens", (long long)count);
    LS_CLEANUP(ls_free_pointer) const char **names = ls_alloc_array((size_t)count, sizeof(*names));
    if (!names) return ls_fail_memory("the names of tokens", (size_t)count);
    ls_status status = sort_names(path, object, names, count);
    return status ? status : fill_table(path, names, count, gpt2);
}

ls_status ls_gpt2_vocabulary_parse(const struct ls_gpt2_file *file, struct ls_gpt2 *gpt2) {
    LS_PLAIN;
    memset(gpt2->bytes, -1, sizeof(gpt2->bytes));
    gpt2->tokenizer.end_of_text = -1;
    ls_status status = check_zeros(file->path, file->text, file->size);
    if (status) return status;
    const char *end = NULL;
    cJSON *object = cJSON_ParseWithOpts(file->text, &end, true);
    status = object ? read_tokens(file->path, object, gpt2)
                    : fail_vocabulary(file->path, "it is no JSON at byte %zu", end ? (size_t)(end - file->text) : 0);
    cJSON_Delete(object);
    return status;
}
