/* The manifest as texts and back, by one table. */
#include "checkpoint/manifest.h"

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/status.h"

#define FORMAT  "lockstep checkpoint"
#define VERSION "1"
#define RANDOM  "philox4x32-10 of (seed, stream, index): no state"

enum field_type { INTEGER, UNSIGNED, NUMBER, TEXT, OPTIONAL, METRICS, OPTIONAL_TEXT };
/* OPTIONAL is a number, METRICS are LS_MAX_METRICS of them: left out where they are +0; OPTIONAL_TEXT where it is NULL.
 */

static const struct field {
    const char *name;
    enum field_type type;
    size_t offset;
} fields[] = {
    {"step", INTEGER, offsetof(struct ls_manifest, step)},
    {"position", INTEGER, offsetof(struct ls_manifest, position)},
    {"steps_per_epoch", INTEGER, offsetof(struct ls_manifest, steps_per_epoch)},
    {"generation", INTEGER, offsetof(struct ls_manifest, generation)},
    {"seed", UNSIGNED, offsetof(struct ls_manifest, seed)},
    {"epoch_loss", NUMBER, offsetof(struct ls_manifest, epoch_loss)},
    {"epoch_correct", INTEGER, offsetof(struct ls_manifest, epoch_correct)},
    {"epoch_rows", INTEGER, offsetof(struct ls_manifest, epoch_rows)},
    {"loss", NUMBER, offsetof(struct ls_manifest, loss)},
    {"accuracy", NUMBER, offsetof(struct ls_manifest, accuracy)},
    {"val_loss", NUMBER, offsetof(struct ls_manifest, val_loss)},
    {"val_accuracy", NUMBER, offsetof(struct ls_manifest, val_accuracy)},
    {"training", TEXT, offsetof(struct ls_manifest, training)},
    {"bits", TEXT, offsetof(struct ls_manifest, bits)},
    {"epoch_metrics", METRICS, offsetof(struct ls_manifest, epoch_metrics)},
    {"metrics", METRICS, offsetof(struct ls_manifest, metrics)},
    {"val_metrics", METRICS, offsetof(struct ls_manifest, val_metrics)},
    {"learning_rate", OPTIONAL, offsetof(struct ls_manifest, learning_rate)},
    {"stopped", OPTIONAL, offsetof(struct ls_manifest, stopped)},
    {"callbacks", OPTIONAL_TEXT, offsetof(struct ls_manifest, callbacks)},
    {"epoch_penalty", OPTIONAL, offsetof(struct ls_manifest, epoch_penalty)},
    {"loss_scale", OPTIONAL, offsetof(struct ls_manifest, loss_scale)},
    {"loss_scale_good_steps", OPTIONAL, offsetof(struct ls_manifest, good_steps)},
    {"skipped_steps", OPTIONAL, offsetof(struct ls_manifest, skipped_steps)},
};
#define FIELDS (sizeof(fields) / sizeof(fields[0]))

static const char *metrics_text(const double *metrics, char *number) {
    uint64_t bits[LS_MAX_METRICS], any = 0;
    size_t used = 0;
    memcpy(bits, metrics, sizeof(bits));
    for (int i = 0; i < LS_MAX_METRICS; i++) {
        any |= bits[i];
        used += (size_t)snprintf(number + used, LS_MANIFEST_NUMBER - used, "%s0x%016llx", i ? " " : "",
                                 (unsigned long long)bits[i]);
    }
    return any ? number : NULL;
}

static bool read_metrics(const char *text, double *metrics) {
    char *end = NULL;
    for (int i = 0; i < LS_MAX_METRICS; i++, text = end) {
        if (*text < '0' && !(i && *text == ' ')) return false;
        errno = 0;
        uint64_t bits = strtoull(text, &end, 16);
        if (end == text || errno) return false;
        memcpy(&metrics[i], &bits, sizeof(bits));
    }
    return !*end;
}

/* Floats as their bits: they read back as they were in every locale. NULL: nothing is to be written. */
static const char *field_text(const struct ls_manifest *manifest, const struct field *field, char *number) {
    const void *place = (const char *)manifest + field->offset;
    uint64_t bits;
    switch (field->type) {
    case INTEGER:
        (void)snprintf(number, LS_MANIFEST_NUMBER, "%lld", (long long)*(const int64_t *)place);
        return number;
    case UNSIGNED:
        (void)snprintf(number, LS_MANIFEST_NUMBER, "%llu", (unsigned long long)*(const uint64_t *)place);
        return number;
    case NUMBER:
    case OPTIONAL:
        memcpy(&bits, place, sizeof(bits));
        if (field->type == OPTIONAL && !bits) return NULL;
        (void)snprintf(number, LS_MANIFEST_NUMBER, "0x%016llx", (unsigned long long)bits);
        return number;
    case METRICS:
        return metrics_text(place, number);
    default:
        return *(const char *const *)place;
    }
}

void ls_manifest_write(const struct ls_manifest *manifest, struct ls_manifest_texts *to) {
    to->count = 0;
    to->texts[to->count++] = (struct ls_safetensors_text){"format", FORMAT};
    to->texts[to->count++] = (struct ls_safetensors_text){"version", VERSION};
    to->texts[to->count++] = (struct ls_safetensors_text){"random", RANDOM};
    for (size_t i = 0; i < FIELDS; i++) {
        const char *text = field_text(manifest, &fields[i], to->numbers[to->count]);
        if (text) to->texts[to->count++] = (struct ls_safetensors_text){fields[i].name, text};
    }
}

static bool read_field(const char *text, enum field_type type, void *place) {
    char *end = NULL;
    uint64_t bits;
    errno = 0;
    switch (type) {
    case INTEGER:
        *(int64_t *)place = strtoll(text, &end, 10);
        return end != text && !*end && !errno && *(int64_t *)place >= 0;
    case UNSIGNED:
    case NUMBER:
    case OPTIONAL:
        bits = strtoull(text, &end, type == UNSIGNED ? 10 : 16);
        memcpy(place, &bits, sizeof(bits));
        return *text >= '0' && *text <= '9' && !*end && !errno;
    case METRICS:
        return read_metrics(text, place);
    default:
        *(const char **)place = text;
        return true;
    }
}

static ls_status expect_text(const struct ls_safetensors *file, const char *name, const char *expected) {
    const char *text = ls_safetensors_text(file, name);
    if (text && !strcmp(text, expected)) return LS_OK;
    return ls_fail(LS_INVALID_ARGUMENT, "%s is '%.40s', this library reads '%s'", name, text ? text : "(nothing)",
                   expected);
}

ls_status ls_manifest_read(const struct ls_safetensors *file, struct ls_manifest *manifest) {
    struct ls_manifest read = {0};
    ls_status status = expect_text(file, "format", FORMAT);
    if (!status) status = expect_text(file, "version", VERSION);
    if (!status) status = expect_text(file, "random", RANDOM);
    for (size_t i = 0; !status && i < FIELDS; i++) {
        const char *text = ls_safetensors_text(file, fields[i].name);
        if (!text && fields[i].type >= OPTIONAL) continue;
        if (!text || !read_field(text, fields[i].type, (char *)&read + fields[i].offset))
            status = ls_fail(LS_INVALID_ARGUMENT, "metadata %s='%.40s' is not what it should be", fields[i].name,
                             text ? text : "(nothing)");
    }
    if (!status && !read.steps_per_epoch)
        status = ls_fail(LS_INVALID_ARGUMENT, "metadata steps_per_epoch='0' is not what it should be");
    if (!status) *manifest = read;
    return status;
}

ls_status ls_manifest_compare(const char *there, const char *here) {
    while (*there && *here) {
        int one = (int)strcspn(there, "\n"), other = (int)strcspn(here, "\n"), name = (int)strcspn(there, "=\n");
        if (one != other || memcmp(there, here, (size_t)one) != 0) {
            bool named = name < one && name < other && !memcmp(there, here, (size_t)name + 1);
            int skip = named ? name + 1 : 0;
            return ls_fail(LS_FAILED_PRECONDITION, "%.*s differs: '%.*s' there, '%.*s' here", named ? name : 4,
                           named ? there : "what", one - skip, there + skip, other - skip, here + skip);
        }
        there += one + (there[one] == '\n');
        here += other + (here[other] == '\n');
    }
    return *there == *here ? LS_OK
                           : ls_fail(LS_FAILED_PRECONDITION, "one of the two says more: '%.80s%.80s'", there, here);
}
