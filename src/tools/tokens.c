/* The back end of lockstep tokens: texts become tokens, or tokens text. All is made before anything is written. */
#define _GNU_SOURCE /* memmem */
#include "tools/tokens_file.h"

#include <lockstep/tools.h>
#include <string.h>

#include "base/grow.h"
#include "base/json.h"
#include "base/need.h"
#include "base/new.h"
#include "base/read_file.h"
#include "data/reader.h"

struct token_file {
    const char *name;    /* as it was given */
    char *bytes;         /* owns */
    size_t size;         /* of bytes */
    size_t text, tokens; /* bytes of text, and ids */
};
struct token_job {
    const ls_tools_tokens_options *options;
    struct token_file *files; /* own: [count] */
    int count;
    ls_tokenizer *tokenizer; /* owns */
    enum ls_tokens_format format;
    struct ls_tokens_list tokens; /* of all files */
    char *text;                   /* owns: of all files, decoded */
    size_t text_size, text_room;
};

/* ---- options ---- */

static bool is_kind(const ls_tools_tokens_options *options, const char *kind) {
    return !strcmp(options->kind, kind);
}

static ls_status check_tokens_options(const ls_tools_tokens_options *options) {
    bool bytes = is_kind(options, "bytes"), chars = is_kind(options, "chars"), gpt2 = is_kind(options, "gpt2");
    const char *fault = NULL;
    if (!bytes && !chars && !gpt2)
        return ls_fail(LS_INVALID_ARGUMENT, "tokens '%s': it is none of bytes, chars and gpt2", options->kind);
    if (gpt2 && !options->vocabulary)
        fault = "tokens gpt2 need --vocabulary, the folder of vocab.bpe and encoder.json";
    else if (chars && options->decode && !options->vocabulary)
        fault = "chars are decoded with --vocabulary, a text that has the characters: the one that was encoded";
    else if (bytes && options->vocabulary)
        fault = "tokens bytes have no vocabulary: leave --vocabulary out";
    else if (options->special && (!gpt2 || options->decode))
        fault = "--special is of texts that become tokens gpt2: leave it out";
    else if (options->documents && (!gpt2 || options->decode))
        fault = "--documents is of texts that become tokens gpt2: leave it out";
    return fault ? ls_fail(LS_INVALID_ARGUMENT, "%s", fault) : LS_OK;
}

/* ---- the tokenizer ---- */

static ls_status make_gpt2(struct token_job *job) {
    const char *folder = job->options->vocabulary;
    LS_CLEANUP(ls_free_pointer) char *merges = ls_reader_path_join(folder, "vocab.bpe");
    LS_CLEANUP(ls_free_pointer) char *vocabulary = ls_reader_path_join(folder, "encoder.json");
    if (!merges || !vocabulary) return ls_fail_memory(folder, 1);
    return ls_tokenizer_new_gpt2(merges, vocabulary, job->options->special, &job->tokenizer);
}

/* The files' own characters: of all of them, one behind the other. */
static ls_status make_chars(struct token_job *job) {
    LS_CLEANUP(ls_free_pointer) char *text = NULL;
    size_t size = 0, room = 0;
    ls_status status = LS_OK;
    for (int i = 0; i < job->count && !status; i++) {
        status = LS_GROW(text, room, size + job->files[i].size + 1, 1, "texts");
        if (status) break;
        memcpy(text + size, job->files[i].bytes, job->files[i].size);
        size += job->files[i].size;
    }
    return status ? status : ls_tokenizer_new_chars(text, size, &job->tokenizer);
}

static ls_status make_named_chars(struct token_job *job) {
    LS_CLEANUP(ls_free_pointer) char *text = NULL;
    size_t size;
    ls_status status = ls_read_file_given("vocabulary", job->options->vocabulary, SIZE_MAX / 2, &text, &size);
    if (!status) status = ls_tokenizer_new_chars(text, size, &job->tokenizer);
    return status ? ls_fail_context(status, "vocabulary '%s'", job->options->vocabulary) : LS_OK;
}

static ls_status make_tokenizer(struct token_job *job) {
    if (is_kind(job->options, "bytes")) return ls_tokenizer_new_bytes(&job->tokenizer);
    if (is_kind(job->options, "gpt2")) return make_gpt2(job);
    return job->options->vocabulary ? make_named_chars(job) : make_chars(job);
}

/* ---- files ---- */

static ls_status read_token_files(struct token_job *job, const char *const *paths) {
    ls_status status = LS_OK;
    for (int i = 0; i < job->count && !status; i++) {
        struct token_file *file = &job->files[i];
        file->name = paths[i];
        status = ls_read_file_given(NULL, strcmp(paths[i], "-") != 0 ? paths[i] : "/dev/stdin", SIZE_MAX / 2,
                                    &file->bytes, &file->size);
    }
    return status;
}

static ls_status encode_block(struct token_job *job, const char *text, size_t size) {
    int32_t *ids = NULL, end = ls_tokenizer_end_of_text(job->tokenizer);
    size_t count = 0;
    ls_status status = job->options->documents ? ls_tokens_file_add(&job->tokens, &end, 1) : LS_OK;
    if (!status) status = ls_tokenizer_encode(job->tokenizer, text, size, &ids, &count);
    if (!status) status = ls_tokens_file_add(&job->tokens, ids, count);
    ls_memory_free(ids);
    return status;
}

/* A block ends behind two line ends. Behind the last of them stands one more block, which may be empty. */
static ls_status encode_file(struct token_job *job, struct token_file *file) {
    const char *at = file->bytes, *end = file->bytes + file->size;
    ls_status status = LS_OK;
    for (const char *found; !status && job->options->documents; at = found + 2) {
        found = memmem(at, (size_t)(end - at), "\n\n", 2);
        if (!found) break;
        status = encode_block(job, at, (size_t)(found + 2 - at));
    }
    file->text = file->size;
    return status ? status : encode_block(job, at, (size_t)(end - at));
}

static ls_status append_text(struct token_job *job, const char *text, size_t size) {
    ls_status status = LS_GROW(job->text, job->text_room, job->text_size + size + 1, 1024, "a text");
    if (status) return status;
    memcpy(job->text + job->text_size, text, size);
    job->text_size += size;
    return LS_OK;
}

static ls_status decode_file(struct token_job *job, struct token_file *file) {
    size_t before = job->tokens.count;
    char *text = NULL;
    enum ls_tokens_format format =
        job->options->format ? job->format : ls_tokens_file_format(file->name, file->bytes, file->size);
    ls_status status = ls_tokens_file_read(file->name, file->bytes, file->size, format, &job->tokens);
    if (!status) status = ls_tokens_file_add(&job->tokens, NULL, 0); /* makes the list */
    if (!status)
        status = ls_tokenizer_decode(job->tokenizer, job->tokens.ids + before, job->tokens.count - before, &text,
                                     &file->text);
    if (!status) status = append_text(job, text, file->text);
    ls_memory_free(text);
    return status;
}

static ls_status turn_files(struct token_job *job) {
    ls_status status = LS_OK;
    for (int i = 0; i < job->count && !status; i++) {
        struct token_file *file = &job->files[i];
        size_t before = job->tokens.count;
        status = job->options->decode ? decode_file(job, file) : encode_file(job, file);
        if (status) return ls_fail_context(status, "'%s'", file->name);
        file->tokens = job->tokens.count - before;
    }
    return status;
}

/* ---- output ---- */

static void put_result(void *context, FILE *out) {
    const struct token_job *job = context;
    if (job->options->decode)
        (void)fwrite(job->text, 1, job->text_size, out);
    else
        ls_tokens_file_put(&job->tokens, job->format, ls_tokenizer_vocabulary(job->tokenizer), out);
}

static void put_counts(const struct token_job *job, FILE *out) {
    const char *format = job->options->json ? "{'file': %s, 'bytes': %zu, 'tokens': %zu, 'vocabulary': %lld}\n"
                                            : "%-s: %zu bytes, %zu tokens, vocabulary %lld\n";
    for (int i = 0; i < job->count; i++) {
        const struct token_file *file = &job->files[i];
        ls_json_print(out, format, file->name, file->text, file->tokens,
                      (long long)ls_tokenizer_vocabulary(job->tokenizer));
    }
}

static ls_status write_result(struct token_job *job, FILE *out) {
    const ls_tools_tokens_options *options = job->options;
    ls_status status =
        options->decode ? LS_OK
                        : ls_tokens_file_check(job->format, job->tokens.count, ls_tokenizer_vocabulary(job->tokenizer));
    if (!status && options->output) status = ls_tools_write_file("--out", options->output, put_result, job);
    if (status) return status;
    if (options->output || options->json)
        put_counts(job, out);
    else
        put_result(job, out);
    return LS_OK;
}

static void free_token_job(struct token_job *job) {
    for (int i = 0; i < job->count && job->files; i++) ls_free(job->files[i].bytes);
    ls_free(job->files);
    ls_tokenizer_free(job->tokenizer);
    ls_free(job->tokens.ids);
    ls_free(job->text);
}

ls_status ls_tools_tokens(const ls_tools_tokens_options *options, const char *const *paths, int count, FILE *out) {
    LS_NEED(options, paths, out);
    if (!options->kind) return ls_fail(LS_INVALID_ARGUMENT, "tokens: no kind is given: bytes, chars or gpt2");
    if (count < 1) return ls_fail(LS_INVALID_ARGUMENT, "no file is given");
    for (int i = 0; i < count; i++)
        if (!paths[i]) return ls_fail(LS_INVALID_ARGUMENT, "paths[%d] is NULL", i);
    LS_CLEANUP(free_token_job) struct token_job job = {.options = options, .count = count};
    ls_status status = check_tokens_options(options);
    if (!status) status = ls_tokens_file_named(options->format, options->decode ? NULL : options->output, &job.format);
    if (!status && !options->decode && !options->output && job.format != LS_TOKENS_FILE_TEXT)
        status = ls_fail(LS_INVALID_ARGUMENT, "format '%s' needs --out FILE", options->format);
    if (status) return status;
    job.files = ls_alloc_array((size_t)count, sizeof(*job.files));
    if (!job.files) return ls_fail_memory("files", (size_t)count);
    status = read_token_files(&job, paths);
    if (!status) status = make_tokenizer(&job);
    if (!status && options->documents && ls_tokenizer_end_of_text(job.tokenizer) < 0)
        status = ls_fail(LS_INVALID_ARGUMENT, "--documents: the vocabulary has no token <|endoftext|>");
    if (!status) status = turn_files(&job);
    return status ? status : write_result(&job, out);
}
