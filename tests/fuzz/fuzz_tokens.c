/* Texts of any bytes: each kind of tokenizer gives them back, or refuses what is not UTF-8. */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "fuzz/fuzz.h"
#include "fuzz/turn.h"
#include "vocabulary.h"

static void require(bool condition) {
    if (!condition) abort();
}

static ls_tokenizer *make_gpt2(bool special) {
    struct vocabulary made;
    char *texts[2] = {NULL, NULL};
    size_t sizes[2];
    ls_tokenizer *tokenizer = NULL;
    vocabulary_begin(&made);
    require(vocabulary_add(&made, 'a', 'b') && vocabulary_add(&made, ' ', 'a') && vocabulary_add(&made, 256, 'b') &&
            vocabulary_add(&made, 0xC3, 0xA9) && vocabulary_add(&made, '<', '|') && vocabulary_add(&made, '\n', '\n'));
    for (int i = 0; i < 2; i++) {
        FILE *out = open_memstream(&texts[i], &sizes[i]);
        (i ? vocabulary_put_ids : vocabulary_put_merges)(out, &made);
        (void)fclose(out);
    }
    require(ls_gpt2_make(&(struct ls_gpt2_file){"merges", texts[0], sizes[0]},
                         &(struct ls_gpt2_file){"vocabulary", texts[1], sizes[1]}, special, &tokenizer) == LS_OK);
    free(texts[0]);
    free(texts[1]);
    return tokenizer;
}

static void turn_chars(const uint8_t *data, size_t size) {
    ls_tokenizer *tokenizer = NULL;
    ls_status status = ls_tokenizer_new_chars(data, size, &tokenizer);
    require(!status || (status == LS_INVALID_ARGUMENT && strstr(ls_error(), size ? ": it is not UTF-8" : "empty")));
    if (!status) turn(tokenizer, data, size);
    ls_tokenizer_free(tokenizer);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size) {
    static const uint8_t none[1];
    const uint8_t *text = size ? data : none;
    ls_tokenizer *bytes = NULL;
    require(ls_tokenizer_new_bytes(&bytes) == LS_OK);
    turn(bytes, text, size);
    ls_tokenizer_free(bytes);
    turn_chars(text, size);
    for (int special = 0; special < 2; special++) {
        ls_tokenizer *gpt2 = make_gpt2(special);
        turn(gpt2, text, size);
        ls_tokenizer_free(gpt2);
    }
    return 0;
}
