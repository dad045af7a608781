/* The layers of a transformer by its numbers, for the applications and for who reads the numbers in a file. */
#pragma once
#include "model/layer_list.h"

struct ls_transformer {
    int classes, layers, heads, width;
    int kv_heads;   /* of keys and values; 0: as many as heads, and gpt has no others */
    int head_width; /* channels of a head: of its query, its key and its value */
    int inner;      /* width of the dense layers of a block, between the two */
    ls_activation activation;
    float epsilon; /* of the norms */
    bool tied;     /* the head is the embedding's table */
    bool qkv_bias; /* of llama: queries, keys and values have biases; gpt has all */
    int window;    /* of llama: positions that one sees; 0: all before it */
    float rope_theta;
    float embedding_dropout, dropout; /* of gpt's embeddings; of what the blocks add */
};
#define LS_TRANSFORMER_BLOCKS 512 /* at most */
#define LS_TRANSFORMER_BLOCK  16  /* layers of a block, at most; and of what is around the blocks */
void ls_transformers_add_gpt(struct ls_layer_list *list, const struct ls_transformer *transformer);
void ls_transformers_add_llama(struct ls_layer_list *list, const struct ls_transformer *transformer);

/* The applications; options are complete. */
void ls_transformers_gpt(struct ls_layer_list *list, const ls_application_options *options);
void ls_transformers_gpt2(struct ls_layer_list *list, const ls_application_options *options);
void ls_transformers_llama(struct ls_layer_list *list, const ls_application_options *options);
