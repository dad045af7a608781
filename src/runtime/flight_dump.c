/* From the group's ring to observe's file. */
#include "runtime/runtime.h"

#include "base/kept_error.h"
#include "base/memory.h"
#include "collective/algorithm.h"
#include "observe/flight_file.h"

static const char *state_name(enum ls_flight_state state) {
    static const char *const names[] = {"begun", "done", "failed"};
    return names[state];
}

static void add_entry(struct ls_flight_file *file, const struct ls_flight_entry *entry) {
    const struct ls_flight_span span = {
        .name = entry->name,
        .kind = ls_frame_collective_name(entry->kind),
        .dtype = ls_dtype_name((ls_dtype)entry->dtype),
        .algorithm = entry->algorithm ? ls_algorithm_info((enum ls_algorithm)entry->algorithm)->name : NULL,
        .state = state_name(entry->state),
        .sequence = entry->sequence,
        .count = entry->count,
        .bytes = entry->count * ls_dtype_size((ls_dtype)entry->dtype),
        .begun = entry->begun,
        .ended = entry->ended,
    };
    ls_flight_file_add(file, &span);
}

static ls_status write_record(const struct ls_runtime *runtime, const char *reason, uint64_t *count, char **path) {
    const struct ls_flight *flight = ls_group_flight(runtime->group);
    const struct ls_flight_file_config config = {
        .folder = runtime->settings.flight_record_folder,
        .rank = runtime->task, /* an elastic group's ranks change */
        .size = runtime->tasks,
        .dropped = ls_flight_dropped(flight),
        .reason = reason,
    };
    struct ls_flight_file *file;
    ls_status status = ls_flight_file_open(&config, &file);
    if (status) return status;
    for (uint64_t i = 0; ls_flight_get(flight, i); i++) add_entry(file, ls_flight_get(flight, i));
    *count = flight->count - config.dropped;
    return ls_flight_file_close(file, path);
}

static void say(struct ls_runtime *runtime, const char *reason) {
    LS_CLEANUP(ls_free_pointer) char *path = NULL;
    uint64_t count = 0;
    bool folder = *runtime->settings.flight_record_folder, hints = !folder && !runtime->hinted;
    runtime->hinted |= hints;
    if (hints)
        ls_runtime_tell(runtime, "LOCKSTEP_FLIGHT_RECORD_FOLDER names no folder for this rank's last collectives; "
                                 "with one on every rank, 'lockstep timeline' shows who was where");
    else if (folder && write_record(runtime, reason, &count, &path))
        ls_log_warning(&runtime->log, "no flight record: %s", ls_error());
    else if (folder)
        ls_log_warning(&runtime->log, "flight record '%s': the last %llu collectives", path, (unsigned long long)count);
}

void ls_flight_dump(struct ls_runtime *runtime) {
    struct ls_kept_error reason = ls_kept_error_of(LS_UNKNOWN);
    bool alone = runtime->size == 1 && !*runtime->settings.flight_record_folder;
    if (!runtime->group || !ls_group_flight(runtime->group)->count || runtime->dumped || alone) return;
    runtime->dumped = true;
    say(runtime, reason.message);
    (void)ls_kept_error_raise(&reason);
}
