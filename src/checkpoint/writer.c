/* One thread and one checkpoint at a time. */
#include "checkpoint/writer.h"

#include <string.h>

#include "base/clock.h"
#include "base/kept_error.h"
#include "base/new.h"
#include "base/point.h"
#include "base/monitor.h"
#include "base/thread.h"

struct ls_writer {
    const char *folder;
    int keep;
    pthread_t thread;
    struct ls_monitor monitor;              /* guards what follows */
    const struct ls_checkpoint *checkpoint; /* being written; NULL when idle */
    const struct ls_folder_lock *lock;
    bool stopping;
    bool written;               /* this and what follows: since the last ls_writer_result */
    struct ls_kept_error error; /* the first */
};

static void *write_checkpoints(void *argument) {
    struct ls_writer *writer = argument;
    ls_monitor_lock(&writer->monitor);
    for (;;) {
        while (!writer->checkpoint && !writer->stopping) (void)ls_monitor_wait(&writer->monitor, LS_NEVER);
        if (!writer->checkpoint) break;
        ls_monitor_unlock(&writer->monitor);
        ls_status status = ls_checkpoint_folder_save(writer->folder, writer->lock, writer->checkpoint, writer->keep);
        ls_monitor_lock(&writer->monitor);
        if (!status) writer->written = true;
        ls_kept_error_first(&writer->error, status);
        writer->checkpoint = NULL;
        ls_monitor_broadcast(&writer->monitor);
        ls_reached("checkpoint_done");
    }
    ls_monitor_unlock(&writer->monitor);
    return NULL;
}

ls_status ls_writer_new(const char *folder, int keep, struct ls_writer **writer) {
    LS_NEW(struct ls_writer, made, "the writer of checkpoints");
    made->folder = folder;
    made->keep = keep;
    ls_status status = ls_monitor_init(&made->monitor);
    if (!status) {
        status = ls_thread_start(&made->thread, "ls-checkpoint", write_checkpoints, made);
        if (status) ls_monitor_destroy(&made->monitor);
    }
    return LS_HAND_OVER(status, writer, made, ls_free(made));
}

ls_status ls_writer_result(struct ls_writer *writer, bool *written) {
    ls_monitor_lock(&writer->monitor);
    ls_status status = ls_kept_error_raise(&writer->error);
    *written = writer->written;
    writer->error.status = LS_OK;
    writer->written = false;
    ls_monitor_unlock(&writer->monitor);
    return status;
}

bool ls_writer_idle(struct ls_writer *writer) {
    return ls_writer_wait(writer, 0);
}

void ls_writer_submit(struct ls_writer *writer, const struct ls_checkpoint *checkpoint,
                      const struct ls_folder_lock *lock) {
    ls_monitor_lock(&writer->monitor);
    writer->lock = lock;
    writer->checkpoint = checkpoint;
    ls_monitor_broadcast(&writer->monitor);
    ls_monitor_unlock(&writer->monitor);
}

bool ls_writer_wait(struct ls_writer *writer, int64_t deadline) {
    ls_monitor_lock(&writer->monitor);
    while (writer->checkpoint && ls_now() < deadline) (void)ls_monitor_wait(&writer->monitor, deadline);
    bool idle = !writer->checkpoint;
    ls_monitor_unlock(&writer->monitor);
    return idle;
}

bool ls_writer_free(struct ls_writer *writer, int64_t deadline) {
    if (!writer) return true;
    if (!ls_writer_wait(writer, deadline)) {
        (void)pthread_detach(writer->thread);
        return false;
    }
    ls_monitor_flag(&writer->monitor, &writer->stopping);
    (void)pthread_join(writer->thread, NULL);
    ls_monitor_destroy(&writer->monitor);
    ls_free(writer);
    return true;
}
