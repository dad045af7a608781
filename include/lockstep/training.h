/* How a model is trained: optimizers and losses. Part of the public API, included by lockstep.h. */
#ifndef LOCKSTEP_TRAINING_H
#define LOCKSTEP_TRAINING_H

#include <lockstep/lockstep.h>

#ifdef __cplusplus
extern "C" {
#endif

typedef enum ls_optimizer_kind { LS_OPTIMIZER_SGD = 1, LS_OPTIMIZER_ADAM } ls_optimizer_kind;
/* Keras' update rules; beta_1, beta_2 and epsilon of 0 mean Keras' 0.9, 0.999 and 1e-7. */
typedef struct ls_optimizer {
    ls_optimizer_kind kind;
    float learning_rate;
    float momentum;
    bool nesterov;
    float beta_1, beta_2, epsilon;
} ls_optimizer;
#define ls_sgd(...) ((ls_optimizer){.kind = LS_OPTIMIZER_SGD, .learning_rate = __VA_ARGS__})
#define ls_adam(...) ((ls_optimizer){.kind = LS_OPTIMIZER_ADAM, .learning_rate = __VA_ARGS__})

/* Softmax cross-entropy from logits; labels as class numbers, or one-hot rows made of them. */
typedef enum ls_loss { LS_SPARSE_CATEGORICAL_CROSSENTROPY = 1, LS_CATEGORICAL_CROSSENTROPY } ls_loss;

/* Before the first fit or evaluate. */
LS_API ls_status ls_model_compile(ls_model *model, ls_optimizer optimizer, ls_loss loss);

/* optimizer.learning_rate: that of the next step. Set between steps, as in on_epoch, and alike on all workers; a difference ends
 * fit with an error. Checkpoints and recovery keep it. on_epoch sees it as it was in the epoch's last step. */
LS_API ls_status ls_model_learning_rate(const ls_model *model, float *learning_rate);
LS_API ls_status ls_model_set_learning_rate(ls_model *model, float learning_rate);

#ifdef __cplusplus
}
#endif

#endif
