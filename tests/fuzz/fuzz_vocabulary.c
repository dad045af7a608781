/* GPT-2's two files from any bytes, a zero between them: a tokenizer that gives each of its tokens, and a text, back,
 * or one error that names a file. */
#include <stdlib.h>
#include <string.h>

#include "base/memory.h"
#include "fuzz/fuzz.h"
#include "fuzz/turn.h"

static void require(bool condition) {
    if (!condition) abort();
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
        turn(tokenizer, token.at, token.size);
    }
    if (!status) turn(tokenizer, text, size);
    ls_tokenizer_free(tokenizer);
    ls_free(text);
    return 0;
}
