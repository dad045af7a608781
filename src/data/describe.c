/* What is said about a dataset for comparison between workers: options, and a digest of some examples. */
#include <stdio.h>
#include <string.h>

#include "base/digest.h"
#include "base/dtype.h"
#include "base/memory.h"
#include "base/status.h"
#include "data/dataset.h"

#define SAMPLES 16 /* examples looked into */

/* Adds example index to a digest. */
static ls_status digest_example(const ls_dataset *dataset, int64_t index, float *features, struct ls_digest *digest) {
    int32_t label;
    ls_status status = dataset->source->ops->read(dataset->source, index, features, &label);
    if (status) return status;
    ls_digest_add(digest, features, (size_t)ls_shape_count(&dataset->source->shape) * sizeof(*features));
    ls_digest_add(digest, &label, sizeof(label));
    return LS_OK;
}

static void free_digest(struct ls_digest **digest) {
    ls_digest_free(*digest);
}

/* A digest of a few examples spread over the dataset: finds workers that read different files. */
static ls_status digest_samples(const ls_dataset *dataset, char hex[65]) {
    size_t bytes = (size_t)ls_shape_count(&dataset->source->shape) * sizeof(float);
    LS_CLEANUP(ls_free_pointer) float *features = ls_alloc(bytes);
    LS_CLEANUP(free_digest) struct ls_digest *digest = NULL;
    if (!features) return ls_fail_memory("an example", bytes);
    ls_status status = ls_digest_new(&digest);
    for (int64_t i = 0; i < SAMPLES && !status; i++)
        status =
            digest_example(dataset, dataset->options.skip + (dataset->count - 1) * i / (SAMPLES - 1), features, digest);
    return status ? status : ls_digest_hex(digest, hex);
}

ls_status ls_dataset_describe(const ls_dataset *dataset, char **lines) {
    const ls_dataset_options *options = &dataset->options;
    /* Without sharding each worker may bring its own examples, but as many as the others. */
    char digest[65] = "any", shape[128], maps[1024], text[3072];
    bool own_data = options->division == LS_DIVIDE_TENSORFLOW && options->auto_shard == LS_SHARD_OFF;
    ls_status status = own_data ? LS_OK : digest_samples(dataset, digest);
    if (status) return status;
    ls_shape_text(&dataset->shape, shape, sizeof(shape));
    ls_maps_text(&dataset->maps, maps, sizeof(maps));
    (void)snprintf(
        text, sizeof(text),
        "dataset=%s\nexamples=%lld\nshape=%s\nclasses=%d\nsample_sha256=%s\nbatch_size=%lld\nsplit=%d\n"
        "shuffle=%d\nseed=%llu\nrepeat=%lld\ndrop_remainder=%d\ndivision=%d\nauto_shard=%d\nshard_hint=%d\nskip=%"
        "lld\nshuffle_buffer=%lld\ninterleave=%lld\nblock_length=%lld\nmaps=%s\n",
        dataset->source->kind, (long long)dataset->count, shape, dataset->source->classes, digest,
        (long long)options->batch_size, (int)options->split, (int)options->shuffle, (unsigned long long)options->seed,
        (long long)options->repeat, options->drop_remainder, (int)options->division, (int)options->auto_shard,
        (int)options->shard_hint, (long long)options->skip, (long long)options->shuffle_buffer,
        (long long)options->interleave, (long long)options->block_length, maps);
    char *copy = ls_strdup(text);
    if (!copy) return ls_fail_memory("the description of a dataset", strlen(text));
    *lines = copy;
    return LS_OK;
}
