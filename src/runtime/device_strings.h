/* TensorFlow's device strings in a list of devices: "/gpu:0", "/device:GPU:1",
 * "/job:worker/replica:0/task:0/device:GPU:0". */
#pragma once
#include "resolver/cluster_view.h"

/* Rewrites list in place, as ls_devices_open reads it: "gpu:0,GPU:1". Entries that do not begin with a slash stay. own:
 * NULL, or without a cluster: a process alone. INVALID_ARGUMENT: an entry is of another task, or cannot be read. */
ls_status ls_device_strings_read(const struct ls_cluster_view *own, char *list);
