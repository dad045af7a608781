/* Gradients that workers divide (ZeRO stage 2, Rajbhandari et al. 2020; DeepSpeed's and FairScale's stage 2): each
 * keeps those of the ranges whose moments it holds. The replicas' gradients lie at the addresses that whole ones would
 * have. Pages of them come when they are written first. Those that are not kept go when their bucket is reduced. */
#pragma once
#include "gradients/reducer.h"
#include "train/shards.h"

/* Returns true if the workers divide the model's gradients. Those that hold all moments keep all. */
bool ls_kept_gradients_are(const ls_model *model);
/* Bytes of a page: the beginnings of replicas' gradients are multiples of it. */
size_t ls_kept_gradients_page(const ls_model *model);
/* Part of ls_bind_attach: zeroed memory of so many bytes, of the model's own; RESOURCE_EXHAUSTED. */
ls_status ls_kept_gradients_new(ls_model *model, size_t size);
void ls_kept_gradients_free(ls_model *model);
/* Lets the reducer give back what is not kept, bucket by bucket. Replicas wait until all buckets but the last one that
 * they have given are reduced. Those that compute in turn, or synchronize statistics, do not. */
void ls_kept_gradients_follow(ls_model *model, struct ls_reducer_config *config);
/* Gives back all that is not kept. */
void ls_kept_gradients_give_back(const ls_model *model);

/* Bytes that the gradients of a replica of one of the workers have at the most. first: it is the worker's first one,
 * which keeps the worker's ranges. arena: bytes of its plans. The plans of the first replica here tell which gradients
 * are there at once; without plans only what is kept is counted. */
size_t ls_kept_gradients_bytes(const ls_model *model, const struct ls_shards_of *of, size_t arena, bool first);
