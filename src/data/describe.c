/* Describes a dataset for comparison between workers: options, and a digest of some examples. */
#include "data/dataset.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/digest.h"
#include "base/shape.h"
#include "base/memory.h"
#include "base/text.h"
#include "base/plain.h"
#include "data/role.h"

#define SAMPLES      16                  /* examples looked into, */
#define SAMPLE_BYTES ((int64_t)16 << 20) /* and as many as have so much together where they are in memory */

/* Room for one. */
struct example {
    float *features;           /* owns */
    struct ls_targets targets; /* owns */
};

static void free_example(struct example *example) {
    ls_free(example->features);
    ls_targets_free(&example->targets);
}

/* Adds example index to a digest. */
static ls_status digest_example(const ls_dataset *dataset, int64_t index, const struct example *example,
                                struct ls_digest *digest) {
    const struct ls_source *source = dataset->source;
    const struct ls_targets *targets = &example->targets;
    size_t width = (size_t)ls_target_width(&source->targets);
    ls_status status = ls_dataset_read_source(dataset, index, example->features, targets);
    if (status) return status;
    ls_digest_add(digest, example->features, (size_t)ls_shape_count(&source->shape) * sizeof(*example->features));
    if (targets->labels) ls_digest_add(digest, targets->labels, width * sizeof(*targets->labels));
    if (targets->numbers) ls_digest_add(digest, targets->numbers, width * sizeof(*targets->numbers));
    if (targets->weights) ls_digest_add(digest, targets->weights, sizeof(*targets->weights));
    return LS_OK;
}

LS_CLEANER(free_digest, struct ls_digest *, ls_digest_free);

static int64_t count_samples(const ls_dataset *dataset) {
    int64_t bytes = ls_shape_count(&dataset->source->shape) * (int64_t)sizeof(float);
    int64_t most = dataset->source->in_memory ? SAMPLE_BYTES / bytes : SAMPLES;
    if (most > dataset->count) most = dataset->count;
    return most > SAMPLES ? most : SAMPLES;
}

/* A digest of examples spread over the dataset: finds workers that read different files. */
static ls_status digest_samples(const ls_dataset *dataset, char hex[65]) {
    size_t bytes = (size_t)ls_shape_count(&dataset->source->shape) * sizeof(float);
    LS_CLEANUP(free_example) struct example example = {.features = ls_alloc(bytes)};
    LS_CLEANUP(free_digest) struct ls_digest *digest = NULL;
    if (!example.features) return ls_fail_memory("an example", bytes);
    ls_status status = ls_targets_new(&dataset->source->targets, 1, &example.targets);
    if (!status) status = ls_digest_new(&digest);
    int64_t samples = count_samples(dataset);
    for (int64_t i = 0; i < samples && !status; i++)
        status =
            digest_example(dataset, dataset->options.skip + (dataset->count - 1) * i / (samples - 1), &example, digest);
    return status ? status : ls_digest_hex(digest, hex);
}

/* "10" classes, or "numbers (3)"; weighted or not. */
static void describe_targets(const struct ls_source *source, char *text, size_t size) {
    const struct ls_target_kind *kind = &source->targets;
    char what[160];
    (void)snprintf(what, sizeof(what), "%d", source->classes);
    if (kind->numbers) ls_target_text(kind, what, sizeof(what));
    (void)snprintf(text, size, "%s%s%s", what, kind->weighted ? ", weighted" : "",
                   source->whole.uncounted ? ", some uncounted" : "");
}

static void print_choices(const ls_dataset *dataset, FILE *out) {
    const ls_dataset_options *options = &dataset->options;
    static const char *const shuffles[] = {
        [LS_SHUFFLE_EACH_EPOCH] = "each-epoch", [LS_SHUFFLE_ONCE] = "once", [LS_SHUFFLE_NEVER] = "never"};
    static const char *const divisions[] = {
        [LS_DIVIDE_LAYOUT_INVARIANT] = "layout-invariant", [LS_DIVIDE_TENSORFLOW] = "tensorflow"};
    static const char *const shards[] = {[LS_SHARD_DATA] = "data",
                                         [LS_SHARD_OFF] = "off",
                                         [LS_SHARD_FILE] = "file",
                                         [LS_SHARD_AUTO] = "auto",
                                         [LS_SHARD_HINT] = "hint"};
    static const char *const hints[] = {[LS_HINT_NONE] = "none",
                                        [LS_HINT_FILES] = "files",
                                        [LS_HINT_EXAMPLES] = "examples",
                                        [LS_HINT_ROWS] = "rows",
                                        [LS_HINT_BATCHES] = "batches"};
    (void)fprintf(out, "split=%s\nshuffle=%s\ndivision=%s\nauto_shard=%s\nshard_hint=%s\ndrop_remainder=%s\n",
                  ls_role_name(dataset->source->split), shuffles[options->shuffle], divisions[options->division],
                  shards[options->auto_shard], hints[options->shard_hint], options->drop_remainder ? "yes" : "no");
}

static ls_status print(const ls_dataset *dataset, FILE *out) {
    const ls_dataset_options *options = &dataset->options;
    const struct ls_source *source = dataset->source;
    /* Without sharding each worker may bring its own examples, but as many as the others. */
    char digest[65] = "any", shape[128], targets[200];
    bool own_data = options->division == LS_DIVIDE_TENSORFLOW && options->auto_shard == LS_SHARD_OFF;
    ls_status status = own_data ? LS_OK : digest_samples(dataset, digest);
    if (status) return status;
    ls_shape_text(&dataset->shape, shape, sizeof(shape));
    describe_targets(source, targets, sizeof(targets));
    (void)fprintf(out, "dataset=%s\nexamples=%lld\nshape=%s%s\nclasses=%s\nsample_sha256=%s\n", source->kind,
                  (long long)dataset->count, shape, source->integers ? " of integers" : "", targets, digest);
    if (source->names_sha256[0]) (void)fprintf(out, "names_sha256=%s\n", own_data ? "any" : source->names_sha256);
    print_choices(dataset, out);
    (void)ls_plain_print(out,
                         "batch_size=%lld\nseed=%llu\nrepeat=%lld\nskip=%lld\nshuffle_buffer=%lld\ninterleave=%lld\n"
                         "block_length=%lld\nvalidation_split=%.17g\npart=%s\nmaps=",
                         (long long)options->batch_size, (unsigned long long)options->seed, (long long)options->repeat,
                         (long long)options->skip, (long long)options->shuffle_buffer, (long long)options->interleave,
                         (long long)options->block_length, options->validation_split,
                         options->part == LS_PART_VALIDATION ? "validation" : "training");
    ls_maps_print(&dataset->maps, out);
    (void)fputc('\n', out);
    return LS_OK;
}

ls_status ls_dataset_describe(const ls_dataset *dataset, char **lines) {
    struct ls_text text;
    FILE *out = ls_text_open(&text, 1);
    ls_status status = out ? print(dataset, out) : LS_OK;
    return ls_text_close(&text, status, "the description of a dataset", lines);
}
