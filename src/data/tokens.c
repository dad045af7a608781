/* Windows of a text's tokens, for models that predict the next one: example i has the tokens from i stride on as
 * features, and the token behind each as its label. The file is mapped, so memory holds what was read lately. Mirrors
 * nanoGPT's get_batch and llm.c's DataLoader, but for the order, which is that of all data. Reading changes nothing, so
 * any number of threads may. */
#include <string.h>

#include "base/need.h"
#include "base/settings.h"
#include "base/status.h"
#include "data/characters.h"
#include "data/class_count.h"
#include "data/files.h"
#include "data/role.h"
#include "data/sources.h"
#include "data/token_file.h"
#include "data/tokens.h"

enum { BYTE_VALUES = 256 };

struct tokens {
    struct ls_source source;
    struct ls_token_file file;
    struct ls_characters characters;
    ls_tokens format;
    int64_t count, stride;
};

static const char *const format_names[] = {
    [LS_TOKENS_BYTES] = "bytes", [LS_TOKENS_CHARS] = "chars", [LS_TOKENS_UINT16] = "uint16", [LS_TOKENS_LLMC] = "llmc"};

/* ---- reading ---- */

static ls_status refuse_token(const struct tokens *tokens, int64_t token, int64_t index) {
    const struct ls_token_layout *layout = &tokens->file.layout;
    return ls_fail(LS_DATA_LOSS,
                   "'%s' has token %lld at offset %lld, and the vocabulary has %d: ids are 0 to %d; raise vocabulary, "
                   "or let it be counted",
                   tokens->file.path, (long long)token,
                   (long long)layout->first + (long long)index * (long long)layout->width, tokens->source.classes,
                   tokens->source.classes - 1);
}

static ls_status read_numbers(const struct tokens *tokens, int64_t first, int64_t count, int32_t *ids) {
    for (int64_t i = 0; i < count; i++) {
        int64_t token = ls_token_file_at(&tokens->file.layout, tokens->file.bytes, first + i);
        if (token >= tokens->source.classes) return refuse_token(tokens, token, first + i);
        ids[i] = (int32_t)token;
    }
    return LS_OK;
}

static ls_status read_characters(const struct tokens *tokens, int64_t first, int64_t count, int32_t *ids) {
    const struct ls_bytes text = {(void *)(uintptr_t)tokens->file.bytes, tokens->file.size};
    if (ls_characters_ids(&tokens->characters, &text, first, count, ids)) return LS_OK;
    return ls_fail(LS_DATA_LOSS, "'%s' was changed since it was opened: its characters end before character %lld",
                   tokens->file.path, (long long)(first + count));
}

static ls_status read_token_windows(const struct tokens *tokens, int64_t first, int64_t count, int32_t *ids) {
    return (tokens->format == LS_TOKENS_CHARS ? read_characters : read_numbers)(tokens, first, count, ids);
}

/* The features but the first are labels of the position before. */
static ls_status read_window(const struct ls_source *source, int64_t index, float *features,
                             const struct ls_targets *targets) {
    const struct tokens *tokens = (const struct tokens *)source;
    int64_t context = source->shape.dims[0], first = index * tokens->stride;
    int32_t *ids = (int32_t *)(void *)features;
    ls_status status = ls_token_file_check(&tokens->file);
    if (!status) status = read_token_windows(tokens, first, 1, ids);
    if (!status) status = read_token_windows(tokens, first + 1, context, targets->labels);
    if (!status) memcpy(ids + 1, targets->labels, (size_t)(context - 1) * sizeof(*ids));
    return status;
}

static void free_tokens(struct ls_source *source) {
    struct tokens *tokens = (struct tokens *)source;
    ls_token_file_close(&tokens->file);
    ls_characters_free(&tokens->characters);
    ls_free(tokens);
}

static const char *character_of(const struct ls_source *source, int label) {
    const struct tokens *tokens = (const struct tokens *)source;
    return label < tokens->characters.vocabulary ? tokens->characters.texts[label] : NULL;
}

static int64_t only_file(const struct ls_source *source, int64_t index) {
    (void)source;
    (void)index;
    return 0;
}

static const struct ls_source_ops tokens_ops = {
    .read = read_window, .free = free_tokens, .class_name = character_of, .file = only_file};

/* ---- opening ---- */

static ls_status check_window(const char *path, const ls_dataset_options *options) {
    if (options->context < 1)
        return ls_fail(LS_INVALID_ARGUMENT, "context is %lld: '%s' is read in windows of 1 or more tokens",
                       (long long)options->context, path);
    if (options->stride >= 0) return LS_OK;
    return ls_fail(LS_INVALID_ARGUMENT, "stride is %lld: it must be 1 or more, or 0 for the context",
                   (long long)options->stride);
}

/* The greatest token, of all. */
static int64_t find_greatest(const struct tokens *tokens, int64_t *at) {
    int64_t greatest = -1;
    for (int64_t i = 0; i < tokens->count; i++) {
        int64_t token = ls_token_file_at(&tokens->file.layout, tokens->file.bytes, i);
        if (token <= greatest) continue;
        greatest = token;
        *at = i;
    }
    return greatest;
}

/* One wrong token could make a model of any size. */
static ls_status count_vocabulary(struct tokens *tokens) {
    struct ls_settings settings;
    int64_t at = 0, greatest;
    ls_status status = ls_settings_read(&settings);
    if (status) return status;
    greatest = find_greatest(tokens, &at);
    int64_t most = settings.max_classes < LS_MAX_CLASSES ? settings.max_classes : LS_MAX_CLASSES;
    tokens->source.classes = (int)(greatest < most ? greatest + 1 : most);
    if (greatest < most) return LS_OK;
    status = refuse_token(tokens, greatest, at);
    return ls_fail_context(status, "LOCKSTEP_MAX_CLASSES is %lld", (long long)settings.max_classes);
}

/* A vocabulary that is given may be larger than the text's, as of a model that was trained before. */
static ls_status settle_vocabulary(struct tokens *tokens, const ls_dataset_options *options) {
    bool chars = tokens->format == LS_TOKENS_CHARS;
    int own = chars ? tokens->characters.vocabulary : tokens->format == LS_TOKENS_BYTES ? BYTE_VALUES : 0;
    if (options->vocabulary < 0 || options->vocabulary > LS_MAX_CLASSES)
        return ls_fail(LS_INVALID_ARGUMENT, "vocabulary is %d: it must be 1 to %d, or 0 to be counted",
                       options->vocabulary, LS_MAX_CLASSES);
    if (options->vocabulary && options->vocabulary < own)
        return ls_fail(LS_INVALID_ARGUMENT, "vocabulary is %d: '%s' has %d %s", options->vocabulary, tokens->file.path,
                       own, chars ? "characters" : "values of a byte");
    tokens->source.classes = options->vocabulary ? options->vocabulary : own;
    return tokens->source.classes ? LS_OK : count_vocabulary(tokens);
}

static ls_status settle_windows(struct tokens *tokens, const ls_dataset_options *options) {
    int64_t context = options->context;
    tokens->stride = options->stride ? options->stride : context;
    if (context >= tokens->count)
        return ls_fail(LS_INVALID_ARGUMENT,
                       "context is %lld: '%s' has %lld tokens (%zu bytes), and a window takes context + 1",
                       (long long)context, tokens->file.path, (long long)tokens->count, tokens->file.size);
    tokens->source.count = (tokens->count - context - 1) / tokens->stride + 1;
    tokens->source.shape = tokens->source.targets.shape = LS_SHAPE(context);
    tokens->source.shared = (context - 1) / tokens->stride;
    return LS_OK;
}

static ls_status open_tokens(struct ls_source **source, const char *path, const ls_dataset_options *options) {
    struct tokens *tokens = (struct tokens *)*source;
    ls_status status = check_window(path, options);
    tokens->format = options->tokens;
    if (!status) status = ls_token_file_open(path, options->tokens, &tokens->file);
    if (!status && options->tokens == LS_TOKENS_CHARS)
        status = ls_characters_read(path, tokens->file.bytes, tokens->file.size, &tokens->characters);
    if (status) return status;
    tokens->count = tokens->format == LS_TOKENS_CHARS ? tokens->characters.count : tokens->file.layout.count;
    status = settle_windows(tokens, options);
    return status ? status : settle_vocabulary(tokens, options);
}

bool ls_tokens_facts(const struct ls_source *source, struct ls_tokens_facts *facts) {
    int64_t index = 0;
    source = ls_source_innermost(source, &index);
    if (source->ops != &tokens_ops) return false;
    const struct tokens *tokens = (const struct tokens *)source;
    *facts = (struct ls_tokens_facts){format_names[tokens->format], tokens->count, tokens->stride, source->classes,
                                      tokens->characters.vocabulary};
    return true;
}

ls_status ls_dataset_tokens(const char *path, const ls_dataset_options *options, ls_dataset **dataset) {
    LS_NEED(path, dataset);
    static const struct ls_source_start start = {
        .source =
            {.ops = &tokens_ops, .kind = "tokens", .integers = true, .windows = true, .files = 1, .in_memory = true},
        .size = sizeof(struct tokens),
        .open = open_tokens};
    ls_dataset_options filled;
    ls_status status = ls_dataset_options_fill(options, &filled);
    if (!status && filled.tokens == LS_TOKENS_NONE)
        status = ls_fail(LS_INVALID_ARGUMENT, "tokens is not set: '%s' needs LS_TOKENS_BYTES, _CHARS, _UINT16 or _LLMC",
                         path);
    if (status) return status;
    if (filled.split == LS_TRAIN) return ls_source_open(&start, path, &filled, dataset);
    return ls_fail(LS_NOT_FOUND, "'%s' is the training split, and has no %s split: validation_split makes one", path,
                   ls_role_name(filled.split));
}
