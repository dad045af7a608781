/* GPT-2's two files from any bytes, a zero between them: a tokenizer that gives each of its tokens, and a text, back,
 * or one error that names a file. */
#include <stdlib.h>
#include <string.h>

#include "base/memory.h"
#include "data/text/gpt2.h"
#include "fuzz/fuzz.h"

static void require(bool condition) {
    if (!condition) abort();
}

static void turn(const ls_tokenizer *tokenizer, const char *text, size_t size) {
    int32_t *ids = NULL;
    char *back = NULL;
    size_t count = 0, length = 0;
    require(ls_tokenizer_encode(tokenizer, text, size, &ids, &count) == LS_OK && count <= size);
    require(ls_tokenizer_decode(tokenizer, ids, count, &back, &length) == LS_OK);
    require(length == size && !memcmp(back, text, size));
    ls_free(ids);
    ls_free(back);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size) {
    char *text = ls_alloc(size + 1);
    if (size) memcpy(text, data, size);
    struct ls_gpt2_file merges = {"merges", text, strlen(text)};
    size_t begun = ls_smaller_size(merges.size + 1, size);
    struct ls_gpt2_file vocabulary = {"vocabulary", text + begun, size - begun};
    ls_tokenizer *tokenizer = NULL;
    ls_status status = ls_gpt2_make(&merges, &vocabulary, false, &tokenizer);
    require(status == LS_OK || (status == LS_DATA_LOSS && !tokenizer));
    require(!status || strstr(ls_error(), "'merges' line ") || strstr(ls_error(), "'vocabulary': "));
    for (int64_t id = 0; !status && id < tokenizer->table.count; id++) {
        struct ls_token_bytes token = ls_tokenizer_token(&tokenizer->table, id);
        turn(tokenizer, (const char *)token.at, token.size);
    }
    if (!status) turn(tokenizer, text, size);
    ls_tokenizer_free(tokenizer);
    ls_free(text);
    return 0;
}
