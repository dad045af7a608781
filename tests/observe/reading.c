/* Reading that fails is no torn end: event files and tables keep what they have, and the next try cuts them as the
 * first should have. */
#define _GNU_SOURCE
#include <lockstep/callbacks.h>
#include <stdio.h>
#include <string.h>

#include "base/memory.h"
#include "faulty_files.h"
#include "folder.h"
#include "harness.h"
#include "observe/chrome.h"
#include "observe/event_file.h"
#include "observe/timeline.h"

#define RUN UINT64_C(7)

static char folder[64];
static long allocations; /* the so-manieth from now fails; 0: none */

void *__real_calloc(size_t count, size_t size);
void *__wrap_calloc(size_t count, size_t size);
void *__wrap_calloc(size_t count, size_t size) {
    return allocations > 0 && --allocations == 0 ? NULL : __real_calloc(count, size);
}

static void make_folder(void) {
    (void)snprintf(folder, sizeof(folder), "/tmp/lockstep-reading-XXXXXX");
    ck_assert_ptr_nonnull(mkdtemp(folder));
}

static void remove_folder(void) {
    ck_assert_int_eq(folder_remove(folder), 0);
}

static bool is_late(void *context, const char *tag, int64_t step) {
    (void)context, (void)tag;
    return step >= 3;
}

/* Five scalars at steps 0 to 4. */
static void write_events(void) {
    struct ls_event_file *file = NULL;
    assert_ok(ls_event_file_open(folder, RUN, &file));
    for (int i = 0; i < 5; i++) assert_ok(ls_event_file_scalar(file, "epoch_loss", i, 0.5 * i));
    assert_ok(ls_event_file_close(file));
}

static ls_status cut_events(void) {
    return ls_event_cut_files(folder, RUN, is_late, NULL);
}

/* A row an epoch, of epochs 0 to 4 after the header. */
static void write_table(void) {
    char path[128];
    (void)snprintf(path, sizeof(path), "%s/table.csv", folder);
    FILE *file = fopen(path, "we");
    ck_assert_ptr_nonnull(file);
    (void)fputs("epoch,loss\n0,1\n1,0.5\n2,0.25\n3,0.125\n4,0.1\n", file);
    ck_assert_int_eq(fclose(file), 0);
}

static ls_status cut_table(void) {
    char path[128];
    ls_callback *callback;
    const ls_callback_call call = {.writes = true, .resumed = true, .epoch = 3};
    (void)snprintf(path, sizeof(path), "%s/table.csv", folder);
    ls_status status = ls_csv_logger_new(LS_CSV_LOGGER(.path = path), &callback);
    if (status) return status;
    status = callback->on_train_begin(callback->context, &call);
    callback->release(callback->context);
    return status;
}

static void write_timeline(void) {
    char path[128];
    (void)snprintf(path, sizeof(path), "%s/timeline.json", folder);
    FILE *file = fopen(path, "we");
    ck_assert_ptr_nonnull(file);
    (void)fprintf(file,
                  "{\"traceEvents\": [], \"baseTimeNanoseconds\": %lld, \"otherData\": {\"lockstep\": \"0\", "
                  "\"flight_record\": true, \"rank\": 0, \"workers\": 1, \"clock\": \"c\", \"reason\": \"why\"}}\n",
                  (long long)LS_CHROME_TIME_BASE);
    ck_assert_int_eq(fclose(file), 0);
}

static ls_status read_timeline(void) {
    char path[128];
    struct ls_timeline_file file = {0};
    (void)snprintf(path, sizeof(path), "%s/timeline.json", folder);
    ls_status status = ls_timeline_read(path, &file);
    if (!status) ls_timeline_read_free_file(&file);
    return status;
}

/* Of all files together. */
static off_t size_of_all(void) {
    off_t size = 0;
    DIR *listing = opendir(folder);
    for (struct dirent *entry; (entry = readdir(listing));) {
        struct stat info;
        if (entry->d_name[0] == '.') continue;
        ck_assert_int_eq(fstatat(dirfd(listing), entry->d_name, &info, 0), 0);
        size += info.st_size;
    }
    (void)closedir(listing);
    return size;
}

static const struct {
    void (*write)(void);
    ls_status (*read)(void);
} subjects[] = {{write_events, cut_events}, {write_table, cut_table}, {write_timeline, read_timeline}};
enum { SUBJECTS = sizeof(subjects) / sizeof(subjects[0]) };

TEST_EACH(an_error_of_reading_is_no_torn_end, 2 * SUBJECTS) {
    static const int errors[] = {EIO, ESTALE};
    int error = errors[_i / SUBJECTS], failures = 0;
    subjects[_i % SUBJECTS].write();
    off_t before = size_of_all();
    for (long k = 1;; k++, failures++) {
        faulty_files_begin(k, error);
        ls_status status = subjects[_i % SUBJECTS].read();
        if (!faulty_files_end()) {
            assert_ok(status);
            break;
        }
        ck_assert_msg(status == LS_UNKNOWN, "call %ld: %s: %s", k, ls_status_name(status), ls_error());
        ck_assert_msg(strstr(ls_error(), folder) && strstr(ls_error(), strerror(error)), "%s", ls_error());
        ck_assert_int_eq(size_of_all(), before);
    }
    ck_assert_int_ge(failures, 2);
    ck_assert(size_of_all() < before || subjects[_i % SUBJECTS].read == read_timeline);
}

/* Memory for an event, too. */
TEST_EACH(want_of_memory_is_no_torn_end, 2) {
    int failures = 0;
    subjects[_i].write();
    off_t before = size_of_all();
    for (long k = 1;; k++, failures++) {
        allocations = k;
        ls_status status = subjects[_i].read();
        bool reached = allocations == 0;
        allocations = 0;
        if (!reached) {
            assert_ok(status);
            break;
        }
        ck_assert_msg(status == LS_RESOURCE_EXHAUSTED, "allocation %ld: %s: %s", k, ls_status_name(status), ls_error());
        ck_assert_int_eq(size_of_all(), before);
    }
    ck_assert_int_ge(failures, 2);
}

/* One that became shorter while it was read has lost its end. */
TEST(an_early_end_is_a_torn_event) {
    write_events();
    off_t before = size_of_all();
    faulty_files_begin(5, 0); /* headers and bodies in turn: inside the third event's header */
    assert_ok(cut_events());
    ck_assert(faulty_files_end());
    ck_assert_int_lt(size_of_all(), before);
    ck_assert_int_gt(size_of_all(), 0);
}

TESTS("reading", .before = make_folder, .after = remove_folder)
