/* Folders and checkpoints for tests. */
#include "checkpoint/fixture.h"

#include <dirent.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "harness.h"
#include "train/training_progress.h"

#define TRAINING "model=\"m\"\nrate=0.5\n"

static char folder[64], warning[1200];
static int warnings;

const char *folder_path(void) {
    return folder;
}

const char *path_in(const char *name) {
    static char path[512];
    (void)snprintf(path, sizeof(path), "%s/%s", folder, name);
    return path;
}

static int walk(const char *prefix, bool removing) {
    int count = 0;
    DIR *names = opendir(folder);
    ck_assert_ptr_nonnull(names);
    for (const struct dirent *entry; (entry = readdir(names));) {
        if (!strcmp(entry->d_name, ".") || !strcmp(entry->d_name, "..")) continue;
        if (strncmp(entry->d_name, prefix, strlen(prefix)) != 0) continue;
        if (removing) ck_assert_int_eq(unlink(path_in(entry->d_name)), 0);
        count++;
    }
    (void)closedir(names);
    return count;
}

int count_files(const char *prefix) {
    return walk(prefix, false);
}

void folder_make(void) {
    (void)snprintf(folder, sizeof(folder), "/tmp/lockstep-checkpoint-XXXXXX");
    ck_assert_ptr_nonnull(mkdtemp(folder));
}

void folder_remove(void) {
    (void)walk("", true);
    ck_assert_int_eq(rmdir(folder), 0);
}

const struct ls_checkpoint *checkpoint_of(int64_t step) {
    static float kernel[KERNEL], bias[3];
    static const struct ls_checkpoint_tensor tensors[] = {{"dense/kernel", LS_SHAPE(2, 3), kernel},
                                                          {"dense/bias", LS_SHAPE(3), bias}};
    static struct ls_training_progress progress;
    static struct ls_checkpoint checkpoint;
    for (int i = 0; i < KERNEL; i++) kernel[i] = (float)step + (float)i / 8;
    for (int i = 0; i < 3; i++) bias[i] = -(float)step * (float)i;
    progress = (struct ls_training_progress){
        .step = step,
        .fit = {.position = step,
                .generations = 1,
                .sums.loss = 0.1,
                .result = {.loss = 0.25, .accuracy = 0.5, .val_loss = NAN, .val_accuracy = NAN}},
        .facts = {.steps_per_epoch = 10, .seed = 7, .description = TRAINING, .bits = "device=cpu\n"},
    };
    checkpoint = (struct ls_checkpoint){
        .step = step,
        .manifest = ls_training_progress_manifest(&progress),
        .tensors = tensors,
        .count = 2,
    };
    return &checkpoint;
}

ls_status save_step(int64_t step, int keep) {
    return ls_checkpoint_folder_save(folder, NULL, checkpoint_of(step), keep);
}

static void hear(void *context, ls_log_level level, const char *line) {
    (void)context;
    if (level > LS_LOG_WARNING) return;
    (void)snprintf(warning, sizeof(warning), "%s", line);
    warnings++;
}

int take_warnings(char text[1200]) {
    int taken = warnings;
    if (text) memcpy(text, warning, sizeof(warning));
    warnings = 0;
    return taken;
}

/* Checks that checkpoint_of made the loaded checkpoint for its step, which is returned. */
static int64_t check_loaded(const struct ls_loaded *loaded) {
    struct ls_training_progress progress = {0};
    const struct ls_manifest manifest = ls_training_progress_manifest(&progress);
    assert_ok(ls_manifest_read(&loaded->file, &manifest));
    const struct ls_checkpoint *want = checkpoint_of(progress.step);
    ck_assert_uint_eq(loaded->file.tensor_count, want->count + 1);
    for (size_t i = 0; i < want->count; i++) {
        const struct ls_checkpoint_tensor *tensor = &want->tensors[i];
        const void *data = NULL;
        assert_ok(ls_checkpoint_file_find(loaded, tensor->name, &tensor->shape, &data));
        ck_assert_mem_eq(data, tensor->data, (i ? 3 : KERNEL) * sizeof(float));
    }
    ck_assert_str_eq(progress.facts.description, TRAINING);
    return progress.step;
}

ls_status try_load(int64_t *step) {
    const struct ls_log log = {.sink = hear, .level = LS_LOG_WARNING};
    struct ls_loaded loaded = {0};
    char name[LS_CHECKPOINT_NAME];
    ls_status status = ls_checkpoint_folder_load(folder, &log, &loaded, name);
    *step = 0;
    if (status || !name[0]) return status;
    *step = check_loaded(&loaded);
    ls_checkpoint_file_free_loaded(&loaded);
    return LS_OK;
}

int64_t load_step(void) {
    int64_t step;
    ls_status status = try_load(&step);
    assert_ok(status);
    return step;
}

uint8_t *read_bytes(const char *name, size_t *size) {
    FILE *file = fopen(path_in(name), "rb");
    uint8_t *bytes = malloc(1 << 16);
    ck_assert(file && bytes);
    *size = fread(bytes, 1, 1 << 16, file);
    ck_assert(feof(file));
    (void)fclose(file);
    return bytes;
}

void write_bytes(const char *name, const void *bytes, size_t size) {
    FILE *file = fopen(path_in(name), "wb");
    ck_assert_ptr_nonnull(file);
    ck_assert_uint_eq(fwrite(bytes, 1, size, file), size);
    ck_assert_int_eq(fclose(file), 0);
}
