/* The choice of the next token from a model's logits. */
#pragma once
#include <lockstep/lockstep.h>

struct ls_sampler {
    const ls_generate_options *options; /* borrowed; complete */
    int count;                          /* of tokens */
    struct ls_candidate *candidates;    /* owns [count] */
};
ls_status ls_sampling_begin(struct ls_sampler *sampler, const ls_generate_options *options, int count);
void ls_sampling_end(struct ls_sampler *sampler);
/* logits [count]; position: of the token in the text, which draws by its own random number. DATA_LOSS where no logit is
 * a number. */
ls_status ls_sampling_choose(const struct ls_sampler *sampler, const float *logits, int64_t position, int32_t *token);
