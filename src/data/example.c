/* Examples through protobuf-c, in TensorFlow's wire form. */
#include "data/example.h"

#include <string.h>

#include "base/new.h"
#include "example.pb-c.h"

static const Ls__Feature *find_feature(const Ls__Example *message, const char *name, const char *other) {
    if (!message->features) return NULL;
    for (size_t i = 0; i < message->features->n_feature; i++) {
        const Ls__NamedFeature *named = message->features->feature[i];
        if (named->key && named->value && (!strcmp(named->key, name) || !strcmp(named->key, other)))
            return named->value;
    }
    return NULL;
}

static void take_image(const Ls__Feature *feature, struct ls_example *example) {
    if (!feature || feature->kind_case != LS__FEATURE__KIND_BYTES_LIST || feature->bytes_list->n_value != 1) return;
    example->image = feature->bytes_list->value[0].data;
    example->image_size = feature->bytes_list->value[0].len;
}

/* NULL unless they are floats. */
static const float *floats_of(const Ls__Feature *feature, int64_t *count) {
    if (!feature || feature->kind_case != LS__FEATURE__KIND_FLOAT_LIST) return NULL;
    *count = (int64_t)feature->float_list->n_value;
    return feature->float_list->value;
}

/* NULL unless they are integers. */
static const int64_t *integers_of(const Ls__Feature *feature, int64_t *count) {
    if (!feature || feature->kind_case != LS__FEATURE__KIND_INT64_LIST) return NULL;
    *count = (int64_t)feature->int64_list->n_value;
    return feature->int64_list->value;
}

/* A class, or numbers. */
static ls_status take_label(const char *name, const Ls__Example *message, struct ls_example *example) {
    const Ls__Feature *label = find_feature(message, "label", "image/class/label");
    int64_t count = 0;
    const int64_t *class = integers_of(label, &count);
    if (class && count == 1) example->label = *class;
    if (class && count == 1) return LS_OK;
    if (class)
        return ls_fail(LS_INVALID_ARGUMENT,
                       "the Example of %s has %lld integers 'label': it must have one, its class, or floats", name,
                       (long long)count);
    example->targets = floats_of(label, &example->target_count);
    if (!example->targets)
        return ls_fail(LS_INVALID_ARGUMENT,
                       "the Example of %s has no integer 'label' or 'image/class/label', nor floats", name);
    example->target_dims = integers_of(find_feature(message, "label_shape", "label_shape"), &example->target_rank);
    return LS_OK;
}

static ls_status take_weight(const char *name, const Ls__Example *message, struct ls_example *example) {
    int64_t count = 0;
    example->weight = floats_of(find_feature(message, "sample_weight", "sample_weight"), &count);
    if (!example->weight || count == 1) return LS_OK;
    return ls_fail(LS_INVALID_ARGUMENT, "the Example of %s has %lld floats 'sample_weight': it must have one", name,
                   (long long)count);
}

static ls_status take_fields(const char *name, const Ls__Example *message, struct ls_example *example) {
    take_image(find_feature(message, "image", "image/encoded"), example);
    example->features = floats_of(find_feature(message, "features", "features"), &example->feature_count);
    if (example->features) example->dims = integers_of(find_feature(message, "shape", "shape"), &example->rank);
    if (!example->image && !example->features)
        return ls_fail(LS_INVALID_ARGUMENT,
                       "the Example of %s has neither a byte string 'image' or 'image/encoded' nor floats 'features'",
                       name);
    ls_status status = take_label(name, message, example);
    return status ? status : take_weight(name, message, example);
}

ls_status ls_example_parse(const char *name, const uint8_t *bytes, size_t size, struct ls_example *example) {
    struct ls_example read = {0};
    bool short_of_memory = false;
    ProtobufCAllocator allocator = {ls_memory_noted, ls_memory_noted_free, &short_of_memory};
    Ls__Example *message = ls__example__unpack(&allocator, size, bytes);
    if (!message && short_of_memory) return ls_fail_memory(name, size);
    if (!message) return ls_fail(LS_DATA_LOSS, "%s is no tf.train.Example", name);
    read.message = message;
    ls_status status = take_fields(name, message, &read);
    return LS_HAND_OVER(status, example, read, ls_example_free(&read));
}

void ls_example_free(struct ls_example *example) {
    if (example->message) ls__example__free_unpacked(example->message, NULL);
    *example = (struct ls_example){0};
}

#define MOST_FEATURES 5

/* The parts of a message that is about to be packed. */
struct parts {
    Ls__Example example;
    Ls__Features features;
    Ls__NamedFeature named[MOST_FEATURES], *list[MOST_FEATURES];
    Ls__Feature feature[MOST_FEATURES];
    Ls__BytesList bytes;
    Ls__FloatList floats, targets, weight;
    Ls__Int64List label, shape, target_shape;
    ProtobufCBinaryData image;
    int64_t class;
};

static Ls__Feature *add_feature(struct parts *parts, char *name, Ls__Feature__KindCase kind) {
    size_t i = parts->features.n_feature++;
    ls__named_feature__init(&parts->named[i]);
    ls__feature__init(&parts->feature[i]);
    parts->named[i].key = name;
    parts->named[i].value = &parts->feature[i];
    parts->list[i] = &parts->named[i];
    parts->feature[i].kind_case = kind;
    return &parts->feature[i];
}

static void add_image(struct parts *parts, const struct ls_example *example) {
    static char name[] = "image";
    ls__bytes_list__init(&parts->bytes);
    parts->image = (ProtobufCBinaryData){example->image_size, (uint8_t *)example->image};
    parts->bytes.value = &parts->image;
    parts->bytes.n_value = 1;
    add_feature(parts, name, LS__FEATURE__KIND_BYTES_LIST)->bytes_list = &parts->bytes;
}

static void add_floats(struct parts *parts, char *name, const float *values, int64_t count, Ls__FloatList *list) {
    ls__float_list__init(list);
    list->value = (float *)values;
    list->n_value = (size_t)count;
    add_feature(parts, name, LS__FEATURE__KIND_FLOAT_LIST)->float_list = list;
}

static void add_integers(struct parts *parts, char *name, const int64_t *values, int64_t count, Ls__Int64List *list) {
    ls__int64_list__init(list);
    list->value = (int64_t *)values;
    list->n_value = (size_t)count;
    add_feature(parts, name, LS__FEATURE__KIND_INT64_LIST)->int64_list = list;
}

static void add_numbers(struct parts *parts, const struct ls_example *example) {
    static char features[] = "features", shape[] = "shape";
    add_floats(parts, features, example->features, example->feature_count, &parts->floats);
    add_integers(parts, shape, example->dims, example->rank, &parts->shape);
}

static void add_targets(struct parts *parts, const struct ls_example *example) {
    static char label[] = "label", shape[] = "label_shape", weight[] = "sample_weight";
    if (example->targets) {
        add_floats(parts, label, example->targets, example->target_count, &parts->targets);
        add_integers(parts, shape, example->target_dims, example->target_rank, &parts->target_shape);
    } else {
        parts->class = example->label;
        add_integers(parts, label, &parts->class, 1, &parts->label);
    }
    if (example->weight) add_floats(parts, weight, example->weight, 1, &parts->weight);
}

static void fill_parts(struct parts *parts, const struct ls_example *example) {
    ls__example__init(&parts->example);
    ls__features__init(&parts->features);
    parts->example.features = &parts->features;
    parts->features.feature = parts->list;
    if (example->image) add_image(parts, example);
    if (!example->image) add_numbers(parts, example);
    add_targets(parts, example);
}

ls_status ls_example_pack(const struct ls_example *example, uint8_t **bytes, size_t *size) {
    struct parts parts = {0};
    fill_parts(&parts, example);
    size_t length = ls__example__get_packed_size(&parts.example);
    uint8_t *packed = ls_alloc(length);
    if (!packed) return ls_fail_memory("an Example", length);
    *size = ls__example__pack(&parts.example, packed);
    *bytes = packed;
    return LS_OK;
}
