/* A reader of golden files, for tests only: it stops the test at the first thing that is not as recorded. */
#include "golden/golden.h"

#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/shape.h"
#include "harness.h"

#define MAX_TENSORS 512

struct golden {
    const char *file;
    struct golden_tensor tensors[MAX_TENSORS];
    int count;
};

static void skip_comments(FILE *file) {
    int c;
    while ((c = fgetc(file)) == '#' || c == '\n')
        while (c != '\n' && c != EOF) c = fgetc(file);
    if (c != EOF) (void)ungetc(c, file);
}

static void read_shape(FILE *file, ls_shape *shape) {
    ck_assert_int_eq(fscanf(file, "%d", &shape->rank), 1);
    ck_assert_int_le(shape->rank, LS_MAX_RANK);
    for (int i = 0; i < shape->rank; i++) {
        long long extent;
        ck_assert_int_eq(fscanf(file, "%lld", &extent), 1);
        shape->dims[i] = extent;
    }
}

static bool read_tensor(FILE *file, struct golden_tensor *tensor) {
    int found = fscanf(file, " tensor %63s", tensor->name);
    if (found == EOF) return false;
    ck_assert_int_eq(found, 1);
    read_shape(file, &tensor->shape);
    tensor->count = ls_shape_count(&tensor->shape);
    ck_assert_int_ge(tensor->count, 1);
    tensor->values = calloc((size_t)tensor->count, sizeof(float));
    ck_assert_ptr_nonnull(tensor->values);
    for (int64_t i = 0; i < tensor->count; i++) ck_assert_int_eq(fscanf(file, "%f", &tensor->values[i]), 1);
    return true;
}

struct golden *golden_open(const char *name) {
    char path[4096];
    struct golden *golden = calloc(1, sizeof(*golden));
    ck_assert_ptr_nonnull(golden);
    const char *folder =
        getenv("LOCKSTEP_TEST_GOLDEN"); /* where the tests run on another machine than they were built on */
    (void)snprintf(path, sizeof(path), "%s/%s", folder ? folder : GOLDEN_FOLDER, name);
    FILE *file = fopen(path, "r");
    ck_assert_msg(file != NULL, "cannot open %s", path);
    golden->file = name;
    skip_comments(file);
    while (golden->count < MAX_TENSORS && read_tensor(file, &golden->tensors[golden->count])) golden->count++;
    ck_assert_msg(feof(file), "%s has too many tensors", path);
    (void)fclose(file);
    return golden;
}

const struct golden_tensor *golden_find(const struct golden *golden, const char *format, ...) {
    char name[64];
    va_list arguments;
    va_start(arguments, format);
    (void)vsnprintf(name, sizeof(name), format, arguments);
    va_end(arguments);
    for (int i = 0; i < golden->count; i++)
        if (!strcmp(golden->tensors[i].name, name)) return &golden->tensors[i];
    ck_abort_msg("%s has no tensor %s", golden->file, name);
}

void golden_close(struct golden *golden) {
    for (int i = 0; i < golden->count; i++) free(golden->tensors[i].values);
    free(golden);
}
