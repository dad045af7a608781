/* Variables by the names of Hugging Face's transformers: GPT2LMHeadModel's for gpt and gpt2 of ls_application,
 * LlamaForCausalLM's for llama. Their matrices are (in, out) in GPT-2, as Keras' are, and (out, in) in Llama, where
 * queries, keys and values are three. Heads lie in the same order, and rotary positions turn the same halves. */
#pragma once
#include "weights/weights.h"

/* Of a file that has such names: they become Keras', in the order of names; other files' stay. Names that are in none
 * of the two stay too, but for what follows from others: masks, frequencies, and a head that is the embedding, as
 * weights->head says, or as a file of Lockstep has it. An untold head of GPT-2 is the embedding; a Llama without one
 * gets a copy. INVALID_ARGUMENT names a tensor that is missing beside others, or of a shape that does not fit; weights
 * are to be freed then. */
ls_status ls_huggingface_read(const char *path, struct ls_weights *weights);
/* Keras' names of such a model become Hugging Face's. INVALID_ARGUMENT names a variable that is none of the two. */
ls_status ls_huggingface_write(const char *path, struct ls_weights *weights);
