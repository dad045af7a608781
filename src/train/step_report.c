/* The learning rate goes with the extras, byte by byte: a byte is at most 255, and float32 is exact up to 2^24. The sum
 * of one byte over all replicas is exact for 65,793 of them, in any order of addition; the rate itself as a float would
 * be rounded. */
#include "train/step.h"

#include "base/float_bits.h"
#include "strategy/strategy.h"

void ls_step_report_write_rate(float rate, float bytes[4]) {
    uint32_t bits = ls_float_bits_of(rate);
    for (int i = 0; i < 4; i++) bytes[i] = (float)(bits >> 8 * i & 0xFF);
}

/* A worker's first replica speaks for the worker. */
void ls_step_report_fill(const ls_model *model, int local) {
    bool speaks = !local && model->sync->asks_in_step, keeps = speaks && model->progress.keeps;
    ls_request request = speaks ? model->progress.request : LS_GO_ON;
    float *report = model->built.replicas[local].numbers->report;
    report[LS_EXTRA_SAVE] = request == LS_SAVE ? 1.0F : 0.0F;
    report[LS_EXTRA_STOP] = request == LS_STOP ? 1.0F : 0.0F;
    report[LS_EXTRA_STOP_RANKS] = request == LS_STOP ? (float)model->strategy->runtime->rank : 0.0F;
    report[LS_EXTRA_KEEPS] = keeps ? (model->progress.fetches ? 2.0F : 1.0F) : 0.0F;
    ls_step_report_write_rate(model->progress.step.rule.learning_rate, report + LS_EXTRA_RATE);
}

/* The sum is own times the replicas on every worker exactly when all are equal: a rate that is the mean of others'
 * passes on its own worker only. */
ls_status ls_step_report_check_rate(const ls_model *model, float rate, const float *extras) {
    float own[4], replicas = (float)model->strategy->total_count;
    ls_step_report_write_rate(rate, own);
    for (int i = 0; i < 4 && model->strategy->runtime->size > 1; i++)
        if (extras[LS_EXTRA_RATE + i] != own[i] * replicas)
            return ls_fail(LS_INVALID_ARGUMENT,
                           "the learning rate is %g on rank %d and another one on another worker: set it alike on all",
                           (double)rate, model->strategy->runtime->rank);
    return LS_OK;
}

bool ls_step_report_asks(const float *extras) {
    return extras[LS_EXTRA_SAVE] > 0 || extras[LS_EXTRA_STOP] > 0;
}

bool ls_step_report_saves(const float *extras) {
    return extras[LS_EXTRA_KEEPS] > 1 || (extras[LS_EXTRA_KEEPS] > 0 && ls_step_report_asks(extras));
}

static int64_t read_count(const float *extras) {
    return (int64_t)extras[0] + (int64_t)extras[1] * LS_REPORT_UNIT;
}

struct ls_loss_sums ls_step_report_counts(const float *extras) {
    return (struct ls_loss_sums){.correct = read_count(extras + LS_EXTRA_CORRECT),
                                 .rows = read_count(extras + LS_EXTRA_ROWS),
                                 .uncounted = read_count(extras + LS_EXTRA_UNCOUNTED)};
}

/* The numbers come from the extras, which are sums over all replicas and so equal on all workers; every worker
 * therefore draws the same conclusions from them, such as to save or to stop. */
void ls_step_report_read(ls_model *model, const float *extras, double penalty, struct ls_loss_sums *sums) {
    *sums = ls_step_report_counts(extras);
    sums->loss = (double)extras[LS_EXTRA_LOSS];
    sums->weight = (double)extras[LS_EXTRA_WEIGHT];
    sums->penalty = penalty * (double)sums->rows;
    for (int i = 0; i < LS_MAX_METRICS; i++) sums->metrics[i] = (double)extras[LS_EXTRA_METRICS + i];
    model->progress.requests = (struct ls_requests){(int64_t)extras[LS_EXTRA_SAVE], (int64_t)extras[LS_EXTRA_STOP],
                                                    (int64_t)extras[LS_EXTRA_STOP_RANKS]};
}
