/* One step on all replicas. */
#pragma once
#include "model/plan.h"
#include "train/model.h"

/* The pipeline's present step on all replicas. Training is a transaction: it commits, or changes nothing. sums
 * receives loss (not divided), correct and rows over all replicas. Of delayed steps (sync/servers.c) sums are those of
 * an earlier one, or zero, and a transaction has several. */
ls_status ls_step_train(ls_model *model, int batches, struct ls_loss_sums *sums);
/* Before it, where a step takes several batches: one of them but the last. batch counts from 0. It commits nothing, so
 * that after a failure the step begins again with its first batch. */
ls_status ls_step_gather(ls_model *model, int batch);
/* A step of so many batches begins: its rate. */
void ls_step_begin(ls_model *model, int batches);
/* Behind it nothing can fail, unless steps are delayed: these are a transaction of several. */
ls_status ls_step_commit(ls_model *model, int64_t begun, struct ls_loss_sums *sums);
/* Adds to each replica's total, and leaves its outputs. */
ls_status ls_step_evaluate(ls_model *model);
/* By the caller's thread: the first replica's penalty is that of the variables as they are. */
ls_status ls_step_measure_penalty(ls_model *model);

/* The sums of a step's gradients over all replicas. A replica's thread calls begin, ready and end in this order. */

/* True if they are added bucket by bucket: someone follows the plan. */
bool ls_step_sums_follow(const ls_model *model);
void ls_step_sums_begin(const ls_model *model, int local);
/* The replica's gradients are final from offset on. A failure is told at the end. */
ls_status ls_step_sums_ready(const ls_model *model, int local, size_t offset);
/* status: of the replica's step so far. Returns it, or another one's failure. */
ls_status ls_step_sums_end(ls_replica *replica, ls_model *model, ls_status status);

/* The extras of a step, numbers behind the gradients: what they say as sums over all replicas. */

/* All but the sums of a replica's report: its requests, and its rate. */
void ls_step_report_fill(const ls_model *model, int local);
/* The learning rate, which all workers compare before anything is changed. bytes: those from LS_EXTRA_RATE on. */
void ls_step_report_write_rate(float rate, float bytes[4]);
/* INVALID_ARGUMENT where another worker's rate is another one. */
ls_status ls_step_report_check_rate(const ls_model *model, float rate, const float *extras);
/* Some worker has asked in the step for a checkpoint, or for the end. */
bool ls_step_report_asks(const float *extras);
/* A checkpoint of the step is due, or some worker has asked for one that is written. All workers find the same. */
bool ls_step_report_saves(const float *extras);
/* The sums that are counts. */
struct ls_loss_sums ls_step_report_counts(const float *extras);
/* The sums of loss and metrics; the requests become the model's. penalty: of one example. */
void ls_step_report_read(ls_model *model, const float *extras, double penalty, struct ls_loss_sums *sums);

/* Gradient accumulation (Keras' gradient_accumulation_steps). */

/* Allocates the replica's accumulator and builds its ops if the optimizer takes several batches a step. The replica has
 * its gradients already. */
ls_status ls_accumulate_build(const ls_model *model, struct ls_model_replica *replica);
void ls_accumulate_release(struct ls_model_replica *replica);
/* In the replica's thread, after batches before this one: what was gathered is added in all buckets (one, where the
 * model is not reduced) that begin at offset or behind it, and before end. */
ls_status ls_accumulate_merge(const struct ls_model_replica *replica, size_t offset, size_t end);
/* This batch is gathered; merged where it is not the first. */
ls_status ls_accumulate_keep(const ls_model *model, struct ls_model_replica *replica, bool first);

/* Sums over all replicas in the middle of a step. */

/* For the present generation, before all that exchanges. */
void ls_step_exchange_attach(ls_model *model);
/* values become the sums; NULL where the replica has an error, or at the end of the exchanges. All replicas of the
 * worker come alike, and get the same status. */
ls_status ls_step_exchange(struct ls_model_exchange *own, double *values, size_t count);

/* Labels that do not count (LS_LABEL_UNCOUNTED). */

/* The batch's rows of all replicas that add their gradients, those of other workers where a step meets them; not 0. */
int64_t ls_step_rows(const ls_model *model);
/* The replica's batch is loaded, or status says why not: then its gradient's scale becomes 1 over the positions of all
 * replicas that count. All replicas come to it. Returns status, or another one's failure. */
ls_status ls_label_count_scale(ls_model *model, int local, ls_status status);
/* Of a way that counts later: what the step's sums are to be multiplied by goes into its numbers. extras: of the sums.
 */
void ls_label_count_unscale(const ls_model *model, const float *extras, struct ls_optimizer_step *step);
/* UNIMPLEMENTED for data with such labels: "<subject>: ... <why>". */
ls_status ls_label_count_refuse(const ls_model *model, const ls_dataset *data, const char *subject, const char *why);

/* The first layer whose statistics are exchanged: a frozen one has none. layer_count: no layer. */
size_t ls_sync_batch_norm_first(const ls_model *model);
/* UNIMPLEMENTED for a layer of the kind: "<subject>: layer 1 is a synchronized batch normalization, <why>". */
ls_status ls_sync_batch_norm_refuse(const ls_model *model, const char *subject, const char *why);
/* For the present generation. */
void ls_sync_batch_norm_attach(ls_model *model);

/* Mixed precision in training. */

/* UNIMPLEMENTED where a local device has no ops of that precision. */
ls_status ls_precision_try(const ls_strategy *strategy, ls_precision precision);
/* Builds the replica's ops for a scaled loss. The replica has its gradients already. */
ls_status ls_precision_scaling_build(const ls_model *model, struct ls_model_replica *replica);
void ls_precision_scaling_begin(ls_model *model); /* a batch of the next step, whose loss_scale is set */
/* The answer of the last step's look; true if the loss is not scaled. */
bool ls_precision_scaling_is_finite(const struct ls_model_replica *replica);

/* Turns of the replicas that one device has. */

/* count: of devices. On failure what is made is the caller's to free, too. */
ls_status ls_turns_new(int count, struct ls_monitor **turns);
void ls_turns_free(struct ls_monitor *turns, int count);
/* The local replica whose arena this one computes in. */
int ls_turn_arena(const ls_model *model, int local);
/* Between the two the replica's thread makes and runs plans; then no other replica of its device does. The end waits
 * for the device's queue, and returns status, or an error of that. Nothing happens where a device has one replica. */
void ls_turn_begin(const ls_model *model, int local);
ls_status ls_turn_end(const ls_model *model, int local, ls_status status);

/* A replica's plans: kept, since only a few row counts occur. */

/* The config of a plan for so many rows of the present batch's kind. */
struct ls_plan_config ls_plan_slots_config(ls_model *model, int local, int64_t rows, bool training);
/* The plan for so many rows of the present batch's kind, which without a pipeline has labels; made where there is none.
 * Of the replica's own thread. */
ls_status ls_plan_slots_find(ls_model *model, int local, int64_t rows, bool training, struct ls_plan **plan);
/* The costs of a training step's plan for so many rows, as of ls_plan_cost. Of the replica's own thread. */
ls_status ls_plan_slots_cost(ls_model *model, int local, int64_t rows, ls_recompute recompute,
                             struct ls_plan_cost *cost);
/* The caller's own plan of the first replica, for positions of one example whose ids (positions) lie on its device.
 * Without a pipeline. */
ls_status ls_plan_slots_decode(ls_model *model, const struct ls_decoding *decoding, const void *ids,
                               struct ls_plan **plan);
/* Frees all. */
void ls_plan_slots_drop(struct ls_model_replica *replica);
