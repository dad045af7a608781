/* The bytes that a training step of an application moves in a device's memory, by the ops of its plan
 * (model/plan.h). It says nothing of caches, or of kernels that do better. One JSON line, with a part for each
 * kind of op.
 *
 * usage: step_bytes MODEL SIDE BATCH float32|mixed_bfloat16 [again], such as step_bytes resnet50 224 256 mixed_bfloat16
 *   again: what backward can make again is not kept */
#include <lockstep/lockstep.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/memory.h"
#include "base/shape.h"
#include "model/network.h"
#include "model/plan.h"
#include "model/plan_builder.h"

/* A plan is made of addresses: nothing of it runs here. */
static float nowhere[LS_BYTE_VALUES];
static struct ls_device device = {.host_memory = false};

static void print(const char *model, const struct ls_plan *plan) {
    double all = 0, kinds[LS_OP_KIND_COUNT] = {0};
    for (size_t i = 0; i < plan->count; i++) {
        double bytes = ls_plan_cost_moved(&plan->steps[i].op);
        kinds[plan->steps[i].op.kind] += bytes;
        all += bytes;
    }
    (void)printf("{\"model\": \"%s\", \"ops\": %zu, \"bytes\": %.0f", model, plan->count, all);
    for (int kind = 0; kind < LS_OP_KIND_COUNT; kind++)
        if (kinds[kind] > 0) (void)printf(", \"%s\": %.0f", ls_op_name((enum ls_op_kind)kind), kinds[kind]);
    (void)puts("}");
}

static ls_status measure(const char *model, int side, int batch, bool half, bool keeps) {
    ls_layer *layers = NULL;
    size_t count;
    struct ls_network *network = NULL;
    struct ls_plan plan = {0};
    static struct ls_loss_sums sums;
    static struct ls_optimizer_step step;
    struct ls_plan_config config = {.device = &device,
                                    .rows = batch,
                                    .training = true,
                                    .parameters = nowhere,
                                    .gradients = nowhere,
                                    .features = nowhere,
                                    .byte_values = nowhere,
                                    .byte_channels = 3,
                                    .labels = (const int32_t *)(const void *)nowhere,
                                    .loss_scale = nowhere,
                                    .sums = &sums,
                                    .step = &step};
    const ls_shape input = LS_SHAPE(side, side, 3);
    ls_status status = ls_application(model, LS_APPLICATION(.classes = 1000), &layers, &count);
    if (!status) status = ls_network_new(layers, count, &input, &network);
    if (!status)
        status = ls_objective_new(LS_SPARSE_CATEGORICAL_CROSSENTROPY,
                                  LS_COMPILE(.precision = half ? LS_MIXED_BFLOAT16 : LS_PRECISION_FLOAT32),
                                  &config.objective);
    config.network = network;
    if (!status) status = ls_plan_builder_run(&config, keeps, &plan);
    if (!status) print(model, &plan);
    ls_free(plan.steps);
    ls_free(plan.buffers);
    ls_network_free(network);
    ls_memory_free(layers);
    return status;
}

int main(int argc, char **argv) {
    if (argc < 5) {
        (void)fprintf(stderr, "usage: step_bytes MODEL SIDE BATCH float32|mixed_bfloat16 [again]\n");
        return 2;
    }
    ls_status status = measure(argv[1], atoi(argv[2]), atoi(argv[3]), strcmp(argv[4], "float32") != 0, argc < 6);
    if (status) (void)fprintf(stderr, "step_bytes: %s\n", ls_error());
    return status ? 1 : 0;
}
