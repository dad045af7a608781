/* Examples through protobuf-c, in TensorFlow's wire form. */
#include "data/example.h"

#include <string.h>

#include "base/memory.h"
#include "base/status.h"
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

static void take_numbers(const Ls__Feature *feature, const Ls__Feature *shape, struct ls_example *example) {
    if (!feature || feature->kind_case != LS__FEATURE__KIND_FLOAT_LIST) return;
    example->features = feature->float_list->value;
    example->feature_count = (int64_t)feature->float_list->n_value;
    if (!shape || shape->kind_case != LS__FEATURE__KIND_INT64_LIST) return;
    example->dims = shape->int64_list->value;
    example->rank = (int64_t)shape->int64_list->n_value;
}

static ls_status take(const char *name, const Ls__Example *message, struct ls_example *example) {
    const Ls__Feature *label = find_feature(message, "label", "image/class/label");
    take_image(find_feature(message, "image", "image/encoded"), example);
    take_numbers(find_feature(message, "features", "features"), find_feature(message, "shape", "shape"), example);
    if (!example->image && !example->features)
        return ls_fail(LS_INVALID_ARGUMENT,
                       "the Example of %s has neither a byte string 'image' or 'image/encoded' nor floats 'features'",
                       name);
    if (!label || label->kind_case != LS__FEATURE__KIND_INT64_LIST || label->int64_list->n_value != 1)
        return ls_fail(LS_INVALID_ARGUMENT, "the Example of %s has no integer 'label' or 'image/class/label'", name);
    example->label = label->int64_list->value[0];
    return LS_OK;
}

ls_status ls_example_parse(const char *name, const uint8_t *bytes, size_t size, struct ls_example *example) {
    struct ls_example read = {0};
    Ls__Example *message = ls__example__unpack(NULL, size, bytes);
    if (!message) return ls_fail(LS_DATA_LOSS, "%s is no tf.train.Example", name);
    read.message = message;
    ls_status status = take(name, message, &read);
    if (status)
        ls_example_free(&read);
    else
        *example = read;
    return status;
}

void ls_example_free(struct ls_example *example) {
    if (example->message) ls__example__free_unpacked(example->message, NULL);
    *example = (struct ls_example){0};
}

/* The parts of a message that is about to be packed. */
struct parts {
    Ls__Example example;
    Ls__Features features;
    Ls__NamedFeature named[3], *list[3];
    Ls__Feature feature[3];
    Ls__BytesList bytes;
    Ls__FloatList floats;
    Ls__Int64List label, shape;
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

static void add_numbers(struct parts *parts, const struct ls_example *example) {
    static char features[] = "features", shape[] = "shape";
    ls__float_list__init(&parts->floats);
    ls__int64_list__init(&parts->shape);
    parts->floats.value = (float *)example->features;
    parts->floats.n_value = (size_t)example->feature_count;
    parts->shape.value = (int64_t *)example->dims;
    parts->shape.n_value = (size_t)example->rank;
    add_feature(parts, features, LS__FEATURE__KIND_FLOAT_LIST)->float_list = &parts->floats;
    add_feature(parts, shape, LS__FEATURE__KIND_INT64_LIST)->int64_list = &parts->shape;
}

static void fill(struct parts *parts, const struct ls_example *example) {
    static char label[] = "label";
    ls__example__init(&parts->example);
    ls__features__init(&parts->features);
    parts->example.features = &parts->features;
    parts->features.feature = parts->list;
    if (example->image) add_image(parts, example);
    if (!example->image) add_numbers(parts, example);
    ls__int64_list__init(&parts->label);
    parts->class = example->label;
    parts->label.value = &parts->class;
    parts->label.n_value = 1;
    add_feature(parts, label, LS__FEATURE__KIND_INT64_LIST)->int64_list = &parts->label;
}

ls_status ls_example_pack(const struct ls_example *example, uint8_t **bytes, size_t *size) {
    struct parts parts = {0};
    fill(&parts, example);
    size_t length = ls__example__get_packed_size(&parts.example);
    uint8_t *packed = ls_alloc(length);
    if (!packed) return ls_fail_memory("an Example", length);
    *size = ls__example__pack(&parts.example, packed);
    *bytes = packed;
    return LS_OK;
}
