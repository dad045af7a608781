/* Convolutions by oneDNN: images stay in plain (rows, height, width, channels), kernels are reordered from (height,
 * width, channels, filters) to the primitive's layout before the first part of a batch, and their gradients back after
 * the last. Depthwise ones have as many groups as channels. Mirrors tf.nn.conv2d and tf.nn.depthwise_conv2d. */
#include <string.h>

#include "base/clones.h"
#include "base/new.h"
#include "device/cpu/cpu.h"

/* The memories of a primitive. The window slides over IMAGE and yields OUT. PLAIN is the kernel, or its gradient, in
 * the op's layout. */
enum { IMAGE = 0, WEIGHTS, BIAS, OUT, SCRATCHPAD, PLAIN, MEMORIES };

struct convolution {
    dnnl_stream_t stream; /* borrowed */
    dnnl_primitive_t primitive, reorder;
    void *places[MEMORIES];           /* the addresses of memories: setting them in oneDNN takes time */
    dnnl_memory_t memories[MEMORIES]; /* NULL if not used */
    size_t weights_size;              /* bytes, in the primitive's layout */
    bool packs;                       /* the op's layout of the kernel does not serve */
    float *packed;           /* owns: the kernel so, from the first part of the batch to the last; NULL without parts */
    size_t bias, scratchpad; /* places in the workspace; at 0 lies the kernel, or a later part's gradient of it */
};

/* Descriptors while an op is built. */
struct description {
    dnnl_memory_desc_t image, weights, bias, out, plain;
    bool has_bias;
    dnnl_dims_t strides, dilates, before, after;
};

static int bias_place(const struct ls_op *op) {
    return op->kind == LS_OP_CONVOLUTION_BACKWARD_WEIGHTS ? LS_ARG_DB : LS_ARG_B;
}

static dnnl_status_t describe_image(dnnl_memory_desc_t *made, const ls_shape *shape) {
    const dnnl_dims_t dims = {shape->dims[0], shape->dims[3], shape->dims[1], shape->dims[2]};
    return dnnl_memory_desc_init_by_tag(made, 4, dims, dnnl_f32, dnnl_nhwc);
}

static dnnl_status_t describe_kernel(dnnl_memory_desc_t *made, const ls_shape *shape, int64_t groups, bool plain) {
    dnnl_format_tag_t any = dnnl_format_tag_any;
    const int64_t *d = shape->dims;
    const dnnl_dims_t dims = {d[3], d[2], d[0], d[1]}, grouped = {groups, d[3] / groups, d[2], d[0], d[1]};
    if (groups == 1) return dnnl_memory_desc_init_by_tag(made, 4, dims, dnnl_f32, plain ? dnnl_hwio : any);
    return dnnl_memory_desc_init_by_tag(made, 5, grouped, dnnl_f32, plain ? dnnl_decab : any);
}

static ls_status describe_convolution(const struct ls_op *op, struct description *made) {
    const struct ls_window *window = &op->window;
    const ls_shape *kernel = &op->tensors[ls_op_kernel(op)].shape;
    const dnnl_dims_t filters = {kernel->dims[3]};
    for (int i = 0; i < 2; i++) {
        made->strides[i] = window->strides[i];
        made->dilates[i] = window->dilation[i] - 1;
        made->before[i] = window->before[i];
        made->after[i] = window->after[i];
    }
    made->has_bias = op->kind != LS_OP_CONVOLUTION_BACKWARD_DATA && op->tensors[bias_place(op)].data;
    dnnl_status_t code = describe_image(&made->image, &op->tensors[ls_op_image(op)].shape);
    if (!code) code = describe_image(&made->out, &op->tensors[ls_op_out(op)].shape);
    if (!code) code = describe_kernel(&made->weights, kernel, window->groups, false);
    if (!code) code = describe_kernel(&made->plain, kernel, window->groups, true);
    if (!code) code = dnnl_memory_desc_init_by_tag(&made->bias, 1, filters, dnnl_f32, dnnl_x);
    return ls_library_status(code, "description of a convolution");
}

/* The primitive's descriptor for the op's kind; forward is the hint that backward wants. */
static dnnl_status_t describe_primitive(const struct ls_op *op, const struct description *d,
                                        const_dnnl_primitive_attr_t attributes, dnnl_engine_t engine,
                                        const_dnnl_primitive_desc_t forward, dnnl_primitive_desc_t *made) {
    dnnl_convolution_desc_t c;
    const dnnl_memory_desc_t *bias = d->has_bias ? &d->bias : NULL;
    dnnl_alg_kind_t direct = dnnl_convolution_direct;
    dnnl_status_t code;
    if (!forward)
        code = dnnl_dilated_convolution_forward_desc_init(&c, dnnl_forward_training, direct, &d->image, &d->weights,
                                                          bias, &d->out, d->strides, d->dilates, d->before, d->after);
    else if (op->kind == LS_OP_CONVOLUTION_BACKWARD_DATA)
        code = dnnl_dilated_convolution_backward_data_desc_init(&c, direct, &d->image, &d->weights, &d->out, d->strides,
                                                                d->dilates, d->before, d->after);
    else
        code = dnnl_dilated_convolution_backward_weights_desc_init(&c, direct, &d->image, &d->weights, bias, &d->out,
                                                                   d->strides, d->dilates, d->before, d->after);
    return code ? code : dnnl_primitive_desc_create(made, &c, attributes, engine, forward);
}

static ls_status make_memory(struct convolution *made, dnnl_engine_t engine, int place, const dnnl_memory_desc_t *md) {
    return ls_library_status(dnnl_memory_create(&made->memories[place], md, engine, DNNL_MEMORY_NONE),
                             "memory of a convolution");
}

/* Makes the reorder to the primitive's layout before the run, or back after it. */
static ls_status make_reorder(struct convolution *made, dnnl_engine_t engine, const dnnl_memory_desc_t *from,
                              const dnnl_memory_desc_t *to) {
    dnnl_primitive_desc_t description;
    dnnl_status_t code = dnnl_reorder_primitive_desc_create(&description, from, engine, to, engine, NULL);
    if (code) return ls_library_status(code, "description of a reorder");
    code = dnnl_primitive_create(&made->reorder, description);
    (void)dnnl_primitive_desc_destroy(description);
    return ls_library_status(code, "reorder");
}

static ls_status make_memories(struct ls_op *op, struct convolution *made, dnnl_engine_t engine,
                               const struct description *d, const_dnnl_primitive_desc_t chosen) {
    bool to_weights = op->kind == LS_OP_CONVOLUTION_BACKWARD_WEIGHTS;
    const dnnl_memory_desc_t *weights =
        dnnl_primitive_desc_query_md(chosen, to_weights ? dnnl_query_diff_weights_md : dnnl_query_weights_md, 0);
    const dnnl_memory_desc_t *scratchpad = dnnl_primitive_desc_query_md(chosen, dnnl_query_scratchpad_md, 0);
    bool same = dnnl_memory_desc_equal(weights, &d->plain), parts = op->parts > 1;
    ls_status status = make_memory(made, engine, IMAGE, &d->image);
    if (!status) status = make_memory(made, engine, OUT, &d->out);
    if (!status) status = make_memory(made, engine, WEIGHTS, weights);
    if (!status) status = make_memory(made, engine, SCRATCHPAD, scratchpad);
    if (!status && d->has_bias) status = make_memory(made, engine, BIAS, &d->bias);
    if (!status && !same) status = make_memory(made, engine, PLAIN, &d->plain);
    if (!status && !same)
        status = make_reorder(made, engine, to_weights ? weights : &d->plain, to_weights ? &d->plain : weights);
    made->weights_size = dnnl_memory_desc_get_size(weights);
    if (!status && !same && parts && !(made->packed = ls_alloc_aligned(made->weights_size)))
        status = ls_fail_memory("the kernel of a convolution", made->weights_size);
    made->packs = !same;
    made->bias = (parts ? to_weights : !same) ? ls_library_aligned(made->weights_size) : 0;
    made->scratchpad = made->bias + (parts && to_weights ? ls_library_aligned(dnnl_memory_desc_get_size(&d->bias)) : 0);
    op->workspace_size = made->scratchpad + ls_library_aligned(dnnl_memory_desc_get_size(scratchpad));
    return status;
}

static ls_status make_primitive(struct ls_op *op, struct convolution *made, dnnl_engine_t engine,
                                const struct description *d, const_dnnl_primitive_attr_t attributes) {
    dnnl_primitive_desc_t forward = NULL, chosen = NULL;
    dnnl_status_t code = describe_primitive(op, d, attributes, engine, NULL, &forward);
    if (!code && op->kind != LS_OP_CONVOLUTION_FORWARD)
        code = describe_primitive(op, d, attributes, engine, forward, &chosen);
    ls_status status = ls_library_status(code, ls_op_name(op->kind));
    const_dnnl_primitive_desc_t used = chosen ? chosen : forward;
    if (!status) status = ls_library_status(dnnl_primitive_create(&made->primitive, used), ls_op_name(op->kind));
    if (!status) status = make_memories(op, made, engine, d, used);
    if (chosen) (void)dnnl_primitive_desc_destroy(chosen);
    if (forward) (void)dnnl_primitive_desc_destroy(forward);
    return status;
}

ls_status ls_cpu_convolution_build(struct ls_device *device, struct ls_op *op) {
    const struct ls_library *library = ls_cpu_library(device);
    struct description description = {0};
    dnnl_primitive_attr_t attributes;
    ls_status status = describe_convolution(op, &description);
    if (status) return status;
    LS_NEW(struct convolution, made, "a convolution");
    made->stream = library->stream;
    op->handle = made;
    dnnl_status_t code = dnnl_primitive_attr_create(&attributes);
    if (!code) {
        code = dnnl_primitive_attr_set_scratchpad_mode(attributes, dnnl_scratchpad_mode_user);
        if (!code) status = make_primitive(op, made, library->engine, &description, attributes);
        (void)dnnl_primitive_attr_destroy(attributes);
    }
    if (code) status = ls_library_status(code, "attributes");
    if (status) ls_cpu_convolution_discard(op);
    return status;
}

void ls_cpu_convolution_discard(struct ls_op *op) {
    struct convolution *c = op->handle;
    if (!c) return;
    for (int i = 0; i < MEMORIES; i++)
        if (c->memories[i]) (void)dnnl_memory_destroy(c->memories[i]);
    if (c->primitive) (void)dnnl_primitive_destroy(c->primitive);
    if (c->reorder) (void)dnnl_primitive_destroy(c->reorder);
    ls_free(c->packed);
    ls_free(c);
    op->handle = NULL;
}

static bool adds(const struct ls_op *op) {
    return op->kind == LS_OP_CONVOLUTION_BACKWARD_WEIGHTS && op->part > 0;
}

/* With a layout of the primitive's own. Between parts other ops have the workspace. */
static void *packed_kernel(const struct ls_op *op, const struct convolution *c) {
    return c->packed ? (void *)c->packed : op->workspace;
}

static dnnl_status_t point_memory(struct convolution *c, int memory, void *place) {
    if (!c->memories[memory] || c->places[memory] == place) return dnnl_success;
    c->places[memory] = place;
    return dnnl_memory_set_data_handle(c->memories[memory], place);
}

/* Points the memories at this run's tensors and workspace, which may have moved. Gradients of later parts lie apart. */
static dnnl_status_t bind(const struct ls_op *op, struct convolution *c) {
    char *workspace = op->workspace;
    void *plain = op->tensors[ls_op_kernel(op)].data, *bias = op->tensors[bias_place(op)].data;
    void *places[MEMORIES] = {[IMAGE] = op->tensors[ls_op_image(op)].data,
                              [WEIGHTS] = adds(op)   ? workspace
                                          : c->packs ? packed_kernel(op, c)
                                                     : plain,
                              [BIAS] = adds(op) ? workspace + c->bias : bias,
                              [OUT] = op->tensors[ls_op_out(op)].data,
                              [PLAIN] = plain,
                              [SCRATCHPAD] = workspace + c->scratchpad};
    dnnl_status_t code = dnnl_success;
    for (int i = 0; !code && i < MEMORIES; i++) code = point_memory(c, i, places[i]);
    return code;
}

LS_CLONES static void convolution_add(float *restrict sum, const float *restrict part, size_t count) {
    for (size_t i = 0; i < count; i++) sum[i] += part[i];
}

/* A later part's gradients to those of the parts before. */
static void add_convolution_part(const struct ls_op *op, const struct convolution *c) {
    const struct ls_tensor *bias = &op->tensors[LS_ARG_DB];
    const char *workspace = op->workspace;
    convolution_add(c->packed ? c->packed : op->tensors[LS_ARG_DW].data, op->workspace,
                    c->weights_size / sizeof(float));
    if (bias->data)
        convolution_add(bias->data, (const float *)(const void *)(workspace + c->bias), (size_t)bias->shape.dims[0]);
}

static dnnl_status_t reorder(const struct convolution *c, int from, int to) {
    const dnnl_exec_arg_t arguments[] = {{DNNL_ARG_FROM, c->memories[from]}, {DNNL_ARG_TO, c->memories[to]}};
    return c->reorder ? dnnl_primitive_execute(c->reorder, c->stream, 2, arguments) : dnnl_success;
}

static dnnl_status_t execute(const struct ls_op *op, const struct convolution *c) {
    bool data = op->kind == LS_OP_CONVOLUTION_BACKWARD_DATA, weights = op->kind == LS_OP_CONVOLUTION_BACKWARD_WEIGHTS;
    dnnl_exec_arg_t arguments[] = {
        {data ? DNNL_ARG_DIFF_SRC : DNNL_ARG_SRC, c->memories[IMAGE]},
        {weights ? DNNL_ARG_DIFF_WEIGHTS : DNNL_ARG_WEIGHTS, c->memories[WEIGHTS]},
        {data || weights ? DNNL_ARG_DIFF_DST : DNNL_ARG_DST, c->memories[OUT]},
        {DNNL_ARG_SCRATCHPAD, c->memories[SCRATCHPAD]},
        {weights ? DNNL_ARG_DIFF_BIAS : DNNL_ARG_BIAS, c->memories[BIAS]},
    };
    return dnnl_primitive_execute(c->primitive, c->stream, c->memories[BIAS] ? 5 : 4, arguments);
}

/* The sum goes back to the op's layout from where it was collected. */
static dnnl_status_t finish_weights(const struct ls_op *op, struct convolution *c) {
    if (adds(op)) add_convolution_part(op, c);
    if (!ls_op_last_part(op) || !c->packs) return dnnl_success;
    dnnl_status_t code = point_memory(c, WEIGHTS, packed_kernel(op, c));
    return code ? code : reorder(c, WEIGHTS, PLAIN);
}

ls_status ls_cpu_convolution_run(const struct ls_op *op) {
    struct convolution *c = op->handle;
    bool to_weights = op->kind == LS_OP_CONVOLUTION_BACKWARD_WEIGHTS;
    dnnl_status_t code = bind(op, c);
    if (!code && !to_weights && !op->part) code = reorder(c, PLAIN, WEIGHTS);
    if (!code) code = execute(op, c);
    if (!code && to_weights) code = finish_weights(op, c);
    return ls_library_status(code, ls_op_name(op->kind));
}
