/* Learning rates as functions of the step. Mirrors keras.optimizers.schedules. */
#pragma once
#include <lockstep/lockstep.h>

/* INVALID_ARGUMENT naming the field and the value. */
ls_status ls_rate_schedule_check(const ls_rate_schedule *schedule);
/* True if the rate is the optimizer's own at every step. */
bool ls_rate_schedule_is_constant(const ls_rate_schedule *schedule);
/* Of step, counted from 0; rate is the optimizer's. A function of its arguments only: the same bits everywhere. */
float ls_rate_schedule_rate(const ls_rate_schedule *schedule, float rate, int64_t step);
/* "cosine_decay(decay_steps=100, ...)": equal exactly when the schedules are. */
void ls_rate_schedule_describe(const ls_rate_schedule *schedule, char *text, size_t size);
