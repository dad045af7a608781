/* The order of a stage's work in a step of a pipeline: arithmetic alone. */
#pragma once
#include <stdbool.h>

/* 1F1B holds min(batches, stages - stage) batches between forward and backward, GPipe all. The last stage goes back
 * with each batch at once. */
enum ls_pipeline_kind { LS_PIPELINE_1F1B, LS_PIPELINE_GPIPE };
struct ls_pipeline_order {
    int stages, stage, batches;
    enum ls_pipeline_kind kind;
};
struct ls_pipeline_action {
    bool backward;
    int batch;
};
/* Batches between forward and backward at a time, at the most. */
int ls_pipeline_order_depth(const struct ls_pipeline_order *order);
/* The index-th of 2 batches actions. Forward and backward both go in the order of the batches. */
struct ls_pipeline_action ls_pipeline_order_at(const struct ls_pipeline_order *order, int index);
