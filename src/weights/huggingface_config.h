/* A model by the numbers of Hugging Face's config.json: GPT2Config, LlamaConfig, MistralConfig or Qwen2Config. */
#pragma once
#include "model/transformers.h"

#include <stdio.h>

struct ls_huggingface_config {
    bool gpt; /* GPT-2's layers, else Llama's */
    int positions;
    struct ls_transformer layers;
};
/* INVALID_ARGUMENT names the field and the value of what is not computed here; path is for messages. */
ls_status ls_huggingface_config_read(const char *path, const char *text, struct ls_huggingface_config *config);
/* The same text, with the fields that transformers needs. */
ls_status ls_huggingface_config_write(const char *path, const struct ls_huggingface_config *config, char **text);
