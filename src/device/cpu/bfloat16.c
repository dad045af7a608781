/* Products by oneDNN's matmul of bfloat16, whose sums are float32. A run rounds both factors into the workspace first.
 * Processors with AVX-512 alone emulate the type, and are slower so than in float32; those without have no such
 * product. */
#include "device/cpu/bfloat16.h"

#include "base/half.h"
#include "base/new.h"
#include "base/status.h"

#define GRAIN 65536 /* elements that are worth a thread */

enum { A = 0, B, C, SCRATCHPAD, MEMORIES };

struct ls_bfloat16_product {
    dnnl_stream_t stream; /* borrowed */
    dnnl_primitive_t primitive;
    dnnl_memory_t memories[MEMORIES];
    size_t places[MEMORIES]; /* in the workspace; C has none */
    size_t workspace;
};

static dnnl_status_t describe_factor(dnnl_memory_desc_t *made, int64_t rows, int64_t columns, bool transposed) {
    const dnnl_dims_t dims = {rows, columns};
    return dnnl_memory_desc_init_by_tag(made, 2, dims, dnnl_bf16, transposed ? dnnl_ba : dnnl_ab);
}

static dnnl_status_t describe_matrices(const struct ls_gemm *gemm, dnnl_memory_desc_t made[MEMORIES]) {
    const dnnl_dims_t dims = {gemm->rows, gemm->columns};
    dnnl_status_t code = describe_factor(&made[A], gemm->rows, gemm->depth, gemm->transpose_a);
    if (!code) code = describe_factor(&made[B], gemm->depth, gemm->columns, gemm->transpose_b);
    return code ? code : dnnl_memory_desc_init_by_tag(&made[C], 2, dims, dnnl_f32, dnnl_ab);
}

/* The product is added to what c has. */
static dnnl_status_t let_add(dnnl_primitive_attr_t attributes) {
    dnnl_post_ops_t behind;
    dnnl_status_t code = dnnl_post_ops_create(&behind);
    if (code) return code;
    code = dnnl_post_ops_append_sum(behind, 1);
    if (!code) code = dnnl_primitive_attr_set_post_ops(attributes, behind);
    (void)dnnl_post_ops_destroy(behind);
    return code;
}

static dnnl_status_t describe_matmul(const dnnl_memory_desc_t matrices[MEMORIES], bool adds, dnnl_engine_t engine,
                                     dnnl_primitive_desc_t *made) {
    dnnl_matmul_desc_t description;
    dnnl_primitive_attr_t attributes;
    dnnl_status_t code = dnnl_matmul_desc_init(&description, &matrices[A], &matrices[B], NULL, &matrices[C]);
    if (!code) code = dnnl_primitive_attr_create(&attributes);
    if (code) return code;
    code = dnnl_primitive_attr_set_scratchpad_mode(attributes, dnnl_scratchpad_mode_user);
    if (!code && adds) code = let_add(attributes);
    if (!code) code = dnnl_primitive_desc_create(made, &description, attributes, engine, NULL);
    (void)dnnl_primitive_attr_destroy(attributes);
    return code;
}

static void place_matrices(struct ls_bfloat16_product *made, const dnnl_memory_desc_t matrices[MEMORIES]) {
    for (int i = 0; i < MEMORIES; i++) {
        if (i == C) continue;
        made->places[i] = made->workspace;
        made->workspace += ls_library_aligned(dnnl_memory_desc_get_size(&matrices[i]));
    }
}

static dnnl_status_t make_product(struct ls_bfloat16_product *made, const struct ls_gemm *gemm, dnnl_engine_t engine) {
    dnnl_memory_desc_t matrices[MEMORIES] = {0};
    dnnl_primitive_desc_t chosen;
    dnnl_status_t code = describe_matrices(gemm, matrices);
    if (!code) code = describe_matmul(matrices, gemm->adds, engine, &chosen);
    if (code) return code;
    matrices[SCRATCHPAD] = *dnnl_primitive_desc_query_md(chosen, dnnl_query_scratchpad_md, 0);
    place_matrices(made, matrices);
    code = dnnl_primitive_create(&made->primitive, chosen);
    for (int i = 0; !code && i < MEMORIES; i++)
        code = dnnl_memory_create(&made->memories[i], &matrices[i], engine, DNNL_MEMORY_NONE);
    (void)dnnl_primitive_desc_destroy(chosen);
    return code;
}

ls_status ls_bfloat16_product_new(const struct ls_library *library, const struct ls_gemm *gemm,
                                  struct ls_bfloat16_product **product) {
    LS_NEW(struct ls_bfloat16_product, made, "a product");
    made->stream = library->stream;
    dnnl_status_t code = make_product(made, gemm, library->engine);
    ls_status status =
        code == dnnl_unimplemented
            ? ls_fail(LS_UNIMPLEMENTED, "oneDNN has no product of bfloat16 for this processor, which needs AVX-512")
            : ls_library_status(code, "product of bfloat16");
    return LS_HAND_OVER(status, product, made, ls_bfloat16_product_free(made));
}

void ls_bfloat16_product_free(struct ls_bfloat16_product *product) {
    if (!product) return;
    for (int i = 0; i < MEMORIES; i++)
        if (product->memories[i]) (void)dnnl_memory_destroy(product->memories[i]);
    if (product->primitive) (void)dnnl_primitive_destroy(product->primitive);
    ls_free(product);
}

size_t ls_bfloat16_product_workspace(const struct ls_bfloat16_product *product) {
    return product->workspace;
}

struct rounding {
    uint16_t *to;
    const float *from;
};

static void round_part(void *context, int64_t begin, int64_t end) {
    const struct rounding *rounding = context;
    ls_half_bfloat16_from_floats(rounding->to + begin, rounding->from + begin, (size_t)(end - begin));
}

static dnnl_status_t load_factor(struct ls_bfloat16_product *product, int factor, const float *from, int64_t count,
                                 char *workspace) {
    struct rounding rounding = {(uint16_t *)(void *)(workspace + product->places[factor]), from};
    ls_team_run(count, GRAIN, round_part, &rounding);
    return dnnl_memory_set_data_handle(product->memories[factor], rounding.to);
}

ls_status ls_bfloat16_product_run(struct ls_bfloat16_product *product, const struct ls_gemm *gemm, void *workspace) {
    const dnnl_exec_arg_t arguments[MEMORIES] = {{DNNL_ARG_SRC, product->memories[A]},
                                                 {DNNL_ARG_WEIGHTS, product->memories[B]},
                                                 {DNNL_ARG_DST, product->memories[C]},
                                                 {DNNL_ARG_SCRATCHPAD, product->memories[SCRATCHPAD]}};
    dnnl_status_t code = load_factor(product, A, gemm->a, gemm->rows * gemm->depth, workspace);
    if (!code) code = load_factor(product, B, gemm->b, gemm->depth * gemm->columns, workspace);
    if (!code) code = dnnl_memory_set_data_handle(product->memories[C], gemm->c);
    if (!code)
        code =
            dnnl_memory_set_data_handle(product->memories[SCRATCHPAD], (char *)workspace + product->places[SCRATCHPAD]);
    if (!code) code = dnnl_primitive_execute(product->primitive, product->stream, MEMORIES, arguments);
    if (!code) code = dnnl_stream_wait(product->stream);
    return ls_library_status(code, "product of bfloat16");
}
