/* Writing events. A file's name is TensorFlow's: events.out.tfevents.SECONDS.HOST.PID.NUMBER.v2, with the
 * writer's before its end. */
#include "observe/event_file.h"

#include <errno.h>
#include <math.h>
#include <stdio.h>
#include <string.h>
#include <sys/stat.h>
#include <time.h>
#include <unistd.h>

#include "base/new.h"
#include "base/record_frame.h"

struct ls_event_file {
    FILE *out;
    char path[4096];
};

static ls_status put_event(struct ls_event_file *file, struct ls_event *event) {
    LS_CLEANUP(ls_free_pointer) uint8_t *bytes = NULL;
    size_t size = 0;
    struct timespec now;
    (void)clock_gettime(CLOCK_REALTIME, &now);
    event->wall_time = (double)now.tv_sec + (double)now.tv_nsec * 1e-9;
    ls_status status = ls_event_pack(event, &bytes, &size);
    return status ? status : ls_record_frame_write(file->out, file->path, bytes, size);
}

void ls_event_file_end(uint64_t run, char end[LS_EVENT_RUN + sizeof(LS_EVENT_FILE_END)]) {
    (void)snprintf(end, LS_EVENT_RUN + sizeof(LS_EVENT_FILE_END), ".%016llx" LS_EVENT_FILE_END,
                   (unsigned long long)run);
}

/* A name that no other file of this process has. */
static ls_status create(struct ls_event_file *file, const char *folder, uint64_t run) {
    char host[256] = "localhost", end[LS_EVENT_RUN + sizeof(LS_EVENT_FILE_END)];
    ls_event_file_end(run, end);
    (void)gethostname(host, sizeof(host) - 1);
    for (int number = 0; !file->out; number++) {
        int length = snprintf(file->path, sizeof(file->path), "%s/events.out.tfevents.%010lld.%s.%d.%d%s", folder,
                              (long long)time(NULL), host, (int)getpid(), number, end);
        if (length >= (int)sizeof(file->path)) return ls_fail(LS_INVALID_ARGUMENT, "'%.80s...' is too long", folder);
        file->out = fopen(file->path, "wxe");
        if (!file->out && errno != EEXIST) return ls_fail_errno("create", file->path);
    }
    return LS_OK;
}

ls_status ls_event_file_open(const char *folder, uint64_t run, struct ls_event_file **file) {
    if (mkdir(folder, 0777) && errno != EEXIST) return ls_fail_errno("make folder", folder);
    LS_NEW(struct ls_event_file, made, "an event file");
    ls_status status = create(made, folder, run);
    if (!status) status = put_event(made, &(struct ls_event){.tag = NULL});
    if (!status) status = ls_event_file_flush(made);
    if (status && made->out) (void)fclose(made->out);
    return LS_HAND_OVER(status, file, made, ls_free(made));
}

ls_status ls_event_file_flush(struct ls_event_file *file) {
    return fflush(file->out) ? ls_fail_errno("write", file->path) : LS_OK;
}

ls_status ls_event_file_close(struct ls_event_file *file) {
    if (!file) return LS_OK;
    ls_status status = fclose(file->out) ? ls_fail_errno("write", file->path) : LS_OK;
    ls_free(file);
    return status;
}

/* ---- kinds of events ---- */

ls_status ls_event_file_scalar(struct ls_event_file *file, const char *tag, int64_t step, double value) {
    float number = (float)value;
    struct ls_event event = {.step = step,
                             .tag = tag,
                             .plugin = "scalars",
                             .type = LS_EVENT_FLOAT,
                             .content = {(const uint8_t *)&number, sizeof(number)}};
    return put_event(file, &event);
}

/* The finite values' range; false: there is none. */
static bool find_range(const float *values, size_t count, double *low, double *high) {
    *low = INFINITY;
    *high = -INFINITY;
    for (size_t i = 0; i < count; i++) {
        if (!isfinite(values[i])) continue;
        *low = fmin(*low, (double)values[i]);
        *high = fmax(*high, (double)values[i]);
    }
    return *low <= *high;
}

/* Equal values all lie in the last bucket, and all edges are that value. */
void ls_event_file_histogram_buckets(const float *values, size_t count, double buckets[LS_HISTOGRAM_BUCKETS][3]) {
    double low, high;
    memset(buckets, 0, sizeof(double[LS_HISTOGRAM_BUCKETS][3]));
    if (!find_range(values, count, &low, &high)) return;
    double width = (high - low) / LS_HISTOGRAM_BUCKETS;
    for (int i = 0; i < LS_HISTOGRAM_BUCKETS; i++) {
        buckets[i][0] = low + width * i;
        buckets[i][1] = i + 1 < LS_HISTOGRAM_BUCKETS ? low + width * (i + 1) : high;
    }
    for (size_t i = 0; i < count; i++) {
        if (!isfinite(values[i])) continue;
        double place = width > 0 ? floor(((double)values[i] - low) / width) : LS_HISTOGRAM_BUCKETS;
        buckets[place < LS_HISTOGRAM_BUCKETS ? (int)place : LS_HISTOGRAM_BUCKETS - 1][2]++;
    }
}

ls_status ls_event_file_histogram(struct ls_event_file *file, const char *tag, int64_t step, const float *values,
                                  size_t count) {
    double buckets[LS_HISTOGRAM_BUCKETS][3];
    ls_event_file_histogram_buckets(values, count, buckets);
    struct ls_event event = {.step = step,
                             .tag = tag,
                             .plugin = "histograms",
                             .type = LS_EVENT_DOUBLE,
                             .shape = LS_SHAPE(LS_HISTOGRAM_BUCKETS, 3),
                             .content = {(const uint8_t *)buckets, sizeof(buckets)}};
    return put_event(file, &event);
}

ls_status ls_event_file_graph(struct ls_event_file *file, const struct ls_event_node *nodes, size_t count) {
    return put_event(file, &(struct ls_event){.nodes = nodes, .node_count = count});
}

ls_status ls_event_file_images(struct ls_event_file *file, const char *tag, int64_t step, const ls_shape *height_width,
                               const struct ls_event_bytes *images, size_t count) {
    char sides[2][24];
    LS_CLEANUP(ls_free_pointer) struct ls_event_bytes *strings = ls_alloc_array(count + 2, sizeof(*strings));
    if (!strings) return ls_fail_memory("images", count);
    for (int i = 0; i < 2; i++) { /* the width comes first */
        int length = snprintf(sides[i], sizeof(sides[i]), "%lld", (long long)height_width->dims[1 - i]);
        strings[i] = (struct ls_event_bytes){(const uint8_t *)sides[i], (size_t)length};
    }
    memcpy(strings + 2, images, count * sizeof(*images));
    struct ls_event event = {.step = step,
                             .tag = tag,
                             .plugin = "images",
                             .type = LS_EVENT_STRING,
                             .shape = LS_SHAPE((int64_t)count + 2),
                             .strings = strings};
    return put_event(file, &event);
}
