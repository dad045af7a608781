/* Written straight into its own name: who finds half of one finds out, for it is no JSON. */
#include "observe/flight_file.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "base/clock.h"
#include "base/json.h"
#include "base/new.h"
#include "observe/chrome.h"

struct ls_flight_file {
    struct ls_flight_file_config config;
    char *path;
    FILE *out;
    int64_t offset;
};

static ls_status fail_write(const char *path, int error) {
    return ls_fail(LS_INVALID_ARGUMENT, "cannot write '%s' (LOCKSTEP_FLIGHT_RECORD_FOLDER): %s", path, strerror(error));
}

static void release_flight_file(struct ls_flight_file *file) {
    if (file->out) (void)fclose(file->out);
    ls_free(file->path);
    ls_free(file);
}

static ls_status open_flight_file(struct ls_flight_file *file, size_t length) {
    const struct ls_flight_file_config *config = &file->config;
    (void)snprintf(file->path, length, "%s/flight.rank%d.pid%d.json", config->folder, config->rank, (int)getpid());
    file->out = fopen(file->path, "we");
    if (!file->out) return fail_write(file->path, errno);
    (void)fprintf(file->out, "{\"traceEvents\": [\n");
    ls_chrome_process(file->out, config->rank);
    ls_chrome_thread(file->out, config->rank, LS_FLIGHT_THREAD, "collectives");
    return LS_OK;
}

ls_status ls_flight_file_open(const struct ls_flight_file_config *config, struct ls_flight_file **file) {
    size_t length = strlen(config->folder) + 64;
    LS_NEW(struct ls_flight_file, made, "a flight record's file");
    made->path = ls_alloc(length);
    made->config = *config;
    made->offset = ls_chrome_offset();
    ls_status status = made->path ? open_flight_file(made, length) : ls_fail_memory("a flight record's file", length);
    return LS_HAND_OVER(status, file, made, release_flight_file(made));
}

void ls_flight_file_add(struct ls_flight_file *file, const struct ls_flight_span *span) {
    FILE *out = file->out;
    int64_t ended = span->ended ? span->ended : ls_now();
    int64_t begun = span->begun ? span->begun : ended;
    ls_json_print(out, ",\n{'name': %s, 'ph': 'X', 'pid': %d, 'tid': %d", span->name, file->config.rank,
                  LS_FLIGHT_THREAD);
    ls_chrome_time(out, "ts", begun + file->offset);
    ls_chrome_time(out, "dur", ended - begun);
    ls_json_print(out, ", 'args': {'sequence': %llu, 'kind': %s, 'dtype': %s", (unsigned long long)span->sequence,
                  span->kind, span->dtype);
    if (span->algorithm) ls_json_print(out, ", 'algorithm': %s", span->algorithm);
    ls_json_print(out, ", 'state': %s, 'count': %llu, 'bytes': %llu}}", span->state, (unsigned long long)span->count,
                  (unsigned long long)span->bytes);
}

static void print_trailer(const struct ls_flight_file *file) {
    const struct ls_flight_file_config *config = &file->config;
    char clock[LS_CHROME_CLOCK], host[256] = "";
    ls_chrome_clock(clock);
    (void)gethostname(host, sizeof(host) - 1);
    ls_json_print(file->out,
                  "\n], 'displayTimeUnit': 'ms', 'baseTimeNanoseconds': %lld,\n'otherData': {'lockstep': %s, "
                  "'flight_record': true, 'rank': %d, 'workers': %d, 'pid': %d, 'clock': %s, 'host': %s, 'reason': %s, "
                  "'dropped_collectives': %llu}}\n",
                  (long long)LS_CHROME_TIME_BASE, LS_VERSION, config->rank, config->size, (int)getpid(), clock, host,
                  config->reason, (unsigned long long)config->dropped);
}

ls_status ls_flight_file_close(struct ls_flight_file *file, char **path) {
    print_trailer(file);
    errno = 0;
    bool failed = ferror(file->out) != 0;
    failed = fclose(file->out) != 0 || failed;
    file->out = NULL;
    ls_status status = failed ? fail_write(file->path, errno ? errno : EIO) : LS_OK;
    if (!status) *path = ls_steal(file->path);
    release_flight_file(file);
    return status;
}
