/* Reading and writing of safetensors headers. The input may be anything: every number is checked before it is used.
 * This file alone knows cJSON in this room. */
#include "checkpoint/safetensors.h"

#include <cjson/cJSON.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/json.h"
#include "base/new.h"
#include "base/plain.h"
#include "base/text.h"

#define LENGTH     8                  /* bytes of the header's length; the data begins at a multiple of as many */
#define MAX_NUMBER 9007199254740991.0 /* above it JSON's numbers are not exact */

static const struct {
    const char *name;
    size_t size;
} types[] = {{"BOOL", 1}, {"U8", 1},  {"I8", 1},  {"F8_E5M2", 1}, {"F8_E4M3", 1}, {"I16", 2}, {"U16", 2}, {"F16", 2},
             {"BF16", 2}, {"I32", 4}, {"U32", 4}, {"F32", 4},     {"F64", 8},     {"I64", 8}, {"U64", 8}};

/* Bytes an element; 0 for an unknown type. */
static size_t type_size(const char *name) {
    for (size_t i = 0; i < sizeof(types) / sizeof(types[0]); i++)
        if (!strcmp(types[i].name, name)) return types[i].size;
    return 0;
}

/* False where the bytes of the tensor are too many to be counted. */
static bool count_bytes(const char *type, const ls_shape *shape, size_t *bytes) {
    *bytes = type_size(type);
    for (int i = 0; i < shape->rank; i++)
        if (shape->dims[i] < 0 || __builtin_mul_overflow(*bytes, (size_t)shape->dims[i], bytes)) return false;
    return true;
}

/* ---- writing ---- */

/* Wide types come first, as the reference implementation writes them: every tensor is then aligned to its elements
 * without gaps, which the format forbids. The digest, of bytes, is thereby the last one. */
static int by_size_and_name(const void *left, const void *right) {
    const struct ls_safetensor *a = left, *b = right;
    size_t one = type_size(a->type), other = type_size(b->type);
    return one != other ? (one < other) - (one > other) : strcmp(a->name, b->name);
}

static ls_status place_tensors(struct ls_safetensors *file) {
    qsort(file->tensors, file->tensor_count, sizeof(*file->tensors), by_size_and_name);
    file->size = 0;
    for (size_t i = 0; i < file->tensor_count; i++) {
        struct ls_safetensor *tensor = &file->tensors[i];
        size_t bytes;
        if (i && !strcmp(tensor->name, tensor[-1].name))
            return ls_fail(LS_INVALID_ARGUMENT, "tensor '%s' is there twice", tensor->name);
        if (tensor->unread || !type_size(tensor->type) || !count_bytes(tensor->type, &tensor->shape, &bytes) ||
            __builtin_add_overflow(file->size, bytes, &tensor->end))
            return ls_fail(LS_INVALID_ARGUMENT, "tensor '%s': no such type or shape", tensor->name);
        tensor->begin = file->size;
        file->size = tensor->end;
    }
    return LS_OK;
}

static void put_tensor(FILE *out, const struct ls_safetensor *tensor) {
    ls_json_print(out, "%s:{'dtype':%s,'shape':[", tensor->name, tensor->type);
    for (int i = 0; i < tensor->shape.rank; i++)
        (void)fprintf(out, i ? ",%lld" : "%lld", (long long)tensor->shape.dims[i]);
    (void)fprintf(out, "],\"data_offsets\":[%zu,%zu]}", tensor->begin, tensor->end);
}

static void put_header(FILE *out, const struct ls_safetensors *file) {
    const char *comma = "";
    for (int i = 0; i < LENGTH; i++) (void)fputc(0, out); /* the length, which comes last */
    (void)fputc('{', out);
    for (size_t i = 0; i < file->text_count; i++)
        ls_json_print(out, i ? ",%s:%s" : "'__metadata__':{%s:%s", file->texts[i].name, file->texts[i].value);
    if (file->text_count) comma = ",", (void)fputc('}', out);
    for (size_t i = 0; i < file->tensor_count; i++, comma = ",") {
        (void)fputs(comma, out);
        put_tensor(out, &file->tensors[i]);
    }
    (void)fputc('}', out);
    while (ftell(out) % LENGTH) (void)fputc(' ', out);
}

ls_status ls_safetensors_header(struct ls_safetensors *file, char **header) {
    ls_status status = place_tensors(file);
    if (status) return status;
    struct ls_text made;
    FILE *out = ls_text_open(&made, 1);
    if (out) put_header(out, file);
    status = ls_text_close(&made, LS_OK, "a header", header);
    if (status) return status;
    for (int i = 0; i < LENGTH; i++) (*header)[i] = (char)((uint64_t)(made.size - LENGTH) >> 8 * i);
    file->data = made.size;
    return LS_OK;
}

/* ---- reading ---- */

static bool read_safetensors_number(const cJSON *item, size_t *number) {
    if (!cJSON_IsNumber(item)) return false;
    double value = item->valuedouble;
    if (!(value >= 0 && value <= MAX_NUMBER) || value != floor(value)) return false;
    *number = (size_t)value;
    return true;
}

/* And the bytes that they make of an element's; false where they are too many to be counted. */
static bool read_extents(const cJSON *list, struct ls_safetensor *tensor, size_t *bytes) {
    bool few = true;
    if (!cJSON_IsArray(list)) return false;
    for (const cJSON *item = list->child; item; item = item->next, tensor->extents++) {
        size_t extent;
        if (!read_safetensors_number(item, &extent)) return false;
        few = few && !__builtin_mul_overflow(*bytes, extent, bytes);
        if (tensor->extents < LS_MAX_RANK) tensor->shape.dims[tensor->shape.rank++] = (int64_t)extent;
    }
    if (!few) *bytes = SIZE_MAX;
    if (tensor->extents <= LS_MAX_RANK) return true;
    tensor->shape = (ls_shape){0};
    tensor->unread = true;
    return true;
}

static bool read_offsets(const cJSON *list, size_t *begin, size_t *end) {
    return cJSON_IsArray(list) && list->child && list->child->next && !list->child->next->next &&
           read_safetensors_number(list->child, begin) && read_safetensors_number(list->child->next, end) &&
           *begin <= *end;
}

static ls_status read_tensor(const cJSON *item, struct ls_safetensor *tensor) {
    const cJSON *type = cJSON_GetObjectItemCaseSensitive(item, "dtype");
    if (!cJSON_IsObject(item) || !cJSON_IsString(type))
        return ls_fail(LS_DATA_LOSS, "tensor '%.80s' has no dtype", item->string);
    *tensor = (struct ls_safetensor){.name = item->string, .type = type->valuestring};
    size_t element = type_size(tensor->type), bytes = element;
    tensor->unread = !element;
    if (!read_extents(cJSON_GetObjectItemCaseSensitive(item, "shape"), tensor, &bytes))
        return ls_fail(LS_DATA_LOSS, "tensor '%.80s' has no shape of whole numbers", item->string);
    if (!read_offsets(cJSON_GetObjectItemCaseSensitive(item, "data_offsets"), &tensor->begin, &tensor->end) ||
        (element && bytes != tensor->end - tensor->begin))
        return ls_fail(LS_DATA_LOSS, "tensor '%.80s' has data_offsets that do not fit its shape", item->string);
    return LS_OK;
}

static ls_status read_texts(const cJSON *object, struct ls_safetensors *file) {
    if (file->texts || !cJSON_IsObject(object)) return ls_fail(LS_DATA_LOSS, "__metadata__ is not one object");
    file->texts = ls_alloc_array((size_t)cJSON_GetArraySize(object), sizeof(*file->texts));
    if (!file->texts) return ls_fail_memory("metadata", 1);
    for (const cJSON *item = object->child; item; item = item->next) {
        if (!cJSON_IsString(item)) return ls_fail(LS_DATA_LOSS, "metadata '%.80s' is no text", item->string);
        file->texts[file->text_count++] = (struct ls_safetensors_text){item->string, item->valuestring};
    }
    return LS_OK;
}

static int by_name(const void *left, const void *right) {
    return strcmp(((const struct ls_safetensor *)left)->name, ((const struct ls_safetensor *)right)->name);
}

static int by_place(const void *left, const void *right) {
    const struct ls_safetensor *a = left, *b = right;
    if (a->begin != b->begin) return a->begin < b->begin ? -1 : 1;
    return a->end != b->end ? (a->end < b->end ? -1 : 1) : by_name(left, right);
}

/* Every name once, every byte of the data in one tensor. Bytes between tensors, or in two of them, would be a place to
 * hide data, and the format forbids both. */
static ls_status check_tensors(struct ls_safetensors *file) {
    struct ls_safetensor *tensors = file->tensors;
    size_t end = 0;
    qsort(tensors, file->tensor_count, sizeof(*tensors), by_name);
    for (size_t i = 1; i < file->tensor_count; i++)
        if (!strcmp(tensors[i - 1].name, tensors[i].name))
            return ls_fail(LS_DATA_LOSS, "tensor '%.80s' is there twice", tensors[i].name);
    qsort(tensors, file->tensor_count, sizeof(*tensors), by_place);
    for (size_t i = 0; i < file->tensor_count; end = tensors[i++].end)
        if (tensors[i].begin != end)
            return ls_fail(LS_DATA_LOSS, "tensor '%.80s' begins at byte %zu of the data instead of %zu",
                           tensors[i].name, tensors[i].begin, end);
    if (end == file->size) return LS_OK;
    return ls_fail(LS_DATA_LOSS, "the header tells of %zu bytes of data, the file has %zu", end, file->size);
}

static ls_status read_items(const cJSON *root, struct ls_safetensors *file) {
    if (!cJSON_IsObject(root)) return ls_fail(LS_DATA_LOSS, "the header is no JSON object");
    size_t count = (size_t)cJSON_GetArraySize(root);
    file->tensors = ls_alloc_array(count, sizeof(*file->tensors));
    if (!file->tensors) return ls_fail_memory("tensors", count * sizeof(*file->tensors));
    for (const cJSON *item = root->child; item; item = item->next) {
        ls_status status = strcmp(item->string, "__metadata__") ? read_tensor(item, &file->tensors[file->tensor_count])
                                                                : read_texts(item, file);
        if (status) return status;
        if (strcmp(item->string, "__metadata__")) file->tensor_count++;
    }
    return check_tensors(file);
}

/* The JSON object, and nothing but blanks behind it. */
static ls_status read_header(const char *text, size_t size, struct ls_safetensors *file) {
    const char *end = NULL;
    if (text[0] != '{') return ls_fail(LS_DATA_LOSS, "the header does not begin with '{'");
    LS_PLAIN;
    file->tree = cJSON_ParseWithLengthOpts(text, size, &end, false);
    if (!file->tree) return ls_fail(LS_DATA_LOSS, "the header is no JSON");
    for (; end < text + size; end++)
        if (*end != ' ') return ls_fail(LS_DATA_LOSS, "the header has something behind its JSON object");
    return read_items(file->tree, file);
}

ls_status ls_safetensors_parse(const uint8_t *bytes, size_t size, struct ls_safetensors *file) {
    struct ls_safetensors read = {0};
    uint64_t length = 0;
    if (size <= LENGTH) return ls_fail(LS_DATA_LOSS, "it has only %zu bytes", size);
    for (int i = 0; i < LENGTH; i++) length |= (uint64_t)bytes[i] << 8 * i;
    if (!length || length > LS_SAFETENSORS_HEADER || length > size - LENGTH)
        return ls_fail(LS_DATA_LOSS, "a header of %llu bytes cannot be in a file of %zu", (unsigned long long)length,
                       size);
    read.data = LENGTH + (size_t)length;
    read.size = size - read.data;
    ls_status status = read_header((const char *)bytes + LENGTH, (size_t)length, &read);
    return LS_HAND_OVER(status, file, read, ls_safetensors_free(&read));
}

void ls_safetensors_free(struct ls_safetensors *file) {
    ls_free(file->tensors);
    ls_free(file->texts);
    cJSON_Delete(file->tree);
    *file = (struct ls_safetensors){0};
}

const struct ls_safetensor *ls_safetensors_find(const struct ls_safetensors *file, const char *name) {
    for (size_t i = 0; i < file->tensor_count; i++)
        if (!strcmp(file->tensors[i].name, name)) return &file->tensors[i];
    return NULL;
}

const char *ls_safetensors_text(const struct ls_safetensors *file, const char *name) {
    for (size_t i = 0; i < file->text_count; i++)
        if (!strcmp(file->texts[i].name, name)) return file->texts[i].value;
    return NULL;
}
