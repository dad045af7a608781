/* The table, and the bytes by it. */
#include "train/training_progress.h"

#include <endian.h>
#include <string.h>

#include "base/record_frame.h"
#include "base/status.h"

#define AT(member) offsetof(struct ls_training_progress, member)

enum { MODEL = LS_PROGRESS_MODEL, FIT = LS_PROGRESS_FIT, RESULT = LS_PROGRESS_RESULT, NONE = 0 };

/* In the order of the texts of a checkpoint. */
static const struct ls_manifest_field fields[] = {
    {"step", LS_MANIFEST_INTEGER, LS_MANIFEST_ALWAYS, MODEL, AT(step)},
    {"position", LS_MANIFEST_INTEGER, LS_MANIFEST_ALWAYS, FIT, AT(fit.position)},
    {"steps_per_epoch", LS_MANIFEST_INTEGER, LS_MANIFEST_ALWAYS, NONE, AT(facts.steps_per_epoch)},
    {"generation", LS_MANIFEST_INTEGER, LS_MANIFEST_ALWAYS, FIT, AT(fit.generations)},
    {"seed", LS_MANIFEST_UNSIGNED, LS_MANIFEST_ALWAYS, NONE, AT(facts.seed)},
    {"epoch_loss", LS_MANIFEST_NUMBER, LS_MANIFEST_ALWAYS, FIT, AT(fit.sums.loss)},
    {"epoch_correct", LS_MANIFEST_INTEGER, LS_MANIFEST_ALWAYS, FIT, AT(fit.sums.correct)},
    {"epoch_rows", LS_MANIFEST_INTEGER, LS_MANIFEST_ALWAYS, FIT, AT(fit.sums.rows)},
    {"loss", LS_MANIFEST_NUMBER, LS_MANIFEST_ALWAYS, RESULT, AT(fit.result.loss)},
    {"accuracy", LS_MANIFEST_NUMBER, LS_MANIFEST_ALWAYS, RESULT, AT(fit.result.accuracy)},
    {"val_loss", LS_MANIFEST_NUMBER, LS_MANIFEST_ALWAYS, RESULT, AT(fit.result.val_loss)},
    {"val_accuracy", LS_MANIFEST_NUMBER, LS_MANIFEST_ALWAYS, RESULT, AT(fit.result.val_accuracy)},
    {"training", LS_MANIFEST_TEXT, LS_MANIFEST_ALWAYS, NONE, AT(facts.description)},
    {"bits", LS_MANIFEST_TEXT, LS_MANIFEST_ALWAYS, NONE, AT(facts.bits)},
    {"epoch_metrics", LS_MANIFEST_METRICS, LS_MANIFEST_UNLESS_ZERO, FIT, AT(fit.sums.metrics)},
    {"metrics", LS_MANIFEST_METRICS, LS_MANIFEST_UNLESS_ZERO, RESULT, AT(fit.result.metrics)},
    {"val_metrics", LS_MANIFEST_METRICS, LS_MANIFEST_UNLESS_ZERO, RESULT, AT(fit.result.val_metrics)},
    {"learning_rate", LS_MANIFEST_FLOAT, LS_MANIFEST_UNLESS_ZERO, MODEL, AT(learning_rate)},
    {"last_rate", LS_MANIFEST_FLOAT, LS_MANIFEST_UNLESS_ZERO, MODEL, AT(last_rate)},
    {"stopped", LS_MANIFEST_FLAG, LS_MANIFEST_UNLESS_ZERO, FIT, AT(fit.stopped)},
    {"unfinished", LS_MANIFEST_FLAG, LS_MANIFEST_UNLESS_ZERO, NONE, AT(unfinished)},
    {"ended", LS_MANIFEST_FLAG, LS_MANIFEST_UNLESS_ZERO, NONE, AT(epoch_ended)},
    {"callbacks", LS_MANIFEST_TEXT, LS_MANIFEST_UNLESS_ZERO, NONE, AT(facts.callbacks)},
    {"about", LS_MANIFEST_TEXT, LS_MANIFEST_UNLESS_ZERO, NONE, AT(facts.about)},
    {"epoch_penalty", LS_MANIFEST_NUMBER, LS_MANIFEST_UNLESS_ZERO, FIT, AT(fit.sums.penalty)},
    {"epoch_weight", LS_MANIFEST_NUMBER, LS_MANIFEST_UNLESS_ZERO, FIT, AT(fit.sums.weight)},
    {"loss_scale", LS_MANIFEST_FLOAT, LS_MANIFEST_UNLESS_ZERO, MODEL, AT(scaler.scale)},
    {"loss_scale_good_steps", LS_MANIFEST_COUNT, LS_MANIFEST_UNLESS_ZERO, MODEL, AT(scaler.good_steps)},
    {"skipped_steps", LS_MANIFEST_COUNT, LS_MANIFEST_UNLESS_ZERO, MODEL, AT(scaler.skipped)},
    {"epoch_uncounted", LS_MANIFEST_COUNT, LS_MANIFEST_UNLESS_ZERO, FIT, AT(fit.sums.uncounted)},
    {"run", LS_MANIFEST_UNSIGNED, LS_MANIFEST_UNLESS_ZERO, FIT, AT(fit.run)},
    /* recovery's alone */
    {"epoch_rate", LS_MANIFEST_FLOAT, LS_MANIFEST_NEVER, MODEL, AT(epoch_rate)},
    {"save_requests", LS_MANIFEST_INTEGER, LS_MANIFEST_NEVER, MODEL, AT(requests.save)},
    {"stop_requests", LS_MANIFEST_INTEGER, LS_MANIFEST_NEVER, MODEL, AT(requests.stop)},
    {"stop_ranks", LS_MANIFEST_INTEGER, LS_MANIFEST_NEVER, MODEL, AT(requests.stop_ranks)},
    {"job", LS_MANIFEST_UNSIGNED, LS_MANIFEST_NEVER, FIT, AT(fit.job)},
    {"epochs", LS_MANIFEST_INTEGER, LS_MANIFEST_NEVER, FIT, AT(fit.epochs)},
    {"evaluated", LS_MANIFEST_FLAG, LS_MANIFEST_NEVER, FIT, AT(fit.evaluated)},
    {"ended_epochs", LS_MANIFEST_INTEGER, LS_MANIFEST_NEVER, FIT, AT(fit.ended)},
    {"steps", LS_MANIFEST_INTEGER, LS_MANIFEST_NEVER, RESULT, AT(fit.result.steps)},
    {"samples_per_second", LS_MANIFEST_NUMBER, LS_MANIFEST_NEVER, RESULT, AT(fit.result.samples_per_second)},
    {"told_loss_scale", LS_MANIFEST_NUMBER, LS_MANIFEST_NEVER, RESULT, AT(fit.result.loss_scale)},
    {"told_skipped_steps", LS_MANIFEST_INTEGER, LS_MANIFEST_NEVER, RESULT, AT(fit.result.skipped_steps)},
    {"pushes_applied", LS_MANIFEST_INTEGER, LS_MANIFEST_NEVER, RESULT, AT(fit.result.pushes_applied)},
    {"pushes_dropped", LS_MANIFEST_INTEGER, LS_MANIFEST_NEVER, RESULT, AT(fit.result.pushes_dropped)},
    {"staleness_max", LS_MANIFEST_INTEGER, LS_MANIFEST_NEVER, RESULT, AT(fit.result.staleness_max)},
    {"staleness_mean", LS_MANIFEST_NUMBER, LS_MANIFEST_NEVER, RESULT, AT(fit.result.staleness_mean)},
    {"arena_bytes", LS_MANIFEST_INTEGER, LS_MANIFEST_NEVER, RESULT, AT(fit.result.arena_bytes)},
    {"planned_bytes", LS_MANIFEST_INTEGER, LS_MANIFEST_NEVER, RESULT, AT(fit.result.planned_bytes)},
    {"peak_bytes", LS_MANIFEST_INTEGER, LS_MANIFEST_NEVER, RESULT, AT(fit.result.peak_bytes)},
};
#define FIELDS (sizeof(fields) / sizeof(fields[0]))

/* ---- as a checkpoint says it ---- */

struct ls_manifest ls_training_progress_manifest(struct ls_training_progress *progress) {
    return (struct ls_manifest){fields, FIELDS, progress};
}

void ls_training_progress_fold(struct ls_training_progress *progress) {
    struct ls_fit_state *fit = &progress->fit;
    progress->unfinished = fit->position / progress->facts.steps_per_epoch > fit->epochs;
    progress->epoch_ended = fit->ended > fit->epochs;
    if (fit->sums.weight == (double)fit->sums.rows) fit->sums.weight = 0;
}

/* A position at an epoch's border may stand before or after that epoch's validation; unfinished tells which. Everything
 * else of the fit follows from position and steps_per_epoch, and is not kept twice. */
void ls_training_progress_unfold(struct ls_training_progress *progress) {
    struct ls_fit_state *fit = &progress->fit;
    bool unfinished = progress->unfinished && fit->position % progress->facts.steps_per_epoch == 0;
    fit->epochs = fit->position / progress->facts.steps_per_epoch - (unfinished && fit->position);
    fit->ended = fit->epochs + progress->epoch_ended;
    if (fit->sums.weight == 0) fit->sums.weight = (double)fit->sums.rows;
    fit->result.steps = progress->step;
    ls_loss_scaler_tell(&progress->scaler, &fit->result);
}

/* ---- as bytes ---- */

static size_t words_of(const struct ls_manifest_field *field) {
    return field->type == LS_MANIFEST_METRICS ? LS_MAX_METRICS : 1;
}

/* The bytes of one word of it in memory. */
static size_t width_of(const struct ls_manifest_field *field) {
    if (field->type == LS_MANIFEST_FLAG) return sizeof(bool);
    return field->type == LS_MANIFEST_FLOAT ? sizeof(float) : sizeof(uint64_t);
}

static uint64_t load_word(const struct ls_manifest_field *field, const char *place) {
    uint32_t narrow;
    uint64_t word;
    if (field->type == LS_MANIFEST_FLAG) return *(const bool *)(const void *)place;
    if (field->type == LS_MANIFEST_FLOAT) return memcpy(&narrow, place, sizeof(narrow)), narrow;
    return memcpy(&word, place, sizeof(word)), word;
}

static void store_word(const struct ls_manifest_field *field, uint64_t word, char *place) {
    const uint32_t narrow = (uint32_t)word;
    if (field->type == LS_MANIFEST_FLAG)
        *(bool *)(void *)place = word;
    else
        memcpy(place, width_of(field) == sizeof(narrow) ? (const void *)&narrow : &word, width_of(field));
}

/* True if the field can have this value. */
static bool is_value(const struct ls_manifest_field *field, uint64_t word) {
    switch (field->type) {
    case LS_MANIFEST_INTEGER:
    case LS_MANIFEST_COUNT:
        return word <= INT64_MAX;
    case LS_MANIFEST_FLAG:
        return word <= 1;
    case LS_MANIFEST_FLOAT:
        return word <= UINT32_MAX;
    default:
        return true;
    }
}

size_t ls_training_progress_size(unsigned parts) {
    size_t words = 1;
    for (size_t i = 0; i < FIELDS; i++)
        if (fields[i].part & parts) words += words_of(&fields[i]);
    return words * sizeof(uint64_t);
}

void ls_training_progress_write(const struct ls_training_progress *progress, unsigned parts, void *bytes) {
    char *at = bytes;
    for (size_t i = 0; i < FIELDS; i++) {
        const char *place = (const char *)progress + fields[i].offset;
        for (size_t w = 0; fields[i].part & parts && w < words_of(&fields[i]); w++, at += sizeof(uint64_t)) {
            uint64_t word = htole64(load_word(&fields[i], place + w * width_of(&fields[i])));
            memcpy(at, &word, sizeof(word));
        }
    }
    uint64_t checksum = htole64(ls_crc32c(bytes, (size_t)(at - (char *)bytes)));
    memcpy(at, &checksum, sizeof(checksum));
}

/* The bytes come from another worker. They are read into a copy, and progress changes only when every value is possible
 * and the CRC-32C holds. */
ls_status ls_training_progress_read(const void *bytes, unsigned parts, struct ls_training_progress *progress) {
    struct ls_training_progress read = *progress;
    const char *at = bytes;
    uint64_t word;
    bool good = true;
    for (size_t i = 0; i < FIELDS; i++) {
        char *place = (char *)&read + fields[i].offset;
        for (size_t w = 0; fields[i].part & parts && w < words_of(&fields[i]); w++, at += sizeof(word)) {
            memcpy(&word, at, sizeof(word));
            good &= is_value(&fields[i], le64toh(word));
            store_word(&fields[i], le64toh(word), place + w * width_of(&fields[i]));
        }
    }
    memcpy(&word, at, sizeof(word));
    if (!good || le64toh(word) != ls_crc32c(bytes, (size_t)(at - (const char *)bytes)))
        return ls_fail(LS_DATA_LOSS, "the progress of a training that another worker gave is damaged");
    *progress = read;
    return LS_OK;
}
