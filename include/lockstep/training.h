/* Ready-made networks, and how a model is trained: optimizers, schedules, losses, metrics. Part of the public API, included by lockstep.h. */
#ifndef LOCKSTEP_TRAINING_H
#define LOCKSTEP_TRAINING_H

#include <lockstep/lockstep.h>

#ifdef __cplusplus
extern "C" {
#endif

/* tf.keras.applications: the layers of "lenet", "mobilenet_v2" or "resnet50" with Keras' names, which give logits; for images
 * of any size that fits. And transformers, for inputs of T ids, with logits (T, classes): "gpt" (nanoGPT's model), "gpt2" (the
 * same with GELU by tanh, and GPT-2's sizes) and "llama" (RMSNormalization, rotary positions, SwiGLU). *layers is for
 * ls_model_new, and freed with ls_memory_free. */
typedef struct ls_application_options {
    size_t size;
    int classes;
    float alpha; /* multiplier of mobilenet_v2's widths; default 1 */
    int layers, heads, width; /* of a transformer: defaults 4, 4 and 128, and 12, 12 and 768 of gpt2. Heads divide the width */
    int kv_heads;             /* of llama: heads of keys and values, which divide heads; default as many */
    float dropout;            /* of a transformer, after each projection into the residual stream; default 0 */
} ls_application_options;
#define LS_APPLICATION(...) (&(ls_application_options){.size = sizeof(ls_application_options), __VA_ARGS__})
LS_API ls_status ls_application(const char *name, const ls_application_options *options, ls_layer **layers, size_t *count);

/* Tokens behind a prompt, of a model whose input is T ids and whose output are logits (T, vocabulary), as gpt's. One is drawn after
 * the other, by probabilities of the last T tokens. keras_hub's CausalLM.generate. */
typedef struct ls_generate_options {
    size_t size;
    const int32_t *prompt;     /* borrowed [prompt_count]: what goes before, one token at least */
    size_t prompt_count;
    int64_t count;             /* tokens to make; default 100 */
    bool greedy;               /* always the likeliest; the three below say nothing then */
    float temperature;         /* logits are divided by it; default 1 */
    int top_k;                 /* drawn from so many likeliest; default all */
    float top_p;               /* of those, the likeliest whose probabilities reach this sum; default 1 */
    uint64_t seed;             /* with a token's place, its random number */
    int64_t context;           /* T, where the model is not built yet: its weights are loaded, and nothing was trained */
    const int32_t *stop_token; /* borrowed: the end, which is not among the tokens; default none */
    /* Hears each one as it is made; its error ends the call. It may predict, and leaves the model's variables as they are. */
    ls_status (*on_token)(void *user, int32_t token);
    void *user;
    /* Each token runs the whole window: transformers' use_cache=False. Without it a token runs one position, behind keys and values
     * that are kept, while the text fits into T; but of models with layers that need all positions at once. */
    bool no_cache;
} ls_generate_options;
#define LS_GENERATE(...) (&(ls_generate_options){.size = sizeof(ls_generate_options), __VA_ARGS__})
/* *tokens, freed with ls_memory_free, receives *count tokens without the prompt's. Runs as ls_model_predict_on_batch does. */
LS_API ls_status ls_generate(ls_model *model, const ls_generate_options *options, int32_t **tokens, size_t *count);

#define LS_MAX_BOUNDARIES 8
/* keras.optimizers.schedules: the learning rate of step s, counted from 0; r is the optimizer's. With a warm-up of w steps it
 * rises linearly from warmup_from at step 0 to r at step w, and what follows is the schedule of s - w. */
typedef enum ls_rate_schedule_kind {
    LS_CONSTANT_RATE = 0,       /* r */
    LS_EXPONENTIAL_DECAY,       /* r decay_rate^(s / decay_steps); staircase: of the whole part */
    LS_COSINE_DECAY,            /* r ((1 - alpha) (1 + cos(pi min(s / decay_steps, 1))) / 2 + alpha) */
    LS_PIECEWISE_CONSTANT_DECAY /* r up to step boundaries[0], values[0] up to boundaries[1], ... */
} ls_rate_schedule_kind;
typedef struct ls_rate_schedule {
    ls_rate_schedule_kind kind;
    int64_t decay_steps;
    float decay_rate;
    bool staircase;
    float alpha;
    int64_t boundaries[LS_MAX_BOUNDARIES]; /* rising; the first that is 0 ends them */
    float values[LS_MAX_BOUNDARIES];
    int64_t warmup_steps;
    float warmup_from;
} ls_rate_schedule;

typedef enum ls_optimizer_kind {
    LS_OPTIMIZER_SGD = 1, LS_OPTIMIZER_ADAM, LS_OPTIMIZER_ADAMW, LS_OPTIMIZER_RMSPROP, LS_OPTIMIZER_LAMB
} ls_optimizer_kind;
/* Keras' update rules. A field that is 0 has Keras' default: beta_1 0.9, beta_2 0.999, epsilon 1e-7, rho 0.9, AdamW's
 * weight_decay 0.004. All replicas apply the same step, so that moments and rates are the same everywhere. */
typedef struct ls_optimizer {
    ls_optimizer_kind kind;
    float learning_rate;
    float momentum; /* of SGD and RMSprop */
    bool nesterov;
    float beta_1, beta_2, epsilon;
    bool torch_epsilon; /* of Adam and AdamW: beside the corrected root of the mean square, as torch.optim's eps */
    float rho; /* of RMSprop */
    bool centered;
    /* of any kind */
    float weight_decay;                    /* decoupled: before each step w -= w weight_decay learning_rate */
    const char *exclude_from_weight_decay; /* "bias,gamma,beta": not those whose names contain one of these; copied */
    ls_rate_schedule schedule;
    float clipvalue, clipnorm, global_clipnorm; /* one of them: each element, each variable's norm, the norm of all */
    /* with momentum: a step at another learning rate than the one before multiplies what is kept of the velocity, which
     * has the rate inside, by the ratio of the two (Goyal et al. 2017; Horovod's LearningRateWarmupCallback) */
    bool momentum_correction;
    int gradient_accumulation_steps;            /* batches a step, whose mean gradient it takes; at an epoch's end maybe fewer */
} ls_optimizer;
#define ls_sgd(...) ((ls_optimizer){.kind = LS_OPTIMIZER_SGD, .learning_rate = __VA_ARGS__})
#define ls_adam(...) ((ls_optimizer){.kind = LS_OPTIMIZER_ADAM, .learning_rate = __VA_ARGS__})
#define ls_adamw(...) ((ls_optimizer){.kind = LS_OPTIMIZER_ADAMW, .learning_rate = __VA_ARGS__})
#define ls_rmsprop(...) ((ls_optimizer){.kind = LS_OPTIMIZER_RMSPROP, .learning_rate = __VA_ARGS__})
#define ls_lamb(...) ((ls_optimizer){.kind = LS_OPTIMIZER_LAMB, .learning_rate = __VA_ARGS__})

/* keras.losses. Labels are class numbers; CATEGORICAL makes one-hot rows of them, with the same numbers. BINARY and
 * those after it take each output by itself: one output has the label itself as its target, several have a one-hot row.
 * The targets of a dataset that has them (ls_dataset_targets), of the last layer's shape, are compared with the outputs
 * by all losses but SPARSE. HUBER is half the squared error up to huber_delta, and linear above. The loss of an example
 * is multiplied by its sample or class weight; the sum is divided by the number of examples, as Keras does. Of an output with
 * several positions an example has a class for each. Those of SPARSE with class -1 do not count, as torch's ignore_index: they
 * have no loss, no gradient and no part in accuracy and metrics, and the sum over all others is divided by their number. Targets
 * of arrays and NumPy have such classes. Workers that train apart divide by their own number; LS_DELAYED refuses
 * them beside accumulated gradients and regularisers. */
typedef enum ls_loss {
    LS_SPARSE_CATEGORICAL_CROSSENTROPY = 1, LS_CATEGORICAL_CROSSENTROPY, LS_BINARY_CROSSENTROPY, LS_MEAN_SQUARED_ERROR,
    LS_MEAN_ABSOLUTE_ERROR, LS_HUBER
} ls_loss;

/* keras.metrics: means over the examples, beside the loss and the accuracy that belongs to it (none to MEAN_SQUARED_ERROR,
 * MEAN_ABSOLUTE_ERROR and HUBER). */
typedef enum ls_metric_kind {
    LS_METRIC_SPARSE_CATEGORICAL_ACCURACY = 1, LS_METRIC_CATEGORICAL_ACCURACY, LS_METRIC_BINARY_ACCURACY, LS_METRIC_TOP_K,
    LS_METRIC_MEAN_LOSS, LS_METRIC_MEAN_SQUARED_ERROR, LS_METRIC_MEAN_ABSOLUTE_ERROR, LS_METRIC_PERPLEXITY
} ls_metric_kind;
typedef struct ls_metric {
    ls_metric_kind kind;
    int k;           /* of top_k; default 5 */
    float threshold; /* of binary_accuracy: outputs above it are a 1; default: probability 0.5, which is logit 0 */
} ls_metric;
#define ls_sparse_categorical_accuracy() ((ls_metric){.kind = LS_METRIC_SPARSE_CATEGORICAL_ACCURACY})
#define ls_categorical_accuracy() ((ls_metric){.kind = LS_METRIC_CATEGORICAL_ACCURACY})
#define ls_binary_accuracy(...) ((ls_metric){.kind = LS_METRIC_BINARY_ACCURACY, __VA_ARGS__})
#define ls_top_k(...) ((ls_metric){.kind = LS_METRIC_TOP_K, .k = __VA_ARGS__})
/* The loss without what regularisers add to it. */
#define ls_mean_loss() ((ls_metric){.kind = LS_METRIC_MEAN_LOSS})
#define ls_mean_squared_error() ((ls_metric){.kind = LS_METRIC_MEAN_SQUARED_ERROR})
#define ls_mean_absolute_error() ((ls_metric){.kind = LS_METRIC_MEAN_ABSOLUTE_ERROR})
/* keras_hub.metrics.Perplexity: exp of mean_loss, of a categorical cross-entropy without label_smoothing. */
#define ls_perplexity() ((ls_metric){.kind = LS_METRIC_PERPLEXITY})
#define LS_METRICS(...) ((const ls_metric[]){__VA_ARGS__, {0}})

/* keras.mixed_precision's policies. Variables, their gradients, all sums and the optimizer are float32 in each of them, and so are
 * the loss and the outputs. Values of 16 bits need GPUs. A CPU device keeps float32 values with LS_MIXED_BFLOAT16, and the products
 * of its dense layers round what they multiply; it needs AVX-512. Compiling is UNIMPLEMENTED on other devices. */
typedef enum ls_precision {
    LS_PRECISION_FLOAT32 = 0,
    LS_PRECISION_TF32, /* products and convolutions may round what they multiply to TF32, on GPUs that have it: 10 bits of 23 */
    LS_MIXED_BFLOAT16, /* "mixed_bfloat16": what layers give each other, and the kernels that they use, are bfloat16 */
    /* "mixed_float16": float16. The loss is scaled so that its gradients do not vanish, as by LossScaleOptimizer: by 2^15 at
     * first, twice as much after 2000 steps with finite gradients, half as much after one without, which changes nothing else. */
    LS_MIXED_FLOAT16
} ls_precision;

/* Values of forward that backward needs are kept, or made again (tf.recompute_grad, torch.utils.checkpoint). The bits are the same. */
typedef enum ls_recompute {
    LS_RECOMPUTE_AUTO = 0, /* NONE on a GPU where all layers then take at most half of its free memory, else ACTIVATIONS */
    LS_RECOMPUTE_NONE,
    LS_RECOMPUTE_ACTIVATIONS, /* outputs of normalizations, GELU and SiLU are made again: one more pass over memory */
    /* Of what lies between two values through which all goes, such as two sums of a transformer's residual stream, the input alone is
     * kept, and its layers run again: up to a third more time. In a network with convolutions it is ACTIVATIONS. */
    LS_RECOMPUTE_BLOCKS
} ls_recompute;

/* Model.fit's class_weight: how many times the loss of a class' examples counts. */
struct ls_class_weight {
    int label;
    float weight; /* 0 or more */
};
#define LS_CLASS_WEIGHT(...) ((const ls_class_weight[]){__VA_ARGS__, {-1, 0}}) /* LS_CLASS_WEIGHT({0, 1}, {1, 5}) */

/* Before the first fit or evaluate: a model's outputs are logits, and there are no metrics. */
LS_API ls_status ls_model_compile(ls_model *model, ls_optimizer optimizer, ls_loss loss);
typedef struct ls_compile_options {
    size_t size;
    bool from_probabilities;  /* Keras' from_logits=False: the outputs are probabilities, as those of softmax or sigmoid */
    float label_smoothing;    /* in [0, 1): so much of each target is the same for all */
    const ls_metric *metrics; /* LS_METRICS(ls_top_k(5), ...), at most LS_MAX_METRICS; copied. Sample weights do not count */
    ls_precision precision;
    /* Products and convolutions may use the GPU libraries' faster algorithms that add in any order: what a training gives differs
     * from run to run. Default: as after tf.config.experimental.enable_op_determinism. CPU devices compute alike in both. */
    bool nondeterministic_ops;
    float huber_delta; /* of LS_HUBER; default 1 */
    /* In these they do: sum(weight value) / sum(weight). They come behind metrics, and count among the LS_MAX_METRICS. */
    const ls_metric *weighted_metrics;
    ls_recompute recompute;
} ls_compile_options;
#define LS_COMPILE(...) (&(ls_compile_options){.size = sizeof(ls_compile_options), __VA_ARGS__})
LS_API ls_status ls_model_compile_with(ls_model *model, ls_optimizer optimizer, ls_loss loss, const ls_compile_options *options);
/* Keras' name of the index-th metric, "top_k_categorical_accuracy"; "weighted_..." of a weighted one that is unweighted there too.
 * NULL past the end. */
LS_API const char *ls_model_metric_name(const ls_model *model, int index);

/* optimizer.learning_rate: that of the next step. FAILED_PRECONDITION to set it where a schedule does. Set between steps, as in on_epoch, and alike on all workers; a difference ends
 * fit with an error. Checkpoints and recovery keep it. on_epoch sees it as it was in the epoch's last step. */
LS_API ls_status ls_model_learning_rate(const ls_model *model, float *learning_rate);
LS_API ls_status ls_model_set_learning_rate(ls_model *model, float learning_rate);

#ifdef __cplusplus
}
#include <lockstep/lockstep.hpp>
#endif

#endif
