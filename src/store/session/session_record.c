/* A line of text for each decision. */
#include "store/session/session_record.h"

#include <errno.h>
#include <stdio.h>
#include <string.h>

#include "base/new.h"
#include "base/plain.h"

struct ls_session_record {
    FILE *file;
    int servers;
    char path[256];
};

static ls_status fail_file(const char *path) {
    return ls_fail(LS_FAILED_PRECONDITION, "LOCKSTEP_RECORD='%.200s': %s", path, strerror(errno));
}

static ls_status check_written(struct ls_session_record *record) {
    return fflush(record->file) ? fail_file(record->path) : LS_OK;
}

ls_status ls_session_record_open(const char *path, const struct ls_session *session, int servers, int workers,
                                 int64_t version, struct ls_session_record **record) {
    if (!path || !*path) return LS_OK;
    LS_NEW(struct ls_session_record, made, "a record");
    made->servers = servers;
    (void)snprintf(made->path, sizeof(made->path), "%s", path);
    made->file = fopen(path, "ae");
    ls_status status = made->file ? LS_OK : fail_file(path);
    if (!status) {
        (void)fprintf(made->file, "session %lld %lld %d %d %lld\n", (long long)session->begin,
                      (long long)session->tickets, servers, workers, (long long)version);
        status = check_written(made);
    }
    if (status)
        (void)ls_session_record_close(made);
    else
        *record = made;
    return status;
}

ls_status ls_session_record_add(struct ls_session_record *record, int64_t ticket, float factor,
                                const int64_t *versions) {
    if (!record) return LS_OK;
    (void)ls_plain_print(record->file, "%lld %.9g", (long long)ticket, (double)factor);
    for (int s = 0; s < record->servers; s++) (void)fprintf(record->file, " %lld", (long long)versions[s]);
    (void)fprintf(record->file, "\n");
    return check_written(record);
}

ls_status ls_session_record_close(struct ls_session_record *record) {
    if (!record) return LS_OK;
    ls_status status = LS_OK;
    if (record->file && fclose(record->file)) status = fail_file(record->path);
    ls_free(record);
    return status;
}
