/* A line of text for each decision. */
#include "store/session/session_record.h"

#include <errno.h>
#include <stdio.h>
#include <string.h>

#include "base/memory.h"
#include "base/plain.h"
#include "base/status.h"

static ls_status fail_file(const char *path) {
    return ls_fail(LS_FAILED_PRECONDITION, "LOCKSTEP_RECORD='%.200s': %s", path, strerror(errno));
}

static ls_status check_written(const struct ls_session_record *record) {
    return fflush(record->file) ? fail_file(record->path) : LS_OK;
}

ls_status ls_session_record_open(const char *path, const struct ls_session *session, int servers, int workers,
                                 int64_t version, struct ls_session_record *record) {
    if (!path || !*path) return LS_OK;
    *record = (struct ls_session_record){fopen(path, "ae"), servers, path};
    if (!record->file) return fail_file(path);
    (void)fprintf(record->file, "session %lld %lld %d %d %lld\n", (long long)session->begin,
                  (long long)session->tickets, servers, workers, (long long)version);
    return check_written(record);
}

ls_status ls_session_record_add(const struct ls_session_record *record, int64_t ticket, float factor,
                                const int64_t *versions) {
    if (!record->file) return LS_OK;
    (void)ls_plain_print(record->file, "%lld %.9g", (long long)ticket, (double)factor);
    for (int s = 0; s < record->servers; s++) (void)fprintf(record->file, " %lld", (long long)versions[s]);
    (void)fprintf(record->file, "\n");
    return check_written(record);
}

ls_status ls_session_record_close(struct ls_session_record *record) {
    FILE *file = ls_steal(record->file);
    return file && fclose(file) ? fail_file(record->path) : LS_OK;
}
