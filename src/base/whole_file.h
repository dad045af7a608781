/* A file that is there whole, or as it was: written beside its place under a hidden name that no other process has, and
 * moved there when it is on the disk. A link's place is its target. A device is written in place, since it is no file.
 * Messages name the path, or its place. The next writer removes the files that a killed writer left beside a place. */
#pragma once
#include <lockstep/lockstep.h>
#include <stdio.h>

/* A file or folder that is not whole yet. */
struct ls_whole_file_partial {
    char *path; /* owns: for a place "a/b" ".b.0123456789abcdef" in a; NULL without one */
    int fd; /* open, and locked if the folder takes locks, so that a killed writer's file is told from a present one */
};
/* Makes one beside place. Removes first those that killed processes left there. */
ls_status ls_whole_file_partial_new(const char *place, bool folder, struct ls_whole_file_partial *partial);
/* Removes it with all that is in it, unless it was renamed. */
void ls_whole_file_partial_free(struct ls_whole_file_partial *partial);
/* Makes the renames in a place's folder outlive a loss of power. */
ls_status ls_whole_file_sync_folder(const char *place);

struct ls_whole_file {
    FILE *out;
    char *path, *place;                   /* own */
    struct ls_whole_file_partial partial; /* none: out is the place itself */
};
/* Checks that path can be written now. An error tells the cause: NOT_FOUND, PERMISSION_DENIED, RESOURCE_EXHAUSTED, ...
 * Leaves nothing behind. */
ls_status ls_whole_file_try(const char *path);
ls_status ls_whole_file_open(const char *path, struct ls_whole_file *file);
/* The error of a failed write to out; errno tells the cause. */
ls_status ls_whole_file_fail(const struct ls_whole_file *file);
/* Brings all that was written to the disk. */
ls_status ls_whole_file_sync(const struct ls_whole_file *file);
/* Ends the file. With LS_OK it is flushed to the disk and takes its place; otherwise it is removed. Returns status, or
 * the error of the end. */
ls_status ls_whole_file_close(struct ls_whole_file *file, ls_status status);
