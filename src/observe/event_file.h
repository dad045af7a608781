/* A TensorBoard event file that is being written (tf.summary.create_file_writer), and those that an interrupted
 * training has left in its folder. One process writes a folder. Errors name the path and the cause. */
#pragma once
#include <lockstep/lockstep.h>

#include "observe/event.h"

#define LS_HISTOGRAM_BUCKETS 30
#define LS_EVENT_FILE_END    ".lockstep.v2" /* of the names of own files: no other writer's is ever cut */
#define LS_EVENT_RUN         24             /* the end of a name, with its zero and the run's number before it */

struct ls_event_file;
/* The end of the names of a run's files: run is the number of one training. */
void ls_event_file_end(uint64_t run, char end[LS_EVENT_RUN + sizeof(LS_EVENT_FILE_END)]);
/* Opens a new file of the run in folder. The folder is made if the one above it is there. */
ls_status ls_event_file_open(const char *folder, uint64_t run, struct ls_event_file **file);
ls_status ls_event_file_scalar(struct ls_event_file *file, const char *tag, int64_t step, double value);
/* Writes 30 buckets of one width over the finite values, as tf.summary.histogram. */
ls_status ls_event_file_histogram(struct ls_event_file *file, const char *tag, int64_t step, const float *values,
                                  size_t count);
/* Writes images[count], which are encoded as PNG and have one size. */
ls_status ls_event_file_images(struct ls_event_file *file, const char *tag, int64_t step, const ls_shape *height_width,
                               const struct ls_event_bytes *images, size_t count);
/* Writes the model's graph, once a folder. */
ls_status ls_event_file_graph(struct ls_event_file *file, const struct ls_event_node *nodes, size_t count);
/* Flushes all events to the file. */
ls_status ls_event_file_flush(struct ls_event_file *file);
/* Frees it in any case. NULL is nothing. */
ls_status ls_event_file_close(struct ls_event_file *file);

/* True if an event belongs to a step that will be repeated. */
typedef bool ls_event_later_fn(void *context, const char *tag, int64_t step);

/* Rows of left edge, right edge, count. For tests. */
void ls_event_file_histogram_buckets(const float *values, size_t count, double buckets[LS_HISTOGRAM_BUCKETS][3]);

/* Cuts each event file of the run in folder before its first event that is later, or is torn; a folder that is
 * not there has none.
 */
ls_status ls_event_cut_files(const char *folder, uint64_t run, ls_event_later_fn *later, void *context);
