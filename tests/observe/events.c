/* Event files: buckets as TensorFlow's, and a file that is cut at any byte, or at a step, goes on whole. */
#include <dirent.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "harness.h"
#include "observe/event_file.h"

#define RUN UINT64_C(0x123456789abcdef)

static char folder[64];

static void make_folder(void) {
    (void)snprintf(folder, sizeof(folder), "/tmp/lockstep-events-XXXXXX");
    ck_assert_ptr_nonnull(mkdtemp(folder));
}

static void find_file(char path[512]) {
    DIR *listing = opendir(folder);
    path[0] = 0;
    for (struct dirent *entry; (entry = readdir(listing));)
        if (entry->d_name[0] == 'e') (void)snprintf(path, 512, "%s/%.255s", folder, entry->d_name);
    (void)closedir(listing);
    ck_assert_msg(path[0], "no event file in %s", folder);
}

static void remove_folder(void) {
    char path[512];
    find_file(path);
    ck_assert_int_eq(unlink(path), 0);
    ck_assert_int_eq(rmdir(folder), 0);
}

static size_t size_of(const char *path) {
    struct stat info;
    ck_assert_int_eq(stat(path, &info), 0);
    return (size_t)info.st_size;
}

/* Five scalars at steps 0 to 4; sizes[i] is how long the file is before step i. */
static void write_scalars(size_t sizes[6]) {
    struct ls_event_file *file = NULL;
    char path[512];
    assert_ok(ls_event_file_open(folder, RUN, &file));
    find_file(path);
    for (int i = 0; i < 5; i++) {
        sizes[i] = size_of(path);
        assert_ok(ls_event_file_scalar(file, "epoch_loss", i, 0.5 * i));
        assert_ok(ls_event_file_flush(file));
    }
    sizes[5] = size_of(path);
    assert_ok(ls_event_file_close(file));
}

static bool is_late(void *context, const char *tag, int64_t step) {
    ck_assert_str_eq(tag, "epoch_loss");
    return step >= *(const int64_t *)context;
}

TEST(cut_at_a_step) {
    size_t sizes[6];
    char path[512];
    make_folder();
    write_scalars(sizes);
    find_file(path);
    for (int64_t step = 6; step-- > 0;) {
        assert_ok(ls_event_cut_files(folder, RUN, is_late, &step));
        ck_assert_uint_eq(size_of(path), sizes[step]);
    }
    remove_folder();
}

/* A graph has no step: it stays, unless it is torn. */
/* TensorFlow's own file in the folder, which nobody repeats. */
TEST(another_writers_file_stays) {
    struct ls_event_file *file = NULL;
    char path[512], other[600];
    int64_t step = 0;
    make_folder();
    assert_ok(ls_event_file_open(folder, RUN, &file));
    find_file(path);
    assert_ok(ls_event_file_scalar(file, "epoch_loss", 7, 1));
    assert_ok(ls_event_file_close(file));
    (void)snprintf(other, sizeof(other), "%s/events.out.tfevents.1700000000.host.1.0.v2", folder);
    ck_assert_int_eq(rename(path, other), 0);
    size_t size = size_of(other);
    assert_ok(ls_event_cut_files(folder, RUN, is_late, &step));
    ck_assert_uint_eq(size_of(other), size);
    ck_assert_int_eq(rename(other, path), 0);
    assert_ok(ls_event_cut_files(folder, RUN + 1, is_late, &step)); /* nor another training's */
    ck_assert_uint_eq(size_of(path), size);
    assert_ok(ls_event_cut_files(folder, RUN, is_late, &step));
    ck_assert_uint_lt(size_of(path), size);
    remove_folder();
}

TEST(a_graph_stays) {
    const char *const inputs[] = {"input", "dense"};
    const struct ls_event_node nodes[] = {{"input", "InputLayer", NULL, 0, LS_SHAPE(4)},
                                          {"dense", "Dense", inputs, 1, LS_SHAPE(4)},
                                          {"add", "Add", inputs, 2, LS_SHAPE(4)}};
    struct ls_event_file *file = NULL;
    char path[512];
    int64_t step = 0;
    make_folder();
    assert_ok(ls_event_file_open(folder, RUN, &file));
    find_file(path);
    size_t begin = size_of(path);
    assert_ok(ls_event_file_graph(file, nodes, 3));
    assert_ok(ls_event_file_flush(file));
    size_t graph = size_of(path);
    assert_ok(ls_event_file_scalar(file, "epoch_loss", 0, 1));
    assert_ok(ls_event_file_close(file));
    assert_ok(ls_event_cut_files(folder, RUN, is_late, &step));
    ck_assert_uint_eq(size_of(path), graph);
    ck_assert_int_eq(truncate(path, (off_t)graph - 1), 0);
    assert_ok(ls_event_cut_files(folder, RUN, is_late, &step));
    ck_assert_uint_eq(size_of(path), begin);
    remove_folder();
}

TEST(torn_anywhere) {
    size_t sizes[6];
    char path[512];
    int64_t never = 100;
    make_folder();
    write_scalars(sizes);
    find_file(path);
    for (size_t size = sizes[5]; size-- > 0;) {
        int whole = 5;
        ck_assert_int_eq(truncate(path, (off_t)size), 0);
        while (whole && sizes[whole] > size) whole--;
        assert_ok(ls_event_cut_files(folder, RUN, is_late, &never));
        ck_assert_uint_eq(size_of(path), sizes[whole] <= size ? sizes[whole] : 0);
    }
    remove_folder();
}

/* A byte that has changed ends the file before its event. */
TEST(damaged_anywhere) {
    size_t sizes[6];
    char path[512];
    int64_t never = 100;
    make_folder();
    for (size_t place = 1;; place += 7) {
        write_scalars(sizes);
        find_file(path);
        if (place >= sizes[5]) break;
        FILE *file = fopen(path, "r+");
        ck_assert_int_eq(fseek(file, (long)place, SEEK_SET), 0);
        int byte = fgetc(file);
        ck_assert_int_eq(fseek(file, (long)place, SEEK_SET), 0);
        ck_assert_int_ne(fputc(byte ^ 16, file), EOF);
        ck_assert_int_eq(fclose(file), 0);
        int event = 5;
        while (event && sizes[event] > place) event--;
        assert_ok(ls_event_cut_files(folder, RUN, is_late, &never));
        ck_assert_uint_eq(size_of(path), sizes[event] > place ? 0 : sizes[event]);
        ck_assert_int_eq(unlink(path), 0);
    }
    remove_folder();
}

TEST(no_folder_has_nothing_to_cut) {
    int64_t never = 100;
    assert_ok(ls_event_cut_files("/tmp/lockstep-nowhere", RUN, is_late, &never));
    struct ls_event_file *file = NULL;
    assert_fails(ls_event_file_open("/tmp/lockstep-nowhere/below", RUN, &file), LS_NOT_FOUND,
                 "/tmp/lockstep-nowhere/below");
}

/* The numbers of the next line, behind its first two words. */
static int read_numbers(FILE *file, const char *word, double *numbers, int most) {
    char line[4096], *at = line;
    int count = 0;
    do ck_assert_msg(fgets(line, sizeof(line), file) != NULL, "no more %s", word);
    while (strncmp(line, word, strlen(word)) != 0);
    for (int i = 0; i < 2; i++) at += strcspn(at, " ") + 1;
    for (char *end; count < most; at = end) {
        double number = strtod(at, &end);
        if (end == at) break;
        numbers[count++] = number;
    }
    return count;
}

TEST(buckets_are_those_of_tensorflow) {
    double given[64], edges[64], counts[64], buckets[LS_HISTOGRAM_BUCKETS][3];
    float values[64];
    FILE *file = fopen(LS_GOLDEN_TENSORBOARD, "re");
    ck_assert_ptr_nonnull(file);
    for (int row = 0; row < 3; row++) {
        int count = read_numbers(file, "buckets", given, 64);
        for (int i = 0; i < count; i++) values[i] = (float)given[i];
        ck_assert_int_eq(read_numbers(file, "edges", edges, 64), LS_HISTOGRAM_BUCKETS + 1);
        ck_assert_int_eq(read_numbers(file, "counts", counts, 64), LS_HISTOGRAM_BUCKETS);
        ls_event_file_histogram_buckets(values, (size_t)count, buckets);
        for (int i = 0; i < LS_HISTOGRAM_BUCKETS; i++) {
            ck_assert_double_eq_tol(buckets[i][0], edges[i], 1e-14);
            ck_assert_double_eq_tol(buckets[i][1], edges[i + 1], 1e-14);
            ck_assert_double_eq(buckets[i][2], counts[i]);
        }
    }
    (void)fclose(file);
}

TEST(what_is_not_finite_is_left_out) {
    const float values[] = {1, -1.0F / 0.0F, 0.0F / 0.0F, 3, 1.0F / 0.0F};
    double buckets[LS_HISTOGRAM_BUCKETS][3], sum = 0;
    ls_event_file_histogram_buckets(values, 5, buckets);
    for (int i = 0; i < LS_HISTOGRAM_BUCKETS; i++) sum += buckets[i][2];
    ck_assert_double_eq(sum, 2);
    ck_assert_double_eq(buckets[0][0], 1);
    ck_assert_double_eq(buckets[LS_HISTOGRAM_BUCKETS - 1][1], 3);
    ls_event_file_histogram_buckets(values + 1, 2, buckets);
    ck_assert_double_eq(buckets[LS_HISTOGRAM_BUCKETS - 1][2], 0);
}

TESTS("events")
