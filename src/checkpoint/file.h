/* One checkpoint as one safetensors file. Its last tensor, "lockstep.sha256", holds the 64 hex digits of the SHA-256 of
 * all bytes before them: of the header with the manifest, and of the data. So a file that was torn or has changed is
 * recognised, and the file is written in one pass. */
#pragma once
#include <lockstep/lockstep.h>

#include "checkpoint/manifest.h"

#define LS_CHECKPOINT_DIGEST "lockstep.sha256"

struct ls_checkpoint_tensor {
    const char *name;
    ls_shape shape;
    const float *data;
};
struct ls_checkpoint {
    int64_t step; /* names the file */
    struct ls_manifest manifest;
    const struct ls_checkpoint_tensor *tensors;
    size_t count;
};
/* Writes all bytes to a descriptor. The status tells the kind of a failure, the message its cause alone. */
ls_status ls_checkpoint_file_put(const struct ls_checkpoint *checkpoint, int fd);

/* A checkpoint in memory. */
struct ls_loaded {
    uint8_t *bytes;
    struct ls_safetensors file;
};
/* Takes bytes of ls_alloc, which are freed on failure too. DATA_LOSS for damaged bytes. INVALID_ARGUMENT for whole ones
 * that are no checkpoint of this version. The message is the cause alone. */
ls_status ls_checkpoint_file_load(uint8_t *bytes, size_t size, struct ls_loaded *loaded);
void ls_checkpoint_file_free_loaded(struct ls_loaded *loaded);
/* The bytes of a float32 tensor. INVALID_ARGUMENT without one of that name and shape. */
ls_status ls_checkpoint_file_find(const struct ls_loaded *loaded, const char *name, const ls_shape *shape,
                                  const void **data);
