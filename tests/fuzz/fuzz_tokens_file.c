/* Files of tokens from any bytes, in each format: ids that are written and read back to the same, or one error with the
 * byte. */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/memory.h"
#include "fuzz/fuzz.h"
#include "tools/tokens_file.h"

static void require(bool condition) {
    if (!condition) abort();
}

static void write_again(const struct ls_tokens_list *tokens, enum ls_tokens_format format) {
    int64_t vocabulary = format == LS_TOKENS_FILE_UINT16 ? 65536 : INT64_C(1) << 31;
    struct ls_tokens_list again = {0};
    char *bytes = NULL;
    size_t size = 0;
    FILE *out = open_memstream(&bytes, &size);
    require(ls_tokens_file_check(format, tokens->count, vocabulary) == LS_OK);
    ls_tokens_file_put(tokens, format, vocabulary, out);
    (void)fclose(out);
    require(ls_tokens_file_read("again", bytes, size, format, &again) == LS_OK && again.count == tokens->count);
    require(!again.count || !memcmp(again.ids, tokens->ids, again.count * sizeof(*again.ids)));
    ls_free(again.ids);
    free(bytes);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size) {
    char *bytes = ls_alloc(size);
    if (size) memcpy(bytes, data, size);
    for (int format = LS_TOKENS_FILE_TEXT; format <= LS_TOKENS_FILE_UINT16; format++) {
        struct ls_tokens_list tokens = {0};
        ls_status status = ls_tokens_file_read("input", bytes, size, (enum ls_tokens_format)format, &tokens);
        require(!status || (status == LS_DATA_LOSS && strstr(ls_error(), "'input'")));
        if (!status) write_again(&tokens, (enum ls_tokens_format)format);
        ls_free(tokens.ids);
    }
    (void)ls_tokens_file_format(size % 2 ? "input.bin" : "input", bytes, size);
    ls_free(bytes);
    return 0;
}
