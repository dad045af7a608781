/* Cross-device ops within one worker (tf.distribute.CrossDeviceOps). */
#pragma once
#include "strategy/strategy.h"

const struct ls_cross_device *ls_cross_device_find(ls_cross_device_ops ops); /* NULL if there is no such kind */
/* All replica threads of the only worker call it. They meet, add their shares, and meet again. */
ls_status ls_cross_device_all_reduce(struct ls_replica *replica, const struct ls_cross_device_call *call);
