/* lockstep data, behind tools.h: opens each split of a source, counts its classes and looks at some examples. It holds
 * one example at a time. */

#include <lockstep/tools.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "base/memory.h"
#include "base/kept_error.h"
#include "base/need.h"
#include "base/shape.h"
#include "base/text.h"
#include "data/role.h"
#include "data/sources.h"
#include "tools/data_facts.h"

enum { ROLES = 4 };

/* ---- numbers ---- */

/* Sums are of differences from the first number: they lose nothing where all are far from 0. */
struct sums {
    double first, sum, squares;
};

static void add_number(struct ls_data_numbers *numbers, struct sums *sums, double value) {
    if (!isfinite(value)) {
        numbers->odd++;
        return;
    }
    if (!numbers->count++) {
        sums->first = numbers->lowest = numbers->highest = value;
        numbers->whole = true;
    }
    if (value < numbers->lowest) numbers->lowest = value;
    if (value > numbers->highest) numbers->highest = value;
    if (value < floor(value) || value > floor(value)) numbers->whole = false;
    sums->sum += value - sums->first;
    sums->squares += (value - sums->first) * (value - sums->first);
}

static void end_numbers(struct ls_data_numbers *numbers, const struct sums *sums) {
    if (!numbers->count) return;
    double mean = sums->sum / (double)numbers->count, square = sums->squares / (double)numbers->count - mean * mean;
    numbers->mean = sums->first + mean;
    numbers->deviation = square > 0 ? sqrt(square) : 0;
}

/* ---- examples ---- */

struct data_sample {
    float *features;           /* owns; elements are int32 where the source's are integers */
    struct ls_targets targets; /* owns */
    struct sums values, numbers;
};

static void free_sample(struct data_sample *sample) {
    ls_free(sample->features);
    ls_targets_free(&sample->targets);
}

static ls_status look_at(struct ls_data_facts *facts, struct data_sample *sample, int64_t example) {
    const struct ls_source *source = facts->data->source;
    const int32_t *integers = (const int32_t *)(void *)sample->features;
    int64_t elements = ls_shape_count(&source->shape), width = ls_target_width(&source->targets);
    ls_status status =
        ls_dataset_read_source(facts->data, facts->data->options.skip + example, sample->features, &sample->targets);
    if (status) return status;
    for (int64_t i = 0; i < elements; i++)
        add_number(&facts->values, &sample->values, source->integers ? integers[i] : (double)sample->features[i]);
    for (int64_t i = 0; source->targets.numbers && i < width; i++)
        add_number(&facts->targets, &sample->numbers, (double)sample->targets.numbers[i]);
    return LS_OK;
}

/* Looks at examples that are spread evenly. */
static ls_status look(struct ls_data_facts *facts, int64_t samples) {
    const struct ls_source *source = facts->data->source;
    int64_t count = facts->data->count, most = samples < count ? samples : count;
    size_t bytes = (size_t)ls_shape_count(&source->shape) * sizeof(float);
    LS_CLEANUP(free_sample) struct data_sample sample = {.features = ls_alloc_aligned(bytes)};
    if (!sample.features) return ls_fail_memory("an example", bytes);
    ls_status status = ls_targets_new(&source->targets, 1, &sample.targets);
    for (int64_t i = 0; i < most && !status; i++)
        status =
            look_at(facts, &sample, most > 1 ? (int64_t)((double)(count - 1) * (double)i / (double)(most - 1)) : 0);
    facts->sampled = most;
    end_numbers(&facts->values, &sample.values);
    end_numbers(&facts->targets, &sample.numbers);
    return status;
}

static ls_status count_classes(struct ls_data_facts *facts) {
    const struct ls_source *source = facts->data->source;
    if (source->targets.numbers || source->unlabelled || source->classes < 1 || source->windows) return LS_OK;
    facts->counts = ls_alloc_array((size_t)source->classes, sizeof(*facts->counts));
    if (!facts->counts) return ls_fail_memory("counts of classes", (size_t)source->classes * sizeof(*facts->counts));
    ls_status status = LS_OK;
    for (int64_t i = 0; i < facts->data->count && !status; i++) {
        int32_t label = 0;
        status = ls_dataset_label(facts->data, i, &label);
        if (!status && label >= 0 && label < source->classes) facts->counts[label]++;
    }
    return status;
}

/* ---- splits ---- */

static void free_facts(struct ls_data_facts (*facts)[ROLES]) {
    for (int i = 0; i < ROLES; i++) {
        ls_dataset_free((*facts)[i].data);
        ls_free((*facts)[i].counts);
        ls_transform_free(&(*facts)[i].table);
    }
}

static const struct part_of_split {
    ls_split split;
    ls_part part;
} roles[ROLES] = {{LS_TRAIN, LS_PART_TRAINING},
                  {LS_TRAIN, LS_PART_VALIDATION},
                  {LS_VALIDATION, LS_PART_TRAINING},
                  {LS_TEST, LS_PART_TRAINING}};

/* A validation split of its own is not looked at where a part of the training split is the validation. */
static bool is_left_out(const ls_dataset_options *given, const struct part_of_split *role) {
    bool part = given->validation_split > 0;
    return part ? role->split == LS_VALIDATION : role->part == LS_PART_VALIDATION;
}

/* The other splits take no part, and none of skip and limit, as in training. */
static ls_dataset_options options_of(const ls_dataset_options *given, const struct part_of_split *role) {
    ls_dataset_options options = *given;
    options.split = role->split;
    options.part = role->part;
    if (role->split != LS_TRAIN) options.limit = options.skip = 0;
    if (role->split != LS_TRAIN) options.validation_split = 0;
    return options;
}

/* A table may be looked at before its target is named. */
static ls_status open_split(const char *name, const ls_dataset_options *options, ls_dataset **data) {
    bool table = false;
    ls_status status = ls_table_meant(name, options, &table);
    if (status) return status;
    return table ? ls_table_open(name, options, false, data) : ls_dataset_open(name, options, data);
}

/* Opens the splits that there are, and not one in the place of another; a source without labels is the training's. */
static ls_status open_splits(const char *name, const ls_dataset_options *given, struct ls_data_facts *facts,
                             int *count) {
    struct ls_kept_error first = {LS_OK};
    for (int i = 0; i < ROLES; i++) {
        if (is_left_out(given, &roles[i])) continue;
        struct ls_data_facts *next = &facts[*count];
        const ls_dataset_options options = options_of(given, &roles[i]);
        ls_status status = open_split(name, &options, &next->data);
        if (status && status != LS_NOT_FOUND) return status;
        if (!status && ls_dataset_split(next->data) != roles[i].split)
            ls_dataset_free(ls_steal(next->data));
        else if (!status)
            next->role = ls_role_name(roles[i].part == LS_PART_VALIDATION ? LS_VALIDATION : roles[i].split), ++*count;
        ls_kept_error_first(&first, status);
    }
    if (*count) return LS_OK;
    const ls_dataset_options options = options_of(given, &roles[0]);
    if (ls_dataset_paths(&name, 1, &options, &facts[0].data)) return ls_fail(LS_NOT_FOUND, "%s", first.message);
    facts[(*count)++].role = ls_role_name(LS_TRAIN);
    return LS_OK;
}

static ls_status print_facts(const char *name, const struct ls_data_facts *facts, int count, bool json, char **text) {
    static const char what[] = "the description of a dataset";
    char *hints = NULL;
    int64_t batch = facts[0].data->options.batch_size;
    ls_status status = LS_TEXT(out, ls_data_hints(facts, count, batch, out), what, &hints);
    if (status) return status;
    status = LS_TEXT(out, (json ? ls_data_print_json : ls_data_print)(name, facts, count, hints, out), what, text);
    free(hints);
    return status;
}

ls_status ls_tools_data(const char *name, const ls_dataset_options *options, int64_t samples, bool json, char **text) {
    LS_NEED(name, text);
    LS_CLEANUP(free_facts) struct ls_data_facts facts[ROLES] = {0};
    ls_dataset_options filled;
    int count = 0;
    ls_status status = ls_dataset_options_fill(options, &filled);
    if (!status && samples < 1)
        status = ls_fail(LS_INVALID_ARGUMENT, "samples is %lld: at least one is looked at", (long long)samples);
    if (!status) status = open_splits(name, &filled, facts, &count);
    for (int i = 0; i < count && !status; i++) {
        status = count_classes(&facts[i]);
        if (!status) status = look(&facts[i], samples);
        const char *transform = ls_dataset_transform(facts[i].data);
        if (!status && transform) status = ls_transform_read(transform, &facts[i].table);
    }
    return status ? status : print_facts(name, facts, count, json, text);
}

ls_status ls_tools_hints(const ls_dataset *data, int64_t samples, char **text) {
    LS_NEED(data, text);
    const struct ls_source *source = data->source;
    struct ls_data_facts facts = {.data = (ls_dataset *)(uintptr_t)data}; /* borrowed, and not changed */
    *text = NULL;
    if (strcmp(source->kind, "numpy") != 0 || samples < 1) return LS_OK;
    ls_status status = count_classes(&facts);
    if (!status) status = look(&facts, samples);
    if (!status) status = LS_TEXT(out, ls_data_hints_of_arrays(&facts, out), "hints", text);
    ls_free(facts.counts);
    return status;
}
