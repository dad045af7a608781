/* The keys and values of a text's tokens, so that each new token is a forward pass of one position. */
#pragma once
#include "train/model.h"

struct ls_generate_cache;
/* True if the model is ready to run here (predict_on_batch.h), and its layers go on position by position. */
bool ls_generate_cache_fits(const ls_model *model);
/* Of a model that it fits, and whose network and variables stay. */
ls_status ls_generate_cache_new(ls_model *model, struct ls_generate_cache **cache);
void ls_generate_cache_free(struct ls_generate_cache *cache);
/* tokens [count], which fit into the model's context, begin with those of the calls before. logits [vocabulary] becomes
 * those behind the last one. INVALID_ARGUMENT naming a token that is no id. */
ls_status ls_generate_cache_logits(struct ls_generate_cache *cache, const int32_t *tokens, int64_t count,
                                   float *logits);
