/* Ready-made networks, of the same layers that users write, with Keras' names: tf.keras.applications.MobileNetV2 and
 * ResNet50, LeNet-5, and the transformers of transformers.c. All give logits. */
#include <math.h>
#include <stdio.h>
#include <string.h>

#include "base/need.h"
#include "base/options.h"
#include "base/status.h"
#include "model/transformers.h"

/* ---- LeNet-5 ---- */

static void lenet(struct ls_layer_list *list, const ls_application_options *options) {
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
static void inverted_residual(struct ls_layer_list *list, const struct inverted_residual *b) {
    const char *input = ls_layer_list_last(list);
    char prefix[24] = "expanded_conv";
    if (b->block) {
        (void)snprintf(prefix, sizeof(prefix), "block_%d", b->block);
        (void)ls_layer_list_add(list, ls_conv2d(b->expansion * b->in, 1, .no_bias = true), "%s_expand", prefix);
        (void)ls_layer_list_add(list, MOBILENET_NORM, "%s_expand_BN", prefix);
        (void)ls_layer_list_add(list, ls_relu6(), "%s_expand_relu", prefix);
    }
    (void)ls_layer_list_add(list, ls_depthwise_conv2d(3, b->stride, LS_SAME, .no_bias = true), "%s_depthwise", prefix);
    (void)ls_layer_list_add(list, MOBILENET_NORM, "%s_depthwise_BN", prefix);
    (void)ls_layer_list_add(list, ls_relu6(), "%s_depthwise_relu", prefix);
    (void)ls_layer_list_add(list, ls_conv2d(b->filters, 1, .no_bias = true), "%s_project", prefix);
    (void)ls_layer_list_add(list, MOBILENET_NORM, "%s_project_BN", prefix);
    if (b->in == b->filters && b->stride == 1) (void)ls_layer_list_add(list, ls_add(input), "%s_add", prefix);
}

static void mobilenet_v2(struct ls_layer_list *list, const ls_application_options *options) {
    static const struct {
        int expansion, filters, blocks, stride;
    } stages[] = {{1, 16, 1, 1}, {6, 24, 2, 2},  {6, 32, 3, 2}, {6, 64, 4, 2},
                  {6, 96, 3, 1}, {6, 160, 3, 2}, {6, 320, 1, 1}};
    int in = divisible(32 * options->alpha), block = 0;
    (void)ls_layer_list_add(list, ls_conv2d(in, 3, 2, LS_SAME, .no_bias = true), "Conv1");
    (void)ls_layer_list_add(list, MOBILENET_NORM, "bn_Conv1");
    (void)ls_layer_list_add(list, ls_relu6(), "Conv1_relu");
    for (size_t s = 0; s < sizeof(stages) / sizeof(stages[0]); s++)
        for (int i = 0; i < stages[s].blocks; i++, block++) {
            int filters = divisible((float)stages[s].filters * options->alpha);
            inverted_residual(
                list, &(struct inverted_residual){block, in, filters, i ? 1 : stages[s].stride, stages[s].expansion});
            in = filters;
        }
    (void)ls_layer_list_add(
        list, ls_conv2d(options->alpha > 1 ? divisible(1280 * options->alpha) : 1280, 1, .no_bias = true), "Conv_1");
    (void)ls_layer_list_add(list, MOBILENET_NORM, "Conv_1_bn");
    (void)ls_layer_list_add(list, ls_relu6(), "out_relu");
    (void)ls_layer_list_add(list, ls_global_average_pooling2d(), "global_average_pooling2d");
    (void)ls_layer_list_add(list, ls_dense(options->classes), "predictions");
}

/* ---- ResNet50 ---- */

#define RESNET_NORM ls_batch_normalization(.epsilon = 1.001e-5F)

/* 1 x 1, 3 x 3 and 1 x 1 with four times the filters; the input is added, in a stage's first block through a 1 x 1. */
static void residual(struct ls_layer_list *list, const char *prefix, int filters, int stride, bool first) {
    const char *input = ls_layer_list_last(list), *shortcut = input;
    if (first) {
        (void)ls_layer_list_add(list, ls_conv2d(4 * filters, 1, stride), "%s_0_conv", prefix);
        shortcut = ls_layer_list_add(list, RESNET_NORM, "%s_0_bn", prefix);
    }
    (void)ls_layer_list_add(list, ls_conv2d(filters, 1, stride, .input = input), "%s_1_conv", prefix);
    (void)ls_layer_list_add(list, RESNET_NORM, "%s_1_bn", prefix);
    (void)ls_layer_list_add(list, ls_relu(), "%s_1_relu", prefix);
    (void)ls_layer_list_add(list, ls_conv2d(filters, 3, .padding = LS_SAME), "%s_2_conv", prefix);
    (void)ls_layer_list_add(list, RESNET_NORM, "%s_2_bn", prefix);
    (void)ls_layer_list_add(list, ls_relu(), "%s_2_relu", prefix);
    (void)ls_layer_list_add(list, ls_conv2d(4 * filters, 1), "%s_3_conv", prefix);
    (void)ls_layer_list_add(list, RESNET_NORM, "%s_3_bn", prefix);
    (void)ls_layer_list_add(list, ls_add(shortcut), "%s_add", prefix);
    (void)ls_layer_list_add(list, ls_relu(), "%s_out", prefix);
}

static void resnet50(struct ls_layer_list *list, const ls_application_options *options) {
    static const int blocks[] = {3, 4, 6, 3};
    (void)ls_layer_list_add(list, ls_zero_padding2d(3, 3, 3, 3), "conv1_pad");
    (void)ls_layer_list_add(list, ls_conv2d(64, 7, 2), "conv1_conv");
    (void)ls_layer_list_add(list, RESNET_NORM, "conv1_bn");
    (void)ls_layer_list_add(list, ls_relu(), "conv1_relu");
    (void)ls_layer_list_add(list, ls_zero_padding2d(1, 1, 1, 1), "pool1_pad");
    (void)ls_layer_list_add(list, ls_max_pooling2d(3, 2), "pool1_pool");
    for (int stage = 0; stage < 4; stage++)
        for (int block = 0; block < blocks[stage]; block++) {
            char prefix[24];
            (void)snprintf(prefix, sizeof(prefix), "conv%d_block%d", stage + 2, block + 1);
            residual(list, prefix, 64 << stage, stage && !block ? 2 : 1, !block);
        }
    (void)ls_layer_list_add(list, ls_global_average_pooling2d(), "avg_pool");
    (void)ls_layer_list_add(list, ls_dense(options->classes), "predictions");
}

/* ---- all of them ---- */

#define LAYERS_OF_IMAGES 256

struct application {
    const char *name;
    void (*build)(struct ls_layer_list *list, const ls_application_options *options);
    bool scales;              /* alpha is the multiplier of its widths */
    bool groups;              /* kv_heads may be fewer than heads */
    int layers, heads, width; /* the defaults of a transformer; 0: it is none */
};
static const struct application applications[] = {
    {.name = "lenet", .build = lenet},
    {.name = "mobilenet_v2", .build = mobilenet_v2, .scales = true},
    {.name = "resnet50", .build = resnet50},
    {.name = "gpt", .build = ls_transformers_gpt, .layers = 4, .heads = 4, .width = 128},
    {.name = "gpt2", .build = ls_transformers_gpt2, .layers = 12, .heads = 12, .width = 768},
    {.name = "llama", .build = ls_transformers_llama, .groups = true, .layers = 4, .heads = 4, .width = 128},
};

static ls_status read_alpha(const struct application *application, ls_application_options *options) {
    if (options->alpha != 0 && !application->scales)
        return ls_fail(LS_INVALID_ARGUMENT, "application: alpha %g is for mobilenet_v2", (double)options->alpha);
    if (options->alpha == 0) options->alpha = 1;
    if (options->alpha > 0 && options->alpha <= 16) return LS_OK;
    return ls_fail(LS_INVALID_ARGUMENT, "application: alpha %g must be above 0 and at most 16", (double)options->alpha);
}

static ls_status check_heads(const struct application *application, const ls_application_options *options) {
    if (options->heads < 1 || options->width < 1 || options->width % options->heads)
        return ls_fail(LS_INVALID_ARGUMENT, "application '%s': %d heads do not divide a width of %d", application->name,
                       options->heads, options->width);
    if (options->kv_heads && !application->groups)
        return ls_fail(LS_INVALID_ARGUMENT, "application '%s': kv_heads %d is for llama", application->name,
                       options->kv_heads);
    if (options->kv_heads < 0 || (options->kv_heads && options->heads % options->kv_heads))
        return ls_fail(LS_INVALID_ARGUMENT, "application '%s': %d kv_heads do not divide %d heads", application->name,
                       options->kv_heads, options->heads);
    return LS_OK;
}

/* The sizes of a transformer; the others have none. */
static ls_status read_sizes(const struct application *application, ls_application_options *options) {
    bool any = options->layers || options->heads || options->kv_heads || options->width || options->dropout != 0;
    if (!application->layers && any)
        return ls_fail(LS_INVALID_ARGUMENT,
                       "application '%s': layers, heads, kv_heads, width and dropout are for gpt, gpt2 and llama",
                       application->name);
    if (!application->layers) return LS_OK;
    if (!options->layers) options->layers = application->layers;
    if (!options->heads) options->heads = application->heads;
    if (!options->width) options->width = application->width;
    if (options->layers < 1 || options->layers > LS_TRANSFORMER_BLOCKS)
        return ls_fail(LS_INVALID_ARGUMENT, "application '%s': layers %d must be 1 to %d", application->name,
                       options->layers, LS_TRANSFORMER_BLOCKS);
    if (!(options->dropout >= 0 && options->dropout < 1))
        return ls_fail(LS_INVALID_ARGUMENT, "application '%s': dropout %g must be at least 0 and below 1",
                       application->name, (double)options->dropout);
    return check_heads(application, options);
}

static ls_status read_options(const struct application *application, const ls_application_options *given,
                              ls_application_options *options) {
    ls_status status = ls_options_copy("ls_application_options", options, sizeof(*options), given);
    if (status) return status;
    if (options->classes < 1)
        return ls_fail(LS_INVALID_ARGUMENT, "application: classes %d must be 1 or more", options->classes);
    status = read_alpha(application, options);
    return status ? status : read_sizes(application, options);
}

ls_status ls_application(const char *name, const ls_application_options *options, ls_layer **layers, size_t *count) {
    LS_NEED(name, layers, count);
    size_t found = 0, known = sizeof(applications) / sizeof(applications[0]);
    ls_application_options filled;
    while (found < known && strcmp(applications[found].name, name)) found++;
    if (found == known)
        return ls_fail(LS_INVALID_ARGUMENT,
                       "application '%.80s' is none of lenet, mobilenet_v2, resnet50, gpt, gpt2, llama", name);
    struct ls_layer_list list;
    ls_status status = read_options(&applications[found], options, &filled);
    if (!status) status = ls_layer_list_new(LAYERS_OF_IMAGES + (size_t)filled.layers * LS_TRANSFORMER_BLOCK, &list);
    if (status) return status;
    applications[found].build(&list, &filled);
    *layers = list.layers;
    *count = list.count;
    return LS_OK;
}
