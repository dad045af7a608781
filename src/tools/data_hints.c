/* Judges the facts of a data source: each function writes a line where its case is there. */
#include "tools/data_facts.h"

#include <string.h>

#include "base/plain.h"
#include "base/shape.h"
#include "data/sources.h"

#define PIXELS  255  /* the highest value of a byte */
#define UNEQUAL 10   /* times as many examples in one class as in another */
#define LARGE   100  /* times 1, which is where networks like their inputs */
#define CLASSES 1000 /* whole numbers above are none of classes */

static bool is_channel_count(int64_t dim) {
    return dim == 1 || dim == 3 || dim == 4;
}

static void hint_channels_first(const struct ls_data_facts *facts, FILE *out) {
    const ls_shape *shape = &facts->data->source->shape;
    if (shape->rank != 3 || !is_channel_count(shape->dims[0]) || shape->dims[1] <= 4 || shape->dims[2] <= 4) return;
    (void)fprintf(out,
                  "shape (%lld, %lld, %lld) seems to have its channels first; they come last here: save x.transpose(0, "
                  "2, 3, 1)\n",
                  (long long)shape->dims[0], (long long)shape->dims[1], (long long)shape->dims[2]);
}

static void hint_pixels(const struct ls_data_facts *facts, FILE *out) {
    const struct ls_data_numbers *values = &facts->values;
    const ls_shape *shape = &facts->data->source->shape;
    if (shape->rank < 2 || facts->data->source->integers || values->highest <= 1 || values->lowest < 0 ||
        values->highest > PIXELS)
        return;
    (void)ls_plain_print(out,
                         "pixels go up to %.9g: save them as uint8, which are read as [0, 1], or divide them by 255\n",
                         values->highest);
}

static void hint_integers(const struct ls_data_facts *facts, FILE *out) {
    const struct ls_data_numbers *values = &facts->values;
    const struct ls_source *source = facts->data->source;
    if (source->integers || source->bytes || source->shape.rank > 1 || !values->whole || values->lowest < 0 ||
        values->highest <= 2)
        return;
    (void)ls_plain_print(out,
                         "x holds whole numbers up to %.9g: --model mlp takes them as sizes; where they are numbers of "
                         "words or categories, --model embedding has a row for each\n",
                         values->highest);
}

static void hint_large(const struct ls_data_facts *facts, FILE *out) {
    const struct ls_data_numbers *values = &facts->values;
    const ls_shape *shape = &facts->data->source->shape;
    if (facts->data->source->integers || (shape->rank == 3 && is_channel_count(shape->dims[2]))) return;
    if (values->highest <= LARGE && values->lowest >= -LARGE) return;
    (void)ls_plain_print(out, "values go from %.9g to %.9g: scale each column to mean 0 and deviation 1\n",
                         values->lowest, values->highest);
}

static void hint_odd(const struct ls_data_facts *facts, FILE *out) {
    if (facts->values.odd)
        (void)fprintf(out, "%lld values of %lld examples are NaN or infinite: the loss will be, too\n",
                      (long long)facts->values.odd, (long long)facts->sampled);
    if (facts->targets.odd)
        (void)fprintf(out, "%lld targets of %lld examples are NaN or infinite: the loss will be, too\n",
                      (long long)facts->targets.odd, (long long)facts->sampled);
}

static void hint_constant(const struct ls_data_facts *facts, FILE *out) {
    const struct ls_data_numbers *values = &facts->values;
    if (values->count < 2 || values->lowest < values->highest) return;
    (void)ls_plain_print(out, "all values are %.9g: they say nothing of an example\n", values->lowest);
}

/* Numbers that look like classes. */
static void hint_targets(const struct ls_data_facts *facts, FILE *out) {
    const struct ls_data_numbers *targets = &facts->targets;
    if (!targets->whole || facts->data->source->targets.shape.rank || targets->highest > CLASSES) return;
    if (targets->lowest < 0 && (targets->lowest < -1 || targets->highest > 1)) return;
    if (targets->lowest < 0)
        (void)fputs("targets are -1 and 1: two classes are the integers 0 and 1, save (y + 1) / 2 as int32\n", out);
    else
        (void)fputs("targets are whole numbers: where they are classes, save y as integers from 0 (int32)\n", out);
}

static void hint_steep(const struct ls_data_facts *facts, FILE *out) {
    const struct ls_data_numbers *targets = &facts->targets;
    if (targets->highest <= LARGE && targets->lowest >= -LARGE) return;
    (void)ls_plain_print(out,
                         "targets go from %.9g to %.9g: the loss of such numbers is steep; divide them, or train with "
                         "--optimizer adam\n",
                         targets->lowest, targets->highest);
}

/* The class with the fewest and that with the most examples; false without classes. */
static bool find_extremes(const struct ls_data_facts *facts, int *fewest, int *most) {
    int classes = facts->data->source->classes;
    *fewest = *most = 0;
    for (int i = 1; facts->counts && i < classes; i++) {
        if (facts->counts[i] < facts->counts[*fewest]) *fewest = i;
        if (facts->counts[i] > facts->counts[*most]) *most = i;
    }
    return facts->counts && classes > 1;
}

/* Classes without an example; lacks_first: class 0 is the only one. */
static int count_empty(const struct ls_data_facts *facts, bool *lacks_first) {
    int empty = 0;
    for (int i = 0; facts->counts && i < facts->data->source->classes; i++) empty += !facts->counts[i];
    *lacks_first = empty == 1 && !facts->counts[0];
    return empty;
}

static void hint_first_class(const struct ls_data_facts *facts, FILE *out) {
    bool lacks_first;
    (void)count_empty(facts, &lacks_first);
    if (lacks_first && facts->data->source->classes > 1)
        (void)fputs("no example has class 0: labels seem to begin with 1, and are counted from 0: subtract 1\n", out);
}

static void hint_classes(const struct ls_data_facts *facts, FILE *out) {
    int fewest, most;
    bool lacks_first;
    if (!find_extremes(facts, &fewest, &most)) return;
    int empty = count_empty(facts, &lacks_first);
    if (lacks_first) return;
    if (empty)
        (void)fprintf(out, "%d of %d classes have no example in '%s', class %d is the first\n", empty,
                      facts->data->source->classes, facts->role, fewest);
    else if (facts->counts[most] >= UNEQUAL * facts->counts[fewest])
        (void)fprintf(
            out, "class %d has %lld examples and class %d has %lld: --class-weight %d:%lld makes them count alike\n",
            most, (long long)facts->counts[most], fewest, (long long)facts->counts[fewest], fewest,
            (long long)(facts->counts[most] / facts->counts[fewest]));
}

static void hint_files(const struct ls_data_facts *facts, FILE *out) {
    const struct ls_source *source = facts->data->source;
    if (source->damaged)
        (void)fprintf(out, "%lld examples of '%s' are damaged and left out\n", (long long)source->damaged, facts->role);
    if (source->others)
        (void)fprintf(out, "files of '%s' of kinds that are not read: %lld, of which images by their names: %lld\n",
                      facts->role, (long long)source->others, (long long)source->unread);
}

static void hint_unnamed(const struct ls_data_facts *facts, FILE *out) {
    if (facts->table.count && !facts->table.target.name)
        (void)fputs("no target is named: --target COLUMN says which one is to be predicted\n", out);
}

static void hint_splits(const struct ls_data_facts *facts, int count, FILE *out) {
    if (count == 1 && !strcmp(facts->role, "train") && !facts->data->source->unlabelled)
        (void)fputs("there is no test split: --validation-split 0.2 keeps a fifth apart\n", out);
    for (int i = 1; i < count; i++) {
        const struct ls_source *one = facts->data->source, *other = facts[i].data->source;
        if (!ls_shape_equal(&one->shape, &other->shape))
            (void)fprintf(out, "examples of '%s' have another shape than those of '%s'\n", facts[i].role, facts->role);
        if (one->classes != other->classes)
            (void)fprintf(out, "'%s' has %d classes and '%s' %d\n", facts->role, one->classes, facts[i].role,
                          other->classes);
    }
}

static void hint_batch(const struct ls_data_facts *facts, int64_t batch, FILE *out) {
    if (batch <= facts->data->count) return;
    (void)fprintf(out, "a batch of %lld is larger than the %lld examples of '%s': give a smaller --batch-size\n",
                  (long long)batch, (long long)facts->data->count, facts->role);
}

void ls_data_hints(const struct ls_data_facts *facts, int count, int64_t batch, FILE *out) {
    static void (*const judges[])(const struct ls_data_facts *facts, FILE *out) = {
        hint_channels_first, hint_pixels, hint_integers,    hint_large,   hint_odd,     hint_constant,
        hint_targets,        hint_steep,  hint_first_class, hint_classes, hint_unnamed, hint_files};
    for (size_t i = 0; i < sizeof(judges) / sizeof(judges[0]); i++) judges[i](facts, out);
    for (int i = 1; i < count; i++) hint_odd(&facts[i], out);
    for (int i = 1; i < count; i++) hint_files(&facts[i], out);
    hint_splits(facts, count, out);
    hint_batch(facts, batch, out);
}

void ls_data_hints_of_arrays(const struct ls_data_facts *facts, FILE *out) {
    hint_channels_first(facts, out);
    hint_pixels(facts, out);
    hint_integers(facts, out);
    hint_large(facts, out);
    hint_odd(facts, out);
    hint_first_class(facts, out);
}
