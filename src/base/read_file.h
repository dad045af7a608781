/* Reading files. A call that fails says nothing of what a file holds: its error has errno's status, and names the path
 * and what to do. DATA_LOSS is left for a file that ends too soon. A call that was interrupted is made again. */
#pragma once
#include <lockstep/lockstep.h>
#include <stdint.h>
#include <stdio.h>

/* Right after a call has failed: "cannot DOING 'PATH': ...". */
ls_status ls_read_file_fail(const char *doing, const char *path);
/* Reads size bytes from offset. DATA_LOSS: the file ends before. */
ls_status ls_read_file_at(int fd, const char *path, uint64_t offset, void *bytes, size_t size);
/* Reads the first most bytes of a file, or all. *text is freed with ls_free; a zero follows its *size bytes. The user
 * has given the path, by a setting unless that is NULL: INVALID_ARGUMENT where it leads to no file that may be read. */
ls_status ls_read_file_given(const char *setting, const char *path, size_t most, char **text, size_t *size);

/* For LS_CLEANUP; less than 0 is none. */
void ls_read_file_close(const int *fd);
