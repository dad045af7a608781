/* Sampling: the logits by the temperature, the likeliest k, of these the likeliest whose probabilities sum to p, and
 * one of them by a random number that is a function of seed and position. Mirrors keras_hub.samplers (GreedySampler,
 * TopKSampler, TopPSampler) and transformers' generate; top p is Holtzman et al. 2019, "The curious case of neural text
 * degeneration". */
#include "train/sampling.h"

#include <math.h>
#include <stdlib.h>

#include "base/memory.h"
#include "base/random.h"
#include "base/status.h"

struct ls_candidate {
    float logit;
    int32_t token;
    double weight; /* its probability but for a factor, once it is known that it may be drawn */
};

ls_status ls_sampling_begin(struct ls_sampler *sampler, const ls_generate_options *options, int count) {
    *sampler = (struct ls_sampler){options, count, ls_alloc_array((size_t)count, sizeof(*sampler->candidates))};
    return sampler->candidates ? LS_OK : ls_fail_memory("tokens to choose from", (size_t)count);
}

void ls_sampling_end(struct ls_sampler *sampler) {
    ls_free(sampler->candidates);
    sampler->candidates = NULL;
}

/* The likeliest first, and of equal ones the lowest. */
static int compare_candidates(const void *a, const void *b) {
    const struct ls_candidate *x = a, *y = b;
    if (x->logit > y->logit || x->logit < y->logit) return x->logit > y->logit ? -1 : 1;
    return x->token < y->token ? -1 : x->token > y->token;
}

static int list_candidates(const struct ls_sampler *sampler, const float *logits) {
    int count = 0;
    for (int i = 0; i < sampler->count; i++)
        if (!isnan(logits[i])) sampler->candidates[count++] = (struct ls_candidate){.logit = logits[i], .token = i};
    return count;
}

static int32_t find_likeliest(const struct ls_candidate *candidates, int count) {
    const struct ls_candidate *best = candidates;
    for (int i = 1; i < count; i++)
        if (candidates[i].logit > best->logit) best = &candidates[i];
    return best->token;
}

static double weight_of(const struct ls_sampler *sampler, int i) {
    double top = (double)sampler->candidates[0].logit;
    if (isinf(top)) return sampler->candidates[i].logit >= sampler->candidates[0].logit;
    return exp(((double)sampler->candidates[i].logit - top) / (double)sampler->options->temperature);
}

/* Returns the number of sorted candidates that are drawn from; *sum is that of their weights. */
static int cut_candidates(const struct ls_sampler *sampler, int count, double *sum) {
    const ls_generate_options *options = sampler->options;
    double all = 0;
    int kept = 0;
    if (options->top_k && options->top_k < count) count = options->top_k;
    for (int i = 0; i < count; i++) all += sampler->candidates[i].weight = weight_of(sampler, i);
    for (*sum = 0; kept < count && (kept == 0 || *sum < (double)options->top_p * all); kept++)
        *sum += sampler->candidates[kept].weight;
    return kept;
}

static int32_t draw_candidate(const struct ls_sampler *sampler, int count, double sum, int64_t position) {
    uint64_t bits = ls_random_bits(sampler->options->seed, ls_random_stream("generate"), (uint64_t)position);
    double left = (double)(bits >> 11) * 0x1p-53 * sum;
    int i = 0;
    while (i + 1 < count && left >= sampler->candidates[i].weight) left -= sampler->candidates[i++].weight;
    return sampler->candidates[i].token;
}

ls_status ls_sampling_choose(const struct ls_sampler *sampler, const float *logits, int64_t position, int32_t *token) {
    int count = list_candidates(sampler, logits);
    double sum;
    if (!count) return ls_fail(LS_DATA_LOSS, "no logit of the token at position %lld is a number", (long long)position);
    if (sampler->options->greedy) {
        *token = find_likeliest(sampler->candidates, count);
        return LS_OK;
    }
    qsort(sampler->candidates, (size_t)count, sizeof(*sampler->candidates), compare_candidates);
    count = cut_candidates(sampler, count, &sum);
    *token = draw_candidate(sampler, count, sum, position);
    return LS_OK;
}
