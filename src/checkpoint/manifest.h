/* The manifest of a checkpoint: fields beside the variables, as texts in the file's metadata. The caller gives the
 * record that holds the fields, and the table that names them. */
#pragma once
#include <lockstep/lockstep.h>

#include "checkpoint/safetensors.h"

#define LS_MANIFEST_TEXTS 48  /* at most so many */
#define LS_MANIFEST_WIDTH 160 /* characters of a number, or of LS_MAX_METRICS numbers */

enum ls_manifest_type {
    LS_MANIFEST_INTEGER,  /* int64_t, not negative */
    LS_MANIFEST_UNSIGNED, /* uint64_t */
    LS_MANIFEST_NUMBER,   /* double; as its bits, which every locale reads alike */
    LS_MANIFEST_FLOAT,    /* float; the text is that of a double, and so it is of the next two */
    LS_MANIFEST_COUNT,    /* int64_t, not negative */
    LS_MANIFEST_FLAG,     /* bool */
    LS_MANIFEST_METRICS,  /* double[LS_MAX_METRICS] */
    LS_MANIFEST_TEXT      /* const char * */
};
enum ls_manifest_use {
    LS_MANIFEST_ALWAYS,
    LS_MANIFEST_UNLESS_ZERO, /* left out where all bits are 0, or where there is no text */
    LS_MANIFEST_NEVER        /* the field is in no checkpoint */
};
struct ls_manifest_field {
    const char *name;
    enum ls_manifest_type type;
    enum ls_manifest_use use;
    unsigned part; /* means something to the owner of the table alone */
    size_t offset; /* in the record */
};
/* A record with its table. Borrows both. */
struct ls_manifest {
    const struct ls_manifest_field *fields;
    size_t count;
    void *record;
};
/* The numbers' texts are kept in numbers. */
struct ls_manifest_texts {
    struct ls_safetensors_text texts[LS_MANIFEST_TEXTS];
    char numbers[LS_MANIFEST_TEXTS][LS_MANIFEST_WIDTH];
    size_t count;
};
void ls_manifest_write(const struct ls_manifest *manifest, struct ls_manifest_texts *to);
/* INVALID_ARGUMENT if the file is no checkpoint of this version. */
ls_status ls_manifest_check(const struct ls_safetensors *file);
/* Into the record, whose texts are borrowed from file; a field that is left out becomes 0, one that is in no checkpoint
 * stays. INVALID_ARGUMENT if one is missing or no number: the record is as it was. */
ls_status ls_manifest_read(const struct ls_safetensors *file, const struct ls_manifest *manifest);
/* LS_OK if both are the same lines, else FAILED_PRECONDITION naming the first that differs, with both values. */
ls_status ls_manifest_compare(const char *there, const char *here);
