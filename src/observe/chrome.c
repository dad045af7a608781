/* Numbers and strings as JSON; labels. */
#include "observe/chrome.h"

#include <string.h>
#include <time.h>

#include "base/clock.h"
#include "base/json.h"

int64_t ls_chrome_offset(void) {
    struct timespec time;
    int64_t before = ls_now();
    (void)clock_gettime(CLOCK_REALTIME, &time);
    int64_t now = before + (ls_now() - before) / 2;
    return (int64_t)time.tv_sec * LS_SECOND + time.tv_nsec - LS_CHROME_TIME_BASE - now;
}

void ls_chrome_clock(char clock[LS_CHROME_CLOCK]) {
    FILE *file = fopen("/proc/sys/kernel/random/boot_id", "re");
    clock[0] = 0;
    if (!file) return;
    if (!fgets(clock, LS_CHROME_CLOCK, file)) clock[0] = 0;
    (void)fclose(file);
    clock[strcspn(clock, "\n")] = 0;
}

void ls_chrome_time(FILE *out, const char *key, int64_t time) {
    int64_t magnitude = time < 0 ? -time : time;
    (void)fprintf(out, ", \"%s\": %s%lld.%03lld", key, time < 0 ? "-" : "", (long long)(magnitude / 1000),
                  (long long)(magnitude % 1000));
}

void ls_chrome_process(FILE *out, int rank) {
    ls_json_print(out,
                  "{'name': 'process_name', 'ph': 'M', 'pid': %d, 'tid': 0, 'args': {'name': 'rank %d'}},\n"
                  "{'name': 'process_sort_index', 'ph': 'M', 'pid': %d, 'args': {'sort_index': %d}}",
                  rank, rank, rank, rank);
}

void ls_chrome_thread(FILE *out, int rank, int tid, const char *name) {
    ls_json_print(out, ",\n{'name': 'thread_name', 'ph': 'M', 'pid': %d, 'tid': %d, 'args': {'name': %s}}", rank, tid,
                  name);
}
