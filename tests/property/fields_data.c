/* Every field of datasets' options, of maps and of what writes datasets: it changes what is read, or is refused. */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "property/fields.h"

#define DRAWN 12

typedef ls_status open_fn(const ls_dataset_options *options, ls_dataset **data);

static ls_status open_images(const ls_dataset_options *options, ls_dataset **data) {
    return ls_dataset_images(in_scratch("images"), options, data);
}
static ls_status open_damaged(const ls_dataset_options *options, ls_dataset **data) {
    return ls_dataset_images(in_scratch("damaged"), options, data);
}
static ls_status open_records(const ls_dataset_options *options, ls_dataset **data) {
    return ls_dataset_tfrecord(in_scratch("records"), options, data);
}

static ls_status open_table(const ls_dataset_options *options, ls_dataset **data) {
    FILE *file = fopen(in_scratch("table.csv"), "w");
    (void)fputs("a,b,c\n1,2,0\n2,1,1\n4,3,1\n", file);
    (void)fclose(file);
    return ls_dataset_csv(in_scratch("table.csv"), options, data);
}

static ls_status open_tokens(const ls_dataset_options *options, ls_dataset **data) {
    FILE *file = fopen(in_scratch("text"), "w");
    (void)fputs("to be, or not to be, that is the question", file);
    (void)fclose(file);
    return ls_dataset_tokens(in_scratch("text"), options, data);
}

/* ---- what is read ---- */

struct reading {
    ls_iterator *iterator;
    struct digest parts[2];
    int64_t width;
};

static ls_status read_part(ls_replica *replica, void *context) {
    struct reading *reading = context;
    struct digest *part = &reading->parts[ls_replica_local_id(replica)];
    ls_batch batch;
    ls_status status = ls_iterator_batch(reading->iterator, replica, &batch);
    if (status) return status;
    *part = digest_bytes(*part, &batch.rows, sizeof(batch.rows));
    if (batch.labels) *part = digest_bytes(*part, batch.labels, (size_t)batch.rows * sizeof(*batch.labels));
    if (batch.targets) *part = digest_bytes(*part, batch.targets, (size_t)batch.rows * sizeof(*batch.targets));
    if (batch.weights) *part = digest_bytes(*part, batch.weights, (size_t)batch.rows * sizeof(*batch.weights));
    *part = digest_bytes(*part, batch.features, (size_t)(batch.rows * reading->width) * sizeof(*batch.features));
    return LS_OK;
}

static ls_status read_epochs(ls_strategy *strategy, struct reading *reading, int epochs) {
    ls_status status = LS_OK;
    for (int epoch = 0; epoch < epochs; epoch++)
        for (bool end = false; !status && !end;) {
            status = ls_iterator_next(reading->iterator, &end);
            if (!status && !end) status = ls_strategy_run(strategy, read_part, reading);
        }
    return status;
}

static struct digest read_all(open_fn *open, const ls_dataset_options *options) {
    ls_strategy *strategy = two_devices();
    ls_dataset *data = NULL;
    struct reading reading = {.width = 1};
    ls_status status = open(options, &data);
    ls_shape shape = data ? ls_dataset_shape(data) : (ls_shape){0};
    for (int i = 0; i < shape.rank; i++) reading.width *= shape.dims[i];
    if (!status) status = ls_iterator_new(strategy, data, &reading.iterator);
    if (!status) status = read_epochs(strategy, &reading, 2);
    struct digest digest = digest_bytes(reading.parts[0], &reading.parts[1].value, sizeof(reading.parts[1].value));
    digest = status ? digest_refusal(status) : digest_bytes(digest, shape.dims, (size_t)shape.rank * sizeof(int64_t));
    ls_iterator_free(reading.iterator);
    ls_dataset_free(data);
    ls_strategy_free(strategy);
    return digest;
}

/* ---- options ---- */

static const ls_map flips[] = {{.kind = LS_MAP_FLIP}, {.kind = (ls_map_kind)0}};

#define OPTIONS(...)                                                                                                   \
    { .size = sizeof(ls_dataset_options), __VA_ARGS__ }
#define TEXT OPTIONS(.tokens = LS_TOKENS_BYTES, .context = 5)
static const struct {
    open_fn *open;
    ls_dataset_options base;
    struct change change;
} readings[] = {
    {few_images_open, OPTIONS(.seed = 1), CHANGE(ls_dataset_options, batch_size, 7)},
    {ls_dataset_digits, OPTIONS(.limit = 5), CHANGE(ls_dataset_options, split, LS_TEST)},
    {few_images_open, OPTIONS(.seed = 1), CHANGE(ls_dataset_options, shuffle, LS_SHUFFLE_NEVER)},
    {few_images_open, OPTIONS(.seed = 1), CHANGE(ls_dataset_options, seed, 2)},
    {few_images_open, OPTIONS(.seed = 1), CHANGE(ls_dataset_options, repeat, 3)},
    {few_images_open, OPTIONS(.seed = 1), CHANGE(ls_dataset_options, limit, 9)},
    {few_images_open, OPTIONS(.batch_size = 7), CHANGE(ls_dataset_options, drop_remainder, true)},
    {few_images_open, OPTIONS(.batch_size = 7), CHANGE(ls_dataset_options, division, 7)},
    {few_images_open, OPTIONS(.batch_size = 7), CHANGE(ls_dataset_options, auto_shard, 7)},
    {few_images_open, OPTIONS(.batch_size = 7), CHANGE(ls_dataset_options, shard_hint, 7)},
    {ls_dataset_shapes, OPTIONS(.limit = 5), CHANGE(ls_dataset_options, image_height, 20)},
    {ls_dataset_shapes, OPTIONS(.limit = 5), CHANGE(ls_dataset_options, image_width, 20)},
    {open_images, OPTIONS(.seed = 1), CHANGE(ls_dataset_options, image_channels, 1)},
    {open_images, OPTIONS(.image_height = 8, .image_width = 8), CHANGE(ls_dataset_options, scaled_decode, true)},
    {open_damaged, OPTIONS(.damage = LS_DAMAGE_SKIPPED), CHANGE(ls_dataset_options, damage, LS_DAMAGE_FAILS)},
    {few_images_open, OPTIONS(.seed = 1), CHANGE(ls_dataset_options, skip, 2)},
    {few_images_open, OPTIONS(.seed = 1), CHANGE(ls_dataset_options, shuffle_buffer, 3)},
    {few_images_open, OPTIONS(.seed = 1), CHANGE(ls_dataset_options, maps, flips)},
    {few_images_open, OPTIONS(.seed = 1), CHANGE(ls_dataset_options, workers, 10000)},
    {few_images_open, OPTIONS(.seed = 1), CHANGE(ls_dataset_options, prefetch, 1000000)},
    {open_records, OPTIONS(.shuffle = LS_SHUFFLE_NEVER), CHANGE(ls_dataset_options, interleave, 2)},
    {open_records, OPTIONS(.shuffle = LS_SHUFFLE_NEVER, .interleave = 2), CHANGE(ls_dataset_options, block_length, 2)},
    {few_images_open, OPTIONS(.seed = 1), CHANGE(ls_dataset_options, ids, true)},
    {few_images_open, OPTIONS(.seed = 1), CHANGE(ls_dataset_options, validation_split, 0.5)},
    {few_images_open, OPTIONS(.validation_split = 0.5), CHANGE(ls_dataset_options, part, LS_PART_VALIDATION)},
    {open_table, OPTIONS(.target = "c"), CHANGE(ls_dataset_options, target, "a")},
    {open_table, OPTIONS(.target = "c"), CHANGE(ls_dataset_options, target_type, LS_TARGET_NUMBERS)},
    {open_table, OPTIONS(.target = "c"), CHANGE(ls_dataset_options, without, "a")},
    {open_table, OPTIONS(.target = "c"), CHANGE(ls_dataset_options, separator, ';')},
    {open_tokens, TEXT, CHANGE(ls_dataset_options, tokens, LS_TOKENS_CHARS)},
    {open_tokens, TEXT, CHANGE(ls_dataset_options, context, 4)},
    {open_tokens, TEXT, CHANGE(ls_dataset_options, stride, 2)},
    {open_tokens, TEXT, CHANGE(ls_dataset_options, vocabulary, 7)},
    {open_table, OPTIONS(.target = "c"),
     CHANGE(ls_dataset_options, transform,
            "{\"columns\": [{\"name\": \"b\", \"mean\": 7, \"deviation\": 2}], \"target\": {\"name\": \"c\"}}")},
};

TEST_EACH(every_field_of_dataset_options_counts, COUNT_OF(readings)) {
    const struct digest base = read_all(readings[_i].open, &readings[_i].base);
    ls_dataset_options changed = readings[_i].base;
    ck_assert_msg(!base.refused, "%s", ls_error());
    ck_assert(read_all(readings[_i].open, &readings[_i].base).value == base.value);
    change_field(&changed, &readings[_i].change);
    ck_assert_msg(differs(base, read_all(readings[_i].open, &changed)), "%s is ignored", readings[_i].change.field);
}

/* ---- arrays ---- */

static const float numbers[6] = {1, 2, 3, 4, 5, 6}, twice[6] = {2, 4, 6, 8, 10, 12};
static const int32_t classes[6] = {0, 1, 2, 0, 1, 2}, others[6] = {2, 1, 0, 2, 1, 0};
#define ARRAYS(...)                                                                                                    \
    { .size = sizeof(ls_arrays), .count = 6, .features = numbers, .shape = {1, {1}}, __VA_ARGS__ }
static const ls_arrays labelled = ARRAYS(.labels = classes, .classes = 3);
static const ls_arrays targeted = ARRAYS(.targets = numbers);

static const struct {
    const ls_arrays *base;
    struct change change;
} array_changes[] = {
    {&labelled, CHANGE(ls_arrays, count, 5)},
    {&labelled, CHANGE(ls_arrays, features, twice)},
    {&labelled, CHANGE(ls_arrays, shape, {2, {1, 1}})},
    {&labelled, CHANGE(ls_arrays, labels, others)},
    {&labelled, CHANGE(ls_arrays, classes, 2)},
    {&targeted, CHANGE(ls_arrays, targets, twice)},
    {&targeted, CHANGE(ls_arrays, target_shape, {1, {-1}})},
    {&labelled, CHANGE(ls_arrays, sample_weights, twice)},
    {&labelled, CHANGE(ls_arrays, ids, classes)},
};

static const ls_arrays *opened;
static ls_status open_arrays(const ls_dataset_options *options, ls_dataset **data) {
    return ls_dataset_from_arrays(opened, options, data);
}

static struct digest read_arrays(const ls_arrays *arrays) {
    opened = arrays;
    return read_all(open_arrays, LS_DATASET(.shuffle = LS_SHUFFLE_NEVER));
}

TEST_EACH(every_field_of_arrays_counts, COUNT_OF(array_changes)) {
    ls_arrays changed = *array_changes[_i].base;
    change_field(&changed, &array_changes[_i].change);
    ck_assert_msg(differs(read_arrays(array_changes[_i].base), read_arrays(&changed)), "%s is ignored",
                  array_changes[_i].change.field);
}

/* ---- maps ---- */

static ls_status add_context(void *context, const ls_map_call *call) {
    for (int64_t i = 0; i < 72; i++) call->output[i % (call->shape.rank ? 72 : 1)] = call->input[i] + 1;
    if (context) call->output[0] += *(const float *)context;
    return LS_OK;
}
static ls_status negate(void *context, const ls_map_call *call) {
    (void)context;
    for (int64_t i = 0; i < 72; i++) call->output[i] = -call->input[i];
    return LS_OK;
}
static float seven = 7;

static const ls_map maps[] = {
    {.kind = LS_MAP_FLIP},
    {.kind = LS_MAP_RANDOM_CROP, .height = 4, .width = 4},
    {.kind = LS_MAP_CENTRAL_CROP, .height = 4, .width = 4},
    {.kind = LS_MAP_BRIGHTNESS, .amount = 0.2F},
    {.kind = LS_MAP_CONTRAST, .amount = 0.2F},
    {.kind = LS_MAP_NORMALISE, .mean = {0.1F, 0.1F}, .deviation = {1, 1}},
    {.kind = LS_MAP_RESCALE, .amount = 3},
    {.kind = LS_MAP_FUNCTION, .function = add_context},
    {.kind = LS_MAP_ROTATION, .factor = {0.1F, 0.2F}},
    {.kind = LS_MAP_ZOOM, .height_factor = {0.1F, 0.2F}, .fill_mode = LS_FILL_MODE_CONSTANT},
    {.kind = LS_MAP_TRANSLATION, .height_factor = {0.1F, 0.2F}, .fill_mode = LS_FILL_MODE_CONSTANT},
    {.kind = LS_MAP_HUE, .factor = {0.1F, 0.2F}},
    {.kind = LS_MAP_SATURATION, .factor = {0.1F, 0.2F}},
    {.kind = LS_MAP_MIX_UP, .amount = 0.2F},
    {.kind = LS_MAP_ERASING, .factor = {0.9F, 1}, .fill_mode = LS_FILL_MODE_CONSTANT},
};

static const struct change map_changes[] = {
    CHANGE(ls_map, kind, (ls_map_kind)99),
    CHANGE(ls_map, height, 3),
    CHANGE(ls_map, width, 3),
    CHANGE(ls_map, padding, 1),
    CHANGE(ls_map, amount, 0.5F),
    CHANGE(ls_map, offset, 0.5F),
    CHANGE(ls_map, mean, {0.5F, 0.5F}),
    CHANGE(ls_map, deviation, {2, 2}),
    CHANGE(ls_map, function, negate),
    CHANGE(ls_map, context, &seven),
    CHANGE(ls_map, shape, {1, {72}}),
    CHANGE(ls_map, factor, {0.5F, 0.6F}),
    CHANGE(ls_map, height_factor, {0.5F, 0.6F}),
    CHANGE(ls_map, width_factor, {0.5F, 0.6F}),
    CHANGE(ls_map, scale, {0.5F, 0.6F}),
    CHANGE(ls_map, fill_mode, LS_FILL_MODE_NEAREST),
    CHANGE(ls_map, fill_value, 0.5F),
};

static struct digest run_map(const ls_map *map) {
    const ls_map list[] = {*map, {.kind = (ls_map_kind)0}};
    bool colours = map->kind == LS_MAP_HUE || map->kind == LS_MAP_SATURATION;
    return read_all(colours ? ls_dataset_shapes : few_images_open,
                    LS_DATASET(.limit = 6, .shuffle = LS_SHUFFLE_NEVER, .maps = list));
}

TEST_EACH(every_field_of_maps_counts, COUNT_OF(maps)) {
    const struct digest base = run_map(&maps[_i]);
    for (size_t i = 0; i < COUNT_OF(map_changes); i++) {
        ls_map changed = maps[_i];
        change_field(&changed, &map_changes[i]);
        ck_assert_msg(differs(base, run_map(&changed)), "map %d: %s is ignored", (int)maps[_i].kind,
                      map_changes[i].field);
    }
}

/* ---- where a function must look ---- */

static ls_status write_images(const char *folder, ls_file_format format, const ls_write_options *options) {
    ls_dataset *data = NULL;
    ls_status status = ls_dataset_shapes(LS_DATASET(.limit = DRAWN), &data);
    if (!status) status = ls_dataset_write(data, format, in_scratch(folder), options);
    ls_dataset_free(data);
    return status;
}

static bool is_there(const char *name) {
    return access(in_scratch(name), F_OK) == 0;
}

FIELD(ls_write_options, name) {
    assert_ok(write_images("named", LS_FORMAT_TFRECORD, LS_WRITE(.name = "mine")));
    return is_there("named/mine-train.tfrecord-00000-of-00001");
}

FIELD(ls_write_options, shards) {
    assert_ok(write_images("sharded", LS_FORMAT_TFRECORD, LS_WRITE(.shards = 3)));
    return is_there("sharded/shapes-train.tfrecord-00002-of-00003");
}

static off_t size_of(const char *name) {
    struct stat info;
    ck_assert_msg(!stat(in_scratch(name), &info), "there is no %s", name);
    return info.st_size;
}

FIELD(ls_write_options, quality) {
    assert_ok(write_images("good", LS_FORMAT_JPEG, LS_WRITE()));
    assert_ok(write_images("poor", LS_FORMAT_JPEG, LS_WRITE(.quality = 5)));
    return size_of("good/train/circle/000001.jpg") > size_of("poor/train/circle/000001.jpg");
}

/* Once in memory an example is there when its file is not. */
static bool reads_again(bool cache) {
    char command[512];
    ls_strategy *strategy = two_devices();
    ls_dataset *data = NULL;
    assert_ok(write_images("cached", LS_FORMAT_JPEG, NULL));
    assert_ok(ls_dataset_images(in_scratch("cached"), LS_DATASET(.cache = cache, .workers = -1), &data));
    struct reading reading = {.width = 64 * 64 * 3};
    assert_ok(ls_iterator_new(strategy, data, &reading.iterator));
    assert_ok(read_epochs(strategy, &reading, 1));
    (void)snprintf(command, sizeof(command), "rm -r '%s'", in_scratch("cached"));
    ck_assert_int_eq(system(command), 0);
    ls_status again = read_epochs(strategy, &reading, 1);
    ls_iterator_free(reading.iterator);
    ls_dataset_free(data);
    ls_strategy_free(strategy);
    return !again;
}

FIELD(ls_dataset_options, cache) {
    return reads_again(true) && !reads_again(false);
}

/* That all tests share: images as JPEG, some of them damaged, and records in two files. */
static void make_folders(void) {
    make_scratch();
    assert_ok(write_images("images", LS_FORMAT_JPEG, NULL));
    assert_ok(write_images("damaged", LS_FORMAT_JPEG, NULL));
    assert_ok(write_images("records", LS_FORMAT_TFRECORD, LS_WRITE(.shards = 2)));
    ck_assert_int_eq(truncate(in_scratch("damaged/train/circle/000001.jpg"), 300), 0);
}

TESTS("fields", .seconds = 60, .begin = make_folders, .end = remove_scratch)
