/* A folder of checkpoints: the golden bytes, which are kept, every kind of damage, folders that will not do, and the
 * thread that writes. */
#include <stdio.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/clock.h"
#include "base/digest.h"
#include "checkpoint/fixture.h"
#include "checkpoint/writer.h"
#include "harness.h"

#define NAME "checkpoint-%012d.safetensors"

static const char *name_of(int step) {
    static char name[LS_CHECKPOINT_NAME];
    (void)snprintf(name, sizeof(name), NAME, step);
    return name;
}

/* The bytes are recorded: what is written today must be readable for ever. */
TEST(the_golden_file) {
    size_t size, golden_size;
    assert_ok(save_step(3, 1));
    uint8_t *bytes = read_bytes(name_of(3), &size);
    FILE *file = fopen(CHECKPOINT_GOLDEN, "rb");
    uint8_t *golden = malloc(1 << 16);
    ck_assert_msg(file && golden, "%s", CHECKPOINT_GOLDEN);
    golden_size = fread(golden, 1, 1 << 16, file);
    (void)fclose(file);
    ck_assert_uint_eq(size, golden_size);
    ck_assert_mem_eq(bytes, golden, size);
    write_bytes(name_of(3), golden, golden_size);
    ck_assert_int_eq(load_step(), 3);
    free(bytes);
    free(golden);
}

TEST(the_newest_are_kept) {
    ck_assert_int_eq(load_step(), 0);
    for (int step = 1; step <= 20; step++) {
        assert_ok(save_step(step, 3));
        ck_assert_int_eq(count_files("checkpoint-"), step < 3 ? step : 3);
        ck_assert_int_eq(load_step(), step);
    }
    assert_ok(save_step(1000000000000 - 1, 1));
    ck_assert_int_eq(count_files(""), 1);
    assert_ok(ls_checkpoint_folder_clear(folder_path()));
    ck_assert_int_eq(count_files(""), 0);
    ck_assert_int_eq(take_warnings(NULL), 0);
}

/* A newer file is there only where it is damaged: it must not push out the good ones. */
TEST(a_damaged_newer_file_keeps_nothing_out) {
    assert_ok(save_step(5, 1));
    write_bytes(name_of(9), "torn", 4);
    for (int step = 6; step < 9; step++) {
        assert_ok(save_step(step, 1));
        ck_assert_int_eq(load_step(), step);
        ck_assert_int_eq(count_files(""), 2);
    }
    assert_ok(save_step(9, 1));
    ck_assert_int_eq(load_step(), 9);
    ck_assert_int_eq(count_files(""), 2);
    ck_assert_int_eq(count_files("damaged-checkpoint-000000000009.safetensors"), 1);
    assert_ok(ls_checkpoint_folder_clear(folder_path()));
    ck_assert_int_eq(count_files(""), 1); /* it is the user's to remove */
}

TEST(other_files_are_left_alone) {
    static const char *const others[] = {"notes.txt",
                                         "checkpoint-1.safetensors",
                                         "checkpoint-000000000007.safetensors~",
                                         "checkpoint-00000000000x.safetensors",
                                         "checkpoint--00000000001.safetensors",
                                         "checkpoint-9999999999999.safetensors",
                                         "xcheckpoint-000000000001.safetensors"};
    size_t count = sizeof(others) / sizeof(others[0]);
    for (size_t i = 0; i < count; i++) write_bytes(others[i], "x", 1);
    ck_assert_int_eq(load_step(), 0);
    assert_ok(save_step(1, 1));
    assert_ok(save_step(2, 1));
    ck_assert_int_eq(load_step(), 2);
    assert_ok(ls_checkpoint_folder_clear(folder_path()));
    ck_assert_int_eq(count_files(""), (int)count);
}

/* Damages checkpoint 2, and expects one warning that names it and checkpoint 1. */
static void expect_older(const uint8_t *bytes, size_t size) {
    char warning[1200];
    write_bytes(name_of(2), bytes, size);
    ck_assert_int_eq(load_step(), 1);
    ck_assert_int_eq(take_warnings(warning), 1);
    ck_assert_msg(strstr(warning, path_in(name_of(2))) && strstr(warning, "damaged"), "%s", warning);
}

TEST(every_changed_byte_is_found) {
    size_t size;
    assert_ok(save_step(1, 2));
    assert_ok(save_step(2, 2));
    uint8_t *bytes = read_bytes(name_of(2), &size);
    for (size_t i = 0; i < size; i++)
        for (int bit = (int)i % 3; bit < 8; bit += 3) {
            bytes[i] ^= (uint8_t)(1U << bit);
            expect_older(bytes, size);
            bytes[i] ^= (uint8_t)(1U << bit);
        }
    write_bytes(name_of(2), bytes, size);
    ck_assert_int_eq(load_step(), 2);
    free(bytes);
}

TEST(every_truncation_is_found) {
    size_t size;
    assert_ok(save_step(1, 2));
    assert_ok(save_step(2, 2));
    uint8_t *bytes = read_bytes(name_of(2), &size);
    for (size_t length = 0; length < size; length++) expect_older(bytes, length);
    bytes[size] = 0;
    expect_older(bytes, size + 1);
    for (size_t from = 0; from < size; from += 64) { /* blocks that never reached the disk */
        uint8_t block[64];
        size_t length = size - from < 64 ? size - from : 64;
        memcpy(block, bytes + from, length);
        memset(bytes + from, 0, length);
        expect_older(bytes, size);
        memcpy(bytes + from, block, length);
    }
    free(bytes);
}

TEST(all_damaged_is_none) {
    for (int step = 1; step <= 3; step++) write_bytes(name_of(step), "torn", 4);
    ck_assert_int_eq(mkdir(path_in(name_of(4)), 0700), 0);
    ck_assert_int_eq(load_step(), 0);
    ck_assert_int_eq(take_warnings(NULL), 4);
    ck_assert_int_eq(count_files("damaged-checkpoint-"), 4);
    assert_ok(save_step(4, 1));
    ck_assert_int_eq(load_step(), 4);
    ck_assert_int_eq(rmdir(path_in("damaged-checkpoint-000000000004.safetensors")), 0);
}

TEST(a_folder_in_its_place_makes_way) {
    assert_ok(save_step(1, 2));
    ck_assert_int_eq(mkdir(path_in(name_of(2)), 0700), 0);
    assert_ok(save_step(2, 2));
    ck_assert_int_eq(load_step(), 2);
    ck_assert_int_eq(take_warnings(NULL), 0);
    ck_assert_int_eq(rmdir(path_in("damaged-checkpoint-000000000002.safetensors")), 0);
}

/* One that was frozen before it wrote, and wakes while its successor writes the same step. */
TEST(who_wakes_late_touches_nothing) {
    static const struct ls_log silent = {.level = LS_LOG_ERROR};
    struct ls_folder_lock *old = NULL, *new = NULL;
    size_t size;
    assert_ok(ls_folder_lock_take(folder_path(), 5, &silent, &old));
    assert_ok(ls_folder_lock_take(folder_path(), 5, &silent, &new));
    write_bytes(".checkpoint-000000000002.safetensors", "being written", 13);
    ck_assert_int_eq(ls_checkpoint_folder_save(folder_path(), old, checkpoint_of(2), 1), LS_FAILED_PRECONDITION);
    uint8_t *bytes = read_bytes(".checkpoint-000000000002.safetensors", &size);
    ck_assert_uint_eq(size, 13);
    free(bytes);
    ck_assert_int_eq(count_files(".checkpoint-"), 1);
    ck_assert_int_eq(count_files("checkpoint-"), 0);
    ls_folder_lock_free(old);
    ls_folder_lock_free(new);
    assert_ok(ls_checkpoint_folder_check(folder_path()));
}

/* Whole, but of another version: that is no damage, so no older one is taken silently. */
TEST(another_version_is_an_error) {
    struct ls_safetensors_text texts[] = {{"format", "lockstep checkpoint"}, {"version", "9"}};
    struct ls_safetensor tensors[] = {{.name = LS_CHECKPOINT_DIGEST, .type = "U8", .shape = LS_SHAPE(64)}};
    struct ls_safetensors file = {.texts = texts, .text_count = 2, .tensors = tensors, .tensor_count = 1};
    char *header = NULL, hex[65];
    int64_t step;
    uint8_t bytes[1024];
    assert_ok(ls_safetensors_header(&file, &header));
    memcpy(bytes, header, file.data);
    assert_ok(ls_digest_sha256(header, file.data, hex));
    memcpy(bytes + file.data, hex, 64);
    assert_ok(save_step(1, 2));
    write_bytes(name_of(2), bytes, file.data + 64);
    ck_assert_int_eq(try_load(&step), LS_INVALID_ARGUMENT);
    ck_assert_msg(strstr(ls_error(), name_of(2)) && strstr(ls_error(), "version is '9'"), "%s", ls_error());
    free(header);
}

TEST(folders_that_will_not_do_are_named) {
    char path[512];
    (void)snprintf(path, sizeof(path), "%s", path_in("none"));
    ck_assert_int_eq(ls_checkpoint_folder_check(path), LS_NOT_FOUND);
    ck_assert_msg(strstr(ls_error(), path) && strstr(ls_error(), "No such file or directory"), "%s", ls_error());
    assert_fails(ls_checkpoint_folder_save(path, NULL, checkpoint_of(1), 1), LS_NOT_FOUND, path);
    ck_assert_int_eq(ls_checkpoint_folder_clear(path), LS_NOT_FOUND);
    write_bytes("none", "x", 1);
    assert_fails(ls_checkpoint_folder_check(path), LS_NOT_FOUND, "Not a directory");
}

TEST(what_a_killed_writer_left_is_removed) {
    write_bytes(".checkpoint-000000000004.safetensors", "half", 4);
    write_bytes(".checkpoint-probe", "", 0);
    ck_assert_int_eq(load_step(), 0);
    assert_ok(ls_checkpoint_folder_check(folder_path()));
    ck_assert_int_eq(count_files(""), 0);
}

TEST(the_thread_writes) {
    struct ls_writer *writer = NULL;
    bool written = true;
    assert_ok(ls_writer_new(folder_path(), 2, &writer));
    ck_assert(ls_writer_idle(writer));
    assert_ok(ls_writer_result(writer, &written));
    ck_assert(!written);
    for (int step = 1; step <= 5; step++) {
        ls_writer_submit(writer, checkpoint_of(step), NULL);
        ck_assert(ls_writer_wait(writer, ls_deadline_in(30)));
        assert_ok(ls_writer_result(writer, &written));
        ck_assert(written);
        ck_assert_int_eq(load_step(), step);
    }
    ls_writer_submit(writer, checkpoint_of(6), NULL); /* what is submitted is written, also at the end */
    ck_assert(ls_writer_free(writer, ls_deadline_in(30)));
    ck_assert_int_eq(load_step(), 6);
}

TEST(the_threads_error_is_told_once) {
    struct ls_writer *writer = NULL;
    bool written = true;
    assert_ok(ls_writer_new("/nowhere/at/all", 2, &writer));
    ls_writer_submit(writer, checkpoint_of(1), NULL);
    ck_assert(ls_writer_wait(writer, ls_deadline_in(30)));
    assert_fails(ls_writer_result(writer, &written), LS_NOT_FOUND, "/nowhere/at/all");
    ck_assert(!written);
    assert_ok(ls_writer_result(writer, &written));
    ck_assert(ls_writer_free(writer, ls_deadline_in(30)));
}

TESTS("folder", .seconds = 120, .before = folder_make, .after = folder_remove)
