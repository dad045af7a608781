/* The event file of an evaluator, behind tools.h. Folder and tags are those of keras.callbacks.TensorBoard, which a
 * tf.keras.utils.SidecarEvaluator calls. */
#include <errno.h>
#include <lockstep/tools.h>
#include <stdio.h>
#include <sys/stat.h>

#include "base/random.h"
#include "base/need.h"
#include "base/new.h"
#include "observe/event_file.h"

struct ls_tools_events {
    struct ls_event_file *file;
};

/* A run of its own: no training that goes on cuts its file. */
static ls_status open_events(const char *folder, struct ls_event_file **file) {
    char path[4096];
    uint64_t run;
    if (mkdir(folder, 0777) && errno != EEXIST) return ls_fail_errno("make folder", folder);
    (void)snprintf(path, sizeof(path), "%.4000s/validation", folder);
    ls_status status = ls_entropy_fill(&run, sizeof(run));
    return status ? status : ls_event_file_open(path, run, file);
}

ls_status ls_tools_events_new(const char *folder, ls_tools_events **events) {
    LS_NEED(folder, events);
    LS_NEW(struct ls_tools_events, made, "an event file");
    ls_status status = open_events(folder, &made->file);
    return LS_HAND_OVER(status, events, made, ls_free(made));
}

ls_status ls_tools_events_put(ls_tools_events *events, const char *name, int64_t step, double value) {
    LS_NEED(events, name);
    char tag[LS_EVENT_TAG];
    (void)snprintf(tag, sizeof(tag), "evaluation_%.200s_vs_iterations", name);
    ls_status status = ls_event_file_scalar(events->file, tag, step, value);
    return status ? status : ls_event_file_flush(events->file);
}

void ls_tools_events_free(ls_tools_events *events) {
    if (!events) return;
    (void)ls_event_file_close(events->file);
    ls_free(events);
}
