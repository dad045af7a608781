/* Fixture of the tests of data: a folder of files written by the test, and small datasets. */
#pragma once
#include <lockstep/lockstep.h>

#include "harness.h"

/* Unchecked fixtures of a test case: the folder is made before and removed after, whatever becomes of the tests. */
void folder_make(void);
void folder_remove(void);
const char *folder_path(void);
/* Removes all files and folders in it. Each test begins with it. */
void folder_clear(void);
void folder_make_inside(const char *name);
/* Writes a file into the folder, gzipped if asked. */
void folder_write(const char *name, const void *bytes, size_t size, bool gzipped);
/* Writes only the first so many bytes of a file that is there. */
void folder_truncate(const char *name, size_t size);

/* An IDX file in memory of unsigned bytes, freed with ls_free: element i is values[i], or i modulo modulus for NULL. */
uint8_t *idx_make(int rank, const uint32_t *dims, const uint8_t *values, int modulus, size_t *size);
/* Writes count images of rows x columns and their labels (i modulo 10) under the names of a split. */
void idx_write_split(const char *split, uint32_t count, uint32_t rows, uint32_t columns, bool gzipped);
/* Writes a CIFAR-10 file of records whose label is (first + record) modulo 10 and pixel p of plane c is record + c + p.
 */
void cifar10_write(const char *name, int records, int first, bool gzipped);

/* A dataset of count examples of shape (1), example i being the number i with label i modulo 7. */
ls_dataset *numbers_make(int64_t count, const ls_dataset_options *options);
/* As ck_assert, without its cost: for inner loops. */
#define require(condition)                                                                                             \
    do {                                                                                                               \
        if (!(condition)) ck_abort_msg("%s", #condition);                                                              \
    } while (0)
