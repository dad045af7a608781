/* A TFRecord file of any bytes: records that lie within it, or one error. */
#define _GNU_SOURCE
#include <stdio.h>
#include <stdlib.h>
#include <sys/mman.h>
#include <unistd.h>

#include "base/memory.h"
#include "data/record.h"
#include "fuzz/fuzz.h"

static void require(bool condition) {
    if (!condition) abort();
}

static void read_records(const char *path, bool tolerant, size_t most) {
    struct ls_record_file *file = NULL;
    char *broken = NULL, name[256];
    ls_status status = ls_record_file_open(path, tolerant, &file, &broken);
    require(!tolerant || status == LS_OK || status == LS_DATA_LOSS);
    if (status) require(status == LS_DATA_LOSS && !file && !broken);
    for (int64_t i = 0; file && i < ls_record_file_count(file); i++) {
        uint8_t *bytes = NULL;
        size_t size = 0;
        status = ls_record_file_read(file, i, &bytes, &size);
        require(status == LS_OK || (status == LS_DATA_LOSS && !bytes));
        require(size <= most);
        ls_record_file_name(file, i, name, sizeof(name));
        ls_free(bytes);
    }
    ls_free(broken);
    ls_record_file_free(file);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size) {
    char path[64];
    int fd = memfd_create("input", 0);
    require(fd >= 0 && write(fd, data, size) == (ssize_t)size);
    (void)snprintf(path, sizeof(path), "/proc/self/fd/%d", fd);
    read_records(path, false, 1032 * size);
    read_records(path, true, 1032 * size);
    (void)close(fd);
    return 0;
}
