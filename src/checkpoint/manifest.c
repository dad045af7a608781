/* Texts and back, by the table. */
#include "checkpoint/manifest.h"

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/difference.h"
#include "base/float_bits.h"
#include "base/status.h"

#define FORMAT  "lockstep checkpoint"
#define VERSION "1"
#define RANDOM  "philox4x32-10 of (seed, stream, index): no state"

/* Numbers are written as the hex digits of their bits: a decimal that reads back to the same bits needs 17 digits, and
 * NaN has no decimal. All zeros give no text, so a model without metrics has no such field. */
static const char *metrics_text(const double *metrics, char *number) {
    uint64_t bits[LS_MAX_METRICS], any = 0;
    size_t used = 0;
    memcpy(bits, metrics, sizeof(bits));
    for (int i = 0; i < LS_MAX_METRICS; i++) {
        any |= bits[i];
        used += (size_t)snprintf(number + used, LS_MANIFEST_WIDTH - used, "%s0x%016llx", i ? " " : "",
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

/* The value of a field whose text is that of a double. */
static double number_of(enum ls_manifest_type type, const void *place) {
    if (type == LS_MANIFEST_FLOAT) return (double)*(const float *)place;
    if (type == LS_MANIFEST_COUNT) return (double)*(const int64_t *)place;
    return type == LS_MANIFEST_FLAG ? *(const bool *)place : *(const double *)place;
}

/* NULL: nothing is to be written. */
static const char *field_text(const struct ls_manifest_field *field, const void *place, char *number) {
    uint64_t bits;
    switch (field->type) {
    case LS_MANIFEST_INTEGER:
        (void)snprintf(number, LS_MANIFEST_WIDTH, "%lld", (long long)*(const int64_t *)place);
        return number;
    case LS_MANIFEST_UNSIGNED:
        if (field->use == LS_MANIFEST_UNLESS_ZERO && !*(const uint64_t *)place) return NULL;
        (void)snprintf(number, LS_MANIFEST_WIDTH, "%llu", (unsigned long long)*(const uint64_t *)place);
        return number;
    case LS_MANIFEST_METRICS:
        return metrics_text(place, number);
    case LS_MANIFEST_TEXT:
        return *(const char *const *)place;
    default:
        bits = ls_float_bits_of_double(number_of(field->type, place));
        if (field->use == LS_MANIFEST_UNLESS_ZERO && !bits) return NULL;
        (void)snprintf(number, LS_MANIFEST_WIDTH, "0x%016llx", (unsigned long long)bits);
        return number;
    }
}

void ls_manifest_write(const struct ls_manifest *manifest, struct ls_manifest_texts *to) {
    to->count = 0;
    to->texts[to->count++] = (struct ls_safetensors_text){"format", FORMAT};
    to->texts[to->count++] = (struct ls_safetensors_text){"version", VERSION};
    to->texts[to->count++] = (struct ls_safetensors_text){"random", RANDOM};
    for (size_t i = 0; i < manifest->count && to->count < LS_MANIFEST_TEXTS; i++) {
        const struct ls_manifest_field *field = &manifest->fields[i];
        if (field->use == LS_MANIFEST_NEVER) continue;
        const char *text = field_text(field, (char *)manifest->record + field->offset, to->numbers[to->count]);
        if (text) to->texts[to->count++] = (struct ls_safetensors_text){field->name, text};
    }
}

/* A field's value while it is read. */
union value {
    int64_t integer;
    uint64_t bits;
    double number, metrics[LS_MAX_METRICS];
    float narrow;
    bool flag;
    const char *text;
};

static bool take_number(const char *text, enum ls_manifest_type type, union value *value) {
    char *end = NULL;
    errno = 0;
    value->bits = strtoull(text, &end, type == LS_MANIFEST_UNSIGNED ? 10 : 16);
    if (*text < '0' || *text > '9' || *end || errno) return false;
    double number = value->number;
    if (type == LS_MANIFEST_FLOAT) value->narrow = (float)number;
    if (type == LS_MANIFEST_FLAG) value->flag = number > 0;
    if (type != LS_MANIFEST_COUNT) return true;
    if (!(number >= 0 && number < 0x1p63)) return false;
    value->integer = (int64_t)number;
    return true;
}

static bool read_field(const char *text, enum ls_manifest_type type, union value *value) {
    char *end = NULL;
    switch (type) {
    case LS_MANIFEST_INTEGER:
        errno = 0;
        value->integer = strtoll(text, &end, 10);
        return end != text && !*end && !errno && value->integer >= 0;
    case LS_MANIFEST_METRICS:
        return read_metrics(text, value->metrics);
    case LS_MANIFEST_TEXT:
        value->text = text;
        return true;
    default:
        return take_number(text, type, value);
    }
}

static size_t size_of_type(enum ls_manifest_type type) {
    static const size_t sizes[] = {[LS_MANIFEST_FLOAT] = sizeof(float),
                                   [LS_MANIFEST_FLAG] = sizeof(bool),
                                   [LS_MANIFEST_METRICS] = LS_MAX_METRICS * sizeof(double),
                                   [LS_MANIFEST_TEXT] = sizeof(const char *)};
    return sizes[type] ? sizes[type] : sizeof(uint64_t);
}

static ls_status expect_text(const struct ls_safetensors *file, const char *name, const char *expected) {
    const char *text = ls_safetensors_text(file, name);
    if (text && !strcmp(text, expected)) return LS_OK;
    return ls_fail(LS_INVALID_ARGUMENT, "%s is '%.40s', this library reads '%s'", name, text ? text : "(nothing)",
                   expected);
}

ls_status ls_manifest_check(const struct ls_safetensors *file) {
    ls_status status = expect_text(file, "format", FORMAT);
    if (!status) status = expect_text(file, "version", VERSION);
    return status ? status : expect_text(file, "random", RANDOM);
}

/* Into the record where it is not NULL. */
static ls_status read_fields(const struct ls_safetensors *file, const struct ls_manifest *manifest, char *record) {
    for (size_t i = 0; i < manifest->count; i++) {
        const struct ls_manifest_field *field = &manifest->fields[i];
        const char *text = ls_safetensors_text(file, field->name);
        union value value = {.metrics = {0}};
        if (field->use == LS_MANIFEST_NEVER) continue;
        bool missing = !text && field->use == LS_MANIFEST_ALWAYS;
        if (missing || (text && !read_field(text, field->type, &value)))
            return ls_fail(LS_INVALID_ARGUMENT, "metadata %s='%.40s' is not what it should be", field->name,
                           text ? text : "(nothing)");
        if (record) memcpy(record + field->offset, &value, size_of_type(field->type));
    }
    return LS_OK;
}

ls_status ls_manifest_read(const struct ls_safetensors *file, const struct ls_manifest *manifest) {
    ls_status status = ls_manifest_check(file);
    if (!status) status = read_fields(file, manifest, NULL);
    return status ? status : read_fields(file, manifest, manifest->record);
}

ls_status ls_manifest_compare(const char *there, const char *here) {
    while (*there && *here) {
        int one = (int)strcspn(there, "\n"), other = (int)strcspn(here, "\n"), name = (int)strcspn(there, "=\n");
        if (one != other || memcmp(there, here, (size_t)one) != 0) {
            bool named = name < one && name < other && !memcmp(there, here, (size_t)name + 1);
            int skip = named ? name + 1 : 0;
            char field[160], said[2][LS_DIFFERENCE_TEXT];
            (void)snprintf(field, sizeof(field), "%.*s", named ? name : 4, named ? there : "what");
            ls_difference_say(field, sizeof(field), (struct ls_value){there + skip, (size_t)(one - skip)},
                              (struct ls_value){here + skip, (size_t)(other - skip)}, said);
            return ls_fail(LS_FAILED_PRECONDITION, "%s differs: '%s' there, '%s' here", field, said[0], said[1]);
        }
        there += one + (there[one] == '\n');
        here += other + (here[other] == '\n');
    }
    return *there == *here ? LS_OK
                           : ls_fail(LS_FAILED_PRECONDITION, "one of the two says more: '%.80s%.80s'", there, here);
}
