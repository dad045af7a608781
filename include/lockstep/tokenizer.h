/* Tokenizers: from the bytes of a text to ids, and back. Part of the public API, included by lockstep.h.
 *
 * Ids are whole numbers from 0 to the vocabulary's count - 1. The ids of a text decode to its bytes. A tokenizer never changes
 * once it is made: threads may share it. */
#ifndef LOCKSTEP_TOKENIZER_H
#define LOCKSTEP_TOKENIZER_H

#include <lockstep/lockstep.h>

#ifdef __cplusplus
extern "C" {
#endif

typedef struct ls_tokenizer ls_tokenizer;

/* A byte is a token, and its value the id: 256 of them. */
LS_API ls_status ls_tokenizer_new_bytes(ls_tokenizer **tokenizer);
/* A character is a token. The vocabulary is the characters of text, UTF-8 of size bytes, in the order of their code points,
 * as nanoGPT's data/shakespeare_char/prepare.py sorts them. text is not kept. INVALID_ARGUMENT for an empty text, and with the
 * offset where it is not UTF-8. */
LS_API ls_status ls_tokenizer_new_chars(const void *text, size_t size, ls_tokenizer **tokenizer);
/* GPT-2's byte-level BPE (Radford et al. 2019, src/encoder.py), as tiktoken's "gpt2" encodes. merges is the path of vocab.bpe:
 * "#version" and a merge a line, the first merge first. vocabulary is the path of encoder.json: the id of each token. With
 * special, "<|endoftext|>" in a text is that token; otherwise it is text (tiktoken's encode_ordinary).
 * INVALID_ARGUMENT for a path that leads to no file, DATA_LOSS with the line or the byte for what is no such file. The classes of
 * characters are those of PCRE2's Unicode version. */
LS_API ls_status ls_tokenizer_new_gpt2(const char *merges, const char *vocabulary, bool special, ls_tokenizer **tokenizer);
LS_API void ls_tokenizer_free(ls_tokenizer *tokenizer);

/* *ids, freed with ls_memory_free, receives the *count ids of size bytes of text. A tokenizer of chars refuses a text that is
 * not UTF-8, or has another character, with INVALID_ARGUMENT and the offset. GPT-2's takes any bytes: each longest run that is
 * not UTF-8 is a word of its own, of which bytes are merged as in others. */
LS_API ls_status ls_tokenizer_encode(const ls_tokenizer *tokenizer, const void *text, size_t size, int32_t **ids, size_t *count);
/* *text, freed with ls_memory_free, receives the *size bytes of count ids; a zero byte follows them. INVALID_ARGUMENT for an id that
 * is none, with its place. */
LS_API ls_status ls_tokenizer_decode(const ls_tokenizer *tokenizer, const int32_t *ids, size_t count, char **text, size_t *size);
/* The number of tokens; 0 for NULL. */
LS_API int64_t ls_tokenizer_vocabulary(const ls_tokenizer *tokenizer);
/* The id of "<|endoftext|>", whether texts have it or not; -1 where the vocabulary has none. */
LS_API int32_t ls_tokenizer_end_of_text(const ls_tokenizer *tokenizer);

#ifdef __cplusplus
}
#endif
#endif
