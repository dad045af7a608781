/* The layers of a model, with Keras' names and defaults; lockstep.h includes this. A layer is a value: a field left out
 * is zero, and zero means the default.
 *
 * A model is a list of layers. Each takes the output of the layer before it, or of the one that .input names; ls_add,
 * ls_multiply and ls_concatenate also take those of the layers that they name. So a residual block reads:
 *
 *     ls_conv2d(16, 3, .padding = LS_SAME, .name = "stem"),
 *     ls_batch_normalization(), ls_relu(),
 *     ls_conv2d(16, 3, .padding = LS_SAME),
 *     ls_add("stem"), ls_relu(),
 *
 * Images are (height, width, channels), kernels (height, width, channels, filters), as in Keras. */
#ifndef LOCKSTEP_LAYERS_H
#define LOCKSTEP_LAYERS_H

#include <stdbool.h>
#include <stddef.h>

typedef enum ls_layer_kind {
    LS_LAYER_DENSE = 1, LS_LAYER_FLATTEN, LS_LAYER_ACTIVATION, LS_LAYER_CONV2D, LS_LAYER_DEPTHWISE_CONV2D,
    LS_LAYER_BATCH_NORMALIZATION, LS_LAYER_MAX_POOLING2D, LS_LAYER_AVERAGE_POOLING2D, LS_LAYER_GLOBAL_MAX_POOLING2D,
    LS_LAYER_GLOBAL_AVERAGE_POOLING2D, LS_LAYER_ADD, LS_LAYER_CONCATENATE, LS_LAYER_ZERO_PADDING2D, LS_LAYER_RESCALING,
    LS_LAYER_DROPOUT, LS_LAYER_EMBEDDING, LS_LAYER_GLOBAL_AVERAGE_POOLING1D,
    LS_LAYER_TIED_DENSE, LS_LAYER_ATTENTION, LS_LAYER_POSITION_EMBEDDING, LS_LAYER_LAYER_NORMALIZATION,
    LS_LAYER_RMS_NORMALIZATION, LS_LAYER_MULTIPLY, LS_LAYER_LSTM, LS_LAYER_GRU,
    LS_LAYER_CONV1D, LS_LAYER_MAX_POOLING1D, LS_LAYER_AVERAGE_POOLING1D, LS_LAYER_GLOBAL_MAX_POOLING1D
} ls_layer_kind;
/* LS_GELU: x Phi(x) for the normal distribution's Phi, Keras' and torch's default; LS_GELU_TANH: their approximate form,
 * GPT-2's. LS_SILU, or swish: x sigmoid(x). The gradient of these three needs what they were applied to, so a training
 * keeps that beside their outputs. */
typedef enum ls_activation { LS_LINEAR = 0, LS_RELU, LS_RELU6, LS_LEAKY_RELU, LS_SIGMOID, LS_TANH, LS_SOFTMAX, LS_GELU, LS_GELU_TANH, LS_SILU } ls_activation;
/* LS_ORTHOGONAL: of the kernel as a matrix (all axes but the last, the last) the rows, or where they are more the columns,
 * are of length 1 and at right angles; Keras' Orthogonal with a gain of 1. */
typedef enum ls_initializer { LS_GLOROT_UNIFORM = 0, LS_GLOROT_NORMAL, LS_HE_UNIFORM, LS_HE_NORMAL, LS_ZEROS, LS_ONES, LS_RANDOM_UNIFORM, LS_RANDOM_NORMAL, LS_ORTHOGONAL } ls_initializer;
/* SAME: as many outputs as inputs, divided by the stride and rounded up; where the zeros that this needs are odd in
 * number, the one more is at the bottom and the right.
 * CAUSAL, of conv1d: all zeros are before the sequence, so that a position sees itself and those before it. */
typedef enum ls_padding { LS_VALID = 0, LS_SAME, LS_CAUSAL } ls_padding;

#define LS_MAX_OTHER_INPUTS 7
typedef struct ls_layer {
    ls_layer_kind kind;
    int units; /* of dense, lstm and gru; filters of conv2d and conv1d; multiplier of depthwise_conv2d (default 1); output_dim of embedding */
    ls_activation activation;
    ls_initializer kernel_initializer;
    const char *name;  /* default: Keras' ("dense", "dense_1", ...). Names are borrowed until ls_model_new returns */
    const char *input; /* name of the layer whose output this one takes; default: the one before; "input": the model's */
    const char *others[LS_MAX_OTHER_INPUTS]; /* add, multiply, concatenate: names of the further inputs */
    const char *tied;                        /* of tied_dense: the name of an embedding layer before it */
    int kernel_size;                         /* of convolutions, pool_size of pools (default 2); square */
    int strides;                             /* default 1; of pools pool_size */
    ls_padding padding;
    int kernel_width;  /* where it is not kernel_size */
    int dilation_rate; /* default 1 */
    int groups;        /* default 1 */
    bool no_bias;
    int zeros[4];          /* zero_padding2d: top, bottom, left, right */
    float momentum;        /* of batch normalization's moving statistics; default 0.99 */
    float epsilon;         /* of normalizations; default 0.001, of rms_normalization 1e-6 */
    bool no_scale;         /* batch and layer normalization without gamma, rms_normalization without scale */
    bool no_center;        /* batch and layer normalization without beta */
    bool synchronized;     /* batch normalization by the statistics of all replicas' examples */
    bool fused;            /* batch normalization's moving variance as in TensorFlow's fused kernel: of the batch times
                            * n / (n - 1) for n values; Keras 3 takes it as it is */
    float rate;            /* of dropout */
    float negative_slope;  /* of LS_LEAKY_RELU; default 0.3 */
    float scale, offset;   /* of rescaling: y = x scale + offset */
    int input_dim;         /* of embedding: ids are from 0 to below it; at most 2^24 unless they are integers */
    bool sparse;           /* of embedding: see ls_embedding */
    bool per_position;     /* of dense: see ls_dense */
    int heads, kv_heads;   /* of attention: of queries; of keys and values, default heads, which they divide */
    int window;            /* of attention: positions that one sees, itself the last; default all up to itself */
    bool rope;             /* of attention: rotary positions of queries and keys */
    float rope_theta;      /* of rope: the base of its angles; default 10000 */
    bool return_sequences; /* of lstm and gru: outputs of all positions, not of the last alone */
    bool no_causal_mask;   /* attention in which each position sees all: Keras' use_causal_mask = False */
    float kernel_l1, kernel_l2; /* Keras' kernel_regularizer L1L2: adds l1 sum |w| + l2 sum w^2 to the loss */
    float stddev;          /* of LS_RANDOM_NORMAL as kernel_initializer, which is not cut; default 0.05 */
    bool frozen;           /* Keras' trainable = False: its variables stay, and batch normalization takes its moving
                            * statistics */
    float rate_multiplier; /* of the learning rate, for its variables; default 1 */
} ls_layer;

/* ls_dense(units), ls_dense(units, activation), ls_dense(units, activation, .kernel_initializer = ...): inputs of more
 * than one axis are flattened first. Kernel (in, units), bias (units). With .per_position = true the last axis alone is
 * taken, as Keras' Dense does: (n, in) becomes (n, units). */
#define ls_dense(...) ((ls_layer){.kind = LS_LAYER_DENSE, .units = __VA_ARGS__})
/* ls_tied_dense("token_embedding"): y = x times the transposed table of that embedding, for each position: (n, output_dim)
 * becomes (n, input_dim). It has no variables: the table's gradient is the sum of both. As keras_hub's ReversibleEmbedding. */
#define ls_tied_dense(...) ((ls_layer){.kind = LS_LAYER_TIED_DENSE, .tied = __VA_ARGS__})
#define ls_flatten() ((ls_layer){.kind = LS_LAYER_FLATTEN})
#define ls_activation(...) ((ls_layer){.kind = LS_LAYER_ACTIVATION, .activation = __VA_ARGS__})
#define ls_relu() ls_activation(LS_RELU)
#define ls_relu6() ls_activation(LS_RELU6)
#define ls_leaky_relu(slope) ls_activation(LS_LEAKY_RELU, .negative_slope = slope)
#define ls_softmax() ls_activation(LS_SOFTMAX)
/* ls_conv2d(filters, kernel_size), ls_conv2d(filters, kernel_size, strides, padding, .activation = ...) */
#define ls_conv2d(filters, ...) ((ls_layer){.kind = LS_LAYER_CONV2D, .units = filters, .kernel_size = __VA_ARGS__})
/* ls_depthwise_conv2d(kernel_size, strides, padding, ...) */
#define ls_depthwise_conv2d(...) ((ls_layer){.kind = LS_LAYER_DEPTHWISE_CONV2D, .kernel_size = __VA_ARGS__})
/* ls_batch_normalization(.momentum = 0.999f) over all axes but the last. Its statistics are those of the replica's own
 * examples, or with .synchronized = true of the whole batch; the moving ones, which evaluation uses, are averaged over the
 * replicas in each step. */
#define ls_batch_normalization(...) ((ls_layer){.kind = LS_LAYER_BATCH_NORMALIZATION, __VA_ARGS__})
/* Over the last axis, of inputs of any rank: each position (x - mean) / sqrt(variance + epsilon) gamma + beta, as Keras'
 * LayerNormalization of Ba, Kiros and Hinton 2016; gamma and beta have the last axis' shape. ls_rms_normalization: x /
 * sqrt(mean(x^2) + epsilon) scale, Keras' RMSNormalization of Zhang and Sennrich 2019. torch's LayerNorm has an epsilon of
 * 1e-5: ls_layer_normalization(.epsilon = 1e-5f). */
#define ls_layer_normalization(...) ((ls_layer){.kind = LS_LAYER_LAYER_NORMALIZATION, __VA_ARGS__})
#define ls_rms_normalization(...) ((ls_layer){.kind = LS_LAYER_RMS_NORMALIZATION, __VA_ARGS__})
/* ls_max_pooling2d(pool_size, strides, padding); averages leave padding out. */
#define ls_max_pooling2d(...) ((ls_layer){.kind = LS_LAYER_MAX_POOLING2D, .kernel_size = __VA_ARGS__})
#define ls_average_pooling2d(...) ((ls_layer){.kind = LS_LAYER_AVERAGE_POOLING2D, .kernel_size = __VA_ARGS__})
#define ls_global_max_pooling2d() ((ls_layer){.kind = LS_LAYER_GLOBAL_MAX_POOLING2D})
#define ls_global_average_pooling2d() ((ls_layer){.kind = LS_LAYER_GLOBAL_AVERAGE_POOLING2D})
/* ls_embedding(input_dim, output_dim): a table of input_dim rows; each of the model's features is an id, a whole number below
 * input_dim, and becomes its row: (n) features give (n, output_dim). Another id is INVALID_ARGUMENT, which names the table, the
 * example and the place. Initial values are uniform in [-0.05, 0.05), or as kernel_initializer says where it is another than the
 * default. Gradients of one id's rows are added in their order. With .sparse = true (torch's name) a ParameterServerStrategy
 * may keep the table on its servers alone, as ls_parameter_server_options.sparse says; other strategies look past it. */
#define ls_embedding(ids, ...) ((ls_layer){.kind = LS_LAYER_EMBEDDING, .input_dim = ids, .units = __VA_ARGS__})
/* The mean of (n, channels) over n, and the largest. */
#define ls_global_average_pooling1d() ((ls_layer){.kind = LS_LAYER_GLOBAL_AVERAGE_POOLING1D})
#define ls_global_max_pooling1d() ((ls_layer){.kind = LS_LAYER_GLOBAL_MAX_POOLING1D})
/* Over the positions of (n, channels), as keras.layers.Conv1D, MaxPooling1D and AveragePooling1D: ls_conv1d(filters, kernel_size,
 * strides, padding, ...), with a kernel (kernel_size, channels, filters); ls_max_pooling1d(pool_size, strides, padding). */
#define ls_conv1d(filters, ...) ((ls_layer){.kind = LS_LAYER_CONV1D, .units = filters, .kernel_size = __VA_ARGS__})
#define ls_max_pooling1d(...) ((ls_layer){.kind = LS_LAYER_MAX_POOLING1D, .kernel_size = __VA_ARGS__})
#define ls_average_pooling1d(...) ((ls_layer){.kind = LS_LAYER_AVERAGE_POOLING1D, .kernel_size = __VA_ARGS__})
/* ls_attention(heads), ls_attention(heads, .kv_heads = 2, .window = 256, .rope = true): the core of self-attention. It takes
 * (T, (heads + 2 kv_heads) d), which ls_dense with .per_position makes: of each position the queries of all heads, then keys, then
 * values of kv_heads, of d channels each. It gives (T, heads d): for each head softmax(q k^T / sqrt(d)) v, where a position sees
 * itself and those before it. Neighbouring heads share keys and values where kv_heads are fewer. It has no variables. Mirrors
 * torch.nn.functional.scaled_dot_product_attention(is_causal=True, enable_gqa=True) and the core of keras.layers.MultiHeadAttention
 * and GroupQueryAttention. .rope turns queries and keys by their position (Su et al. 2021) in the form of Hugging Face's
 * Llama: elements i and i + d / 2 are a pair, whose angles are powers of .rope_theta, the field of that name there. A row has
 * the same bits whatever the threads and the rows beside it.
 * INVALID_ARGUMENT where the channels do not divide. */
#define ls_attention(...) ((ls_layer){.kind = LS_LAYER_ATTENTION, .heads = __VA_ARGS__})
/* ls_position_embedding(), ls_position_embedding(.kernel_initializer = ...): adds a variable "embeddings" (T, C) to inputs (T, C), as
 * keras_hub.layers.PositionEmbedding. Its gradient is the sum over the rows in their order. */
#define ls_position_embedding(...) ((ls_layer){.kind = LS_LAYER_POSITION_EMBEDDING, __VA_ARGS__})
/* ls_lstm(units), ls_gru(units), ls_lstm(units, .return_sequences = true): the recurrent layers of Hochreiter and Schmidhuber
 * 1997 and Cho et al. 2014. They take (T, C) and give (units), the output of the last position, or (T, units). Mirror
 * keras.layers.LSTM and GRU with their defaults: tanh, and the logistic function in the gates, which come in the order i, f, c, o,
 * and z, r, h; reset_after, unit_forget_bias. Variables: kernel (C, 4 units) with kernel_initializer, recurrent_kernel (units, 4
 * units), LS_ORTHOGONAL, bias (4 units); of a GRU 3 units, and bias (2, 3 units), of which the first row is the kernel's. The
 * state is 0 at the first position. Threads change no bit of the walk through the positions. INVALID_ARGUMENT where the input has
 * not two axes. */
#define ls_lstm(...) ((ls_layer){.kind = LS_LAYER_LSTM, .units = __VA_ARGS__})
#define ls_gru(...) ((ls_layer){.kind = LS_LAYER_GRU, .units = __VA_ARGS__})
/* ls_add("name"): the output of the layer before and that of the named one, of the same shape; names of more may follow.
 * ls_multiply("name"): their product, element by element. So SwiGLU (Shazeer 2020) reads:
 *
 *     ls_dense(256, LS_SILU, .per_position = true, .name = "gate", .input = "norm"),
 *     ls_dense(256, .per_position = true, .input = "norm"), ls_multiply("gate"),
 *
 * ls_concatenate("name"): side by side along the last axis. */
#define ls_add(...) ((ls_layer){.kind = LS_LAYER_ADD, .others = {__VA_ARGS__}})
#define ls_multiply(...) ((ls_layer){.kind = LS_LAYER_MULTIPLY, .others = {__VA_ARGS__}})
#define ls_concatenate(...) ((ls_layer){.kind = LS_LAYER_CONCATENATE, .others = {__VA_ARGS__}})
/* ls_zero_padding2d(top, bottom, left, right) */
#define ls_zero_padding2d(...) ((ls_layer){.kind = LS_LAYER_ZERO_PADDING2D, .zeros = {__VA_ARGS__}})
/* ls_rescaling(scale), ls_rescaling(scale, offset) */
#define ls_rescaling(...) ((ls_layer){.kind = LS_LAYER_RESCALING, .scale = __VA_ARGS__})
/* A function of the model's seed, the step, the replica and the element: the same however replicas are laid out. */
#define ls_dropout(...) ((ls_layer){.kind = LS_LAYER_DROPOUT, .rate = __VA_ARGS__})
#define LS_LAYERS(...) (const ls_layer[]){__VA_ARGS__}, sizeof((const ls_layer[]){__VA_ARGS__}) / sizeof(ls_layer)

#endif
