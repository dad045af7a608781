/* A distributed iterator for custom loops. */
#pragma once
#include "strategy/strategy.h"

/* The number of portions of a batch, in which positions are counted. It is 1, or with scaled batches the number of
 * replicas at the start. */
int ls_iterator_portions(const ls_strategy *strategy);
ls_status ls_iterator_open_pipeline(const ls_strategy *strategy, const ls_dataset *dataset,
                                    const ls_class_weight *class_weight, struct ls_pipeline **pipeline);
/* The same with every batch whole for this worker's replicas. */
ls_status ls_iterator_open_alone(const ls_strategy *strategy, const ls_dataset *dataset,
                                 const ls_class_weight *class_weight, struct ls_pipeline **pipeline);
/* The same for a stage of a pipeline: the batches of its replica. */
ls_status ls_iterator_open_staged(const ls_strategy *strategy, const ls_dataset *dataset,
                                  const ls_class_weight *class_weight, struct ls_pipeline **pipeline);
