/* The folder is one of the process: Check runs each test in a child of it. */
#include "data/fixture.h"

#include <dirent.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>
#include <zlib.h>

#include "base/memory.h"
#include "data/sources.h"

static char folder[64];

void folder_make(void) {
    (void)snprintf(folder, sizeof(folder), "/tmp/lockstep-data-XXXXXX");
    ck_assert_ptr_nonnull(mkdtemp(folder));
}

/* Removes what is in a folder, folders too. */
static void clear(const char *from) {
    DIR *open = opendir(from);
    ck_assert_ptr_nonnull(open);
    for (struct dirent *entry; (entry = readdir(open));) {
        char path[1024];
        (void)snprintf(path, sizeof(path), "%s/%s", from, entry->d_name);
        if (entry->d_name[0] == '.') continue;
        if (entry->d_type == DT_DIR) clear(path);
        ck_assert_int_eq(remove(path), 0);
    }
    (void)closedir(open);
}

void folder_clear(void) {
    clear(folder);
}

void folder_make_inside(const char *name) {
    char path[512];
    (void)snprintf(path, sizeof(path), "%s/%s", folder, name);
    ck_assert_int_eq(mkdir(path, 0777), 0);
}

void folder_remove(void) {
    folder_clear();
    ck_assert_int_eq(rmdir(folder), 0);
}

const char *folder_path(void) {
    return folder;
}

void folder_write(const char *name, const void *bytes, size_t size, bool gzipped) {
    char path[512];
    (void)snprintf(path, sizeof(path), "%s/%s", folder, name);
    gzFile file = gzopen(path, gzipped ? "wb" : "wbT");
    ck_assert_ptr_nonnull(file);
    ck_assert(gzwrite(file, bytes, (unsigned)size) == (int)size);
    ck_assert_int_eq(gzclose(file), Z_OK);
}

void folder_truncate(const char *name, size_t size) {
    char path[512];
    (void)snprintf(path, sizeof(path), "%s/%s", folder, name);
    ck_assert_int_eq(truncate(path, (off_t)size), 0);
}

uint8_t *idx_make(int rank, const uint32_t *dims, const uint8_t *values, int modulus, size_t *size) {
    size_t count = 1, header = 4 + 4 * (size_t)rank;
    for (int i = 0; i < rank; i++) count *= dims[i];
    uint8_t *bytes = ls_alloc(header + count);
    ck_assert_ptr_nonnull(bytes);
    bytes[2] = 0x08;
    bytes[3] = (uint8_t)rank;
    for (int i = 0; i < rank; i++)
        for (int j = 0; j < 4; j++) bytes[4 + 4 * i + j] = (uint8_t)(dims[i] >> (24 - 8 * j));
    for (size_t i = 0; i < count; i++) bytes[header + i] = (uint8_t)(values ? values[i] : i % (size_t)modulus);
    *size = header + count;
    return bytes;
}

void idx_write_split(const char *split, uint32_t count, uint32_t rows, uint32_t columns, bool gzipped) {
    char name[64];
    size_t size;
    uint8_t *images = idx_make(3, (uint32_t[]){count, rows, columns}, NULL, 256, &size);
    (void)snprintf(name, sizeof(name), "%s-images-idx3-ubyte%s", split, gzipped ? ".gz" : "");
    folder_write(name, images, size, gzipped);
    ls_free(images);
    uint8_t *labels = idx_make(1, (uint32_t[]){count}, NULL, 10, &size);
    (void)snprintf(name, sizeof(name), "%s-labels-idx1-ubyte%s", split, gzipped ? ".gz" : "");
    folder_write(name, labels, size, gzipped);
    ls_free(labels);
}

void cifar10_write(const char *name, int records, int first, bool gzipped) {
    size_t size = (size_t)records * LS_CIFAR10_RECORD;
    uint8_t *bytes = ls_alloc(size);
    ck_assert_ptr_nonnull(bytes);
    for (int i = 0; i < records; i++) {
        uint8_t *record = bytes + i * LS_CIFAR10_RECORD;
        record[0] = (uint8_t)((first + i) % 10);
        for (int c = 0; c < 3; c++)
            for (int p = 0; p < LS_CIFAR10_PIXELS; p++) record[1 + c * LS_CIFAR10_PIXELS + p] = (uint8_t)(i + c + p);
    }
    folder_write(name, bytes, size, gzipped);
    ls_free(bytes);
}

ls_dataset *numbers_make(int64_t count, const ls_dataset_options *options) {
    static float features[100000]; /* borrowed by the dataset; of this test's process */
    static int32_t labels[100000];
    ck_assert(count <= 100000);
    for (int64_t i = 0; i < count; i++) features[i] = (float)i, labels[i] = (int32_t)(i % 7);
    ls_dataset *dataset;
    assert_ok(ls_dataset_arrays(features, LS_SHAPE(1), labels, count, 7, options, &dataset));
    return dataset;
}
