/* A TensorBoard event file that is being written (tf.summary.create_file_writer), and those that an interrupted
 * training has left in its folder. One process writes a folder. Errors name the path and the cause. */
#pragma once
#include <lockstep/lockstep.h>

#include "observe/event.h"

#define LS_HISTOGRAM_BUCKETS 30

struct ls_event_file;
/* A new file in folder, which is made where the one above it is there. */
ls_status ls_event_file_open(const char *folder, struct ls_event_file **file);
ls_status ls_event_scalar(struct ls_event_file *file, const char *tag, int64_t step, double value);
/* Of the finite values: 30 buckets of one width, as tf.summary.histogram. */
ls_status ls_event_histogram(struct ls_event_file *file, const char *tag, int64_t step, const float *values,
                             size_t count);
/* images[count] are encoded as PNG, all of one size. */
ls_status ls_event_images(struct ls_event_file *file, const char *tag, int64_t step, const ls_shape *height_width,
                          const struct ls_event_bytes *images, size_t count);
/* The model's graph, once a folder. */
ls_status ls_event_graph(struct ls_event_file *file, const struct ls_event_node *nodes, size_t count);
/* Everything is in the file. */
ls_status ls_event_file_flush(struct ls_event_file *file);
/* Frees it in any case. NULL is nothing. */
ls_status ls_event_file_close(struct ls_event_file *file);

/* Whether an event belongs to what will be done again. */
typedef bool ls_event_later_fn(void *context, const char *tag, int64_t step);
/* Cuts each event file in folder before its first event that is later, or is torn; a folder that is not there has none.
 */
ls_status ls_event_files_cut(const char *folder, ls_event_later_fn *later, void *context);

/* Rows of left edge, right edge, count. For tests. */
void ls_histogram_buckets(const float *values, size_t count, double buckets[LS_HISTOGRAM_BUCKETS][3]);
