/* Ready-made networks, of the same layers that users write, with Keras' names: tf.keras.applications.MobileNetV2 and
 * ResNet50, and LeNet-5. All give logits. A list and the names in it are one block of memory. */
#include <math.h>
#include <stdio.h>
#include <string.h>

#include "base/memory.h"
#include "base/need.h"
#include "base/options.h"
#include "base/status.h"
#include "model/layer.h"
#include "base/plain.h"

#define MAX_LAYERS 256

struct list {
    ls_layer *layers;
    char (*names)[LS_LAYER_NAME_SIZE];
    size_t count;
};

/* Appends a layer under a name, which is also returned. */
static const char *add_layer(struct list *list, ls_layer layer, const char *format, ...)
    __attribute__((format(printf, 3, 4)));
static const char *add_layer(struct list *list, ls_layer layer, const char *format, ...) {
    char *name = list->names[list->count];
    (void)LS_PLAIN_ARGUMENTS(name, LS_LAYER_NAME_SIZE, format);
    layer.name = name;
    list->layers[list->count++] = layer;
    return name;
}

static const char *last_name(const struct list *list) {
    return list->layers[list->count - 1].name;
}

/* ---- LeNet-5 ---- */

static void lenet(struct list *list, const ls_application_options *options) {
    const ls_layer layers[] = {
        ls_conv2d(6, 5, .padding = LS_SAME, .activation = LS_TANH),
        ls_average_pooling2d(2),
        ls_conv2d(16, 5, .activation = LS_TANH),
        ls_average_pooling2d(2),
        ls_flatten(),
        ls_dense(120, LS_TANH),
        ls_dense(84, LS_TANH),
        ls_dense(options->classes),
    };
    list->count = sizeof(layers) / sizeof(layers[0]);
    memcpy(list->layers, layers, sizeof(layers));
}

/* ---- MobileNetV2 ---- */

#define MOBILENET_NORM ls_batch_normalization(.momentum = 0.999F, .epsilon = 1e-3F)

/* The nearest multiple of 8, but at least nine tenths of value. */
static int divisible(float value) {
    int rounded = (int)(value + 4) / 8 * 8;
    if (rounded < 8) rounded = 8;
    return (float)rounded < 0.9F * value ? rounded + 8 : rounded;
}

struct inverted_residual {
    int block, in, filters, stride, expansion;
};

/* Expand by 1 x 1, filter each channel, project by 1 x 1; the input is added where the shapes allow. */
static void inverted_residual(struct list *list, const struct inverted_residual *b) {
    const char *input = last_name(list);
    char prefix[24] = "expanded_conv";
    if (b->block) {
        (void)snprintf(prefix, sizeof(prefix), "block_%d", b->block);
        (void)add_layer(list, ls_conv2d(b->expansion * b->in, 1, .no_bias = true), "%s_expand", prefix);
        (void)add_layer(list, MOBILENET_NORM, "%s_expand_BN", prefix);
        (void)add_layer(list, ls_relu6(), "%s_expand_relu", prefix);
    }
    (void)add_layer(list, ls_depthwise_conv2d(3, b->stride, LS_SAME, .no_bias = true), "%s_depthwise", prefix);
    (void)add_layer(list, MOBILENET_NORM, "%s_depthwise_BN", prefix);
    (void)add_layer(list, ls_relu6(), "%s_depthwise_relu", prefix);
    (void)add_layer(list, ls_conv2d(b->filters, 1, .no_bias = true), "%s_project", prefix);
    (void)add_layer(list, MOBILENET_NORM, "%s_project_BN", prefix);
    if (b->in == b->filters && b->stride == 1) (void)add_layer(list, ls_add(input), "%s_add", prefix);
}

static void mobilenet_v2(struct list *list, const ls_application_options *options) {
    static const struct {
        int expansion, filters, blocks, stride;
    } stages[] = {{1, 16, 1, 1}, {6, 24, 2, 2},  {6, 32, 3, 2}, {6, 64, 4, 2},
                  {6, 96, 3, 1}, {6, 160, 3, 2}, {6, 320, 1, 1}};
    int in = divisible(32 * options->alpha), block = 0;
    (void)add_layer(list, ls_conv2d(in, 3, 2, LS_SAME, .no_bias = true), "Conv1");
    (void)add_layer(list, MOBILENET_NORM, "bn_Conv1");
    (void)add_layer(list, ls_relu6(), "Conv1_relu");
    for (size_t s = 0; s < sizeof(stages) / sizeof(stages[0]); s++)
        for (int i = 0; i < stages[s].blocks; i++, block++) {
            int filters = divisible((float)stages[s].filters * options->alpha);
            inverted_residual(
                list, &(struct inverted_residual){block, in, filters, i ? 1 : stages[s].stride, stages[s].expansion});
            in = filters;
        }
    (void)add_layer(list, ls_conv2d(options->alpha > 1 ? divisible(1280 * options->alpha) : 1280, 1, .no_bias = true),
                    "Conv_1");
    (void)add_layer(list, MOBILENET_NORM, "Conv_1_bn");
    (void)add_layer(list, ls_relu6(), "out_relu");
    (void)add_layer(list, ls_global_average_pooling2d(), "global_average_pooling2d");
    (void)add_layer(list, ls_dense(options->classes), "predictions");
}

/* ---- ResNet50 ---- */

#define RESNET_NORM ls_batch_normalization(.epsilon = 1.001e-5F)

/* 1 x 1, 3 x 3 and 1 x 1 with four times the filters; the input is added, in a stage's first block through a 1 x 1. */
static void residual(struct list *list, const char *prefix, int filters, int stride, bool first) {
    const char *input = last_name(list), *shortcut = input;
    if (first) {
        (void)add_layer(list, ls_conv2d(4 * filters, 1, stride), "%s_0_conv", prefix);
        shortcut = add_layer(list, RESNET_NORM, "%s_0_bn", prefix);
    }
    (void)add_layer(list, ls_conv2d(filters, 1, stride, .input = input), "%s_1_conv", prefix);
    (void)add_layer(list, RESNET_NORM, "%s_1_bn", prefix);
    (void)add_layer(list, ls_relu(), "%s_1_relu", prefix);
    (void)add_layer(list, ls_conv2d(filters, 3, .padding = LS_SAME), "%s_2_conv", prefix);
    (void)add_layer(list, RESNET_NORM, "%s_2_bn", prefix);
    (void)add_layer(list, ls_relu(), "%s_2_relu", prefix);
    (void)add_layer(list, ls_conv2d(4 * filters, 1), "%s_3_conv", prefix);
    (void)add_layer(list, RESNET_NORM, "%s_3_bn", prefix);
    (void)add_layer(list, ls_add(shortcut), "%s_add", prefix);
    (void)add_layer(list, ls_relu(), "%s_out", prefix);
}

static void resnet50(struct list *list, const ls_application_options *options) {
    static const int blocks[] = {3, 4, 6, 3};
    (void)add_layer(list, ls_zero_padding2d(3, 3, 3, 3), "conv1_pad");
    (void)add_layer(list, ls_conv2d(64, 7, 2), "conv1_conv");
    (void)add_layer(list, RESNET_NORM, "conv1_bn");
    (void)add_layer(list, ls_relu(), "conv1_relu");
    (void)add_layer(list, ls_zero_padding2d(1, 1, 1, 1), "pool1_pad");
    (void)add_layer(list, ls_max_pooling2d(3, 2), "pool1_pool");
    for (int stage = 0; stage < 4; stage++)
        for (int block = 0; block < blocks[stage]; block++) {
            char prefix[24];
            (void)snprintf(prefix, sizeof(prefix), "conv%d_block%d", stage + 2, block + 1);
            residual(list, prefix, 64 << stage, stage && !block ? 2 : 1, !block);
        }
    (void)add_layer(list, ls_global_average_pooling2d(), "avg_pool");
    (void)add_layer(list, ls_dense(options->classes), "predictions");
}

/* ---- all of them ---- */

static const struct {
    const char *name;
    void (*build)(struct list *list, const ls_application_options *options);
    bool scales; /* alpha is the multiplier of its widths */
} applications[] = {{"lenet", lenet, false}, {"mobilenet_v2", mobilenet_v2, true}, {"resnet50", resnet50, false}};

static ls_status read_options(const ls_application_options *given, bool scales, ls_application_options *options) {
    ls_status status = ls_options_copy("ls_application_options", options, sizeof(*options), given);
    if (status) return status;
    if (options->classes < 1)
        return ls_fail(LS_INVALID_ARGUMENT, "application: classes %d must be 1 or more", options->classes);
    if (options->alpha != 0 && !scales)
        return ls_fail(LS_INVALID_ARGUMENT, "application: alpha %g is for mobilenet_v2", (double)options->alpha);
    if (options->alpha == 0) options->alpha = 1;
    if (options->alpha > 0 && options->alpha <= 16) return LS_OK;
    return ls_fail(LS_INVALID_ARGUMENT, "application: alpha %g must be above 0 and at most 16", (double)options->alpha);
}

ls_status ls_application(const char *name, const ls_application_options *options, ls_layer **layers, size_t *count) {
    LS_NEED(name, layers, count);
    size_t found = 0, known = sizeof(applications) / sizeof(applications[0]);
    ls_application_options filled;
    while (found < known && strcmp(applications[found].name, name)) found++;
    if (found == known)
        return ls_fail(LS_INVALID_ARGUMENT, "application '%.80s' is none of lenet, mobilenet_v2, resnet50", name);
    ls_status status = read_options(options, applications[found].scales, &filled);
    if (status) return status;
    size_t size = MAX_LAYERS * (sizeof(ls_layer) + LS_LAYER_NAME_SIZE);
    struct list list = {.layers = ls_alloc(size)};
    if (!list.layers) return ls_fail_memory("layers", size);
    list.names = (void *)(list.layers + MAX_LAYERS);
    applications[found].build(&list, &filled);
    *layers = list.layers;
    *count = list.count;
    return LS_OK;
}
