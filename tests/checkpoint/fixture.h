/* Fixture of the tests of checkpoints: an empty folder, and checkpoints whose bytes are a function of their step. */
#pragma once
#include "checkpoint/folder.h"

#define KERNEL 6 /* elements of the tensor "dense/kernel", (2, 3) */

/* For tcase_add_*_fixture. */
void folder_make(void);
void folder_remove(void);
const char *folder_path(void);
/* Valid until the next call. */
const char *path_in(const char *name);
/* Names in the folder that begin so. */
int count_files(const char *prefix);

/* Valid until the next call. */
const struct ls_checkpoint *checkpoint_of(int64_t step);
ls_status save_step(int64_t step, int keep);
/* The step of the newest whole checkpoint after checking all that it says; 0: there is none. */
int64_t load_step(void);
/* As load_step, without looking at the status. */
ls_status try_load(int64_t *step);
/* The last warning that a load gave, and how many there were since the last call. */
int take_warnings(char text[1200]);

uint8_t *read_bytes(const char *name, size_t *size);
void write_bytes(const char *name, const void *bytes, size_t size);
