/* Arrays and attributes. */
#include "weights/hdf5_private.h"

#include <string.h>

#include "base/grow.h"
#include "base/shape.h"
#include "weights/hdf5.h"

#define MAX_TEXT 4096 /* bytes of one text that is read: names */
enum type_class { CLASS_FLOAT = 1, CLASS_STRING = 3, CLASS_VARIABLE_LENGTH = 9 };
enum layout_class { COMPACT = 0, CONTIGUOUS, CHUNKED };

/* ---- arrays ---- */

static void check_float32(struct ls_hdf5 *file, uint64_t at) {
    uint64_t type = ls_hdf5_number(file, at, 1) & 15, order = ls_hdf5_number(file, at + 1, 1) & 0x41;
    if (type != CLASS_FLOAT || order || ls_hdf5_number(file, at + 4, 4) != sizeof(float))
        ls_hdf5_fault(file, LS_UNIMPLEMENTED, at, "of another type than little-endian float32");
}

static void find_values(struct ls_hdf5 *file, uint64_t at, uint64_t size, struct ls_hdf5_array *array) {
    uint64_t version = ls_hdf5_number(file, at, 1), kind = ls_hdf5_number(file, at + 1, 1), place = at + 4, room = 0;
    if (version < 3 || version > 4) ls_hdf5_fault(file, LS_UNIMPLEMENTED, at, "of another layout");
    if (kind == COMPACT) {
        room = ls_hdf5_number(file, at + 2, 2);
    } else if (kind == CONTIGUOUS) {
        place = ls_hdf5_number(file, at + 2, 8);
        room = ls_hdf5_number(file, at + 10, 8);
    } else {
        ls_hdf5_fault(file, LS_UNIMPLEMENTED, at,
                      kind == CHUNKED ? "in chunks, as compressed ones are" : "of another layout");
    }
    if (!file->fault && size != room)
        ls_hdf5_fault(file, LS_DATA_LOSS, at, "an array whose bytes do not fit its shape");
    if (size && ls_hdf5_inside(file, place, size)) array->values = file->bytes + place;
}

ls_status ls_hdf5_values_read(struct ls_hdf5 *file, uint64_t object, struct ls_hdf5_array *array) {
    struct ls_hdf5_message space, type, layout;
    struct ls_hdf5_array read = {.present = ls_hdf5_message(file, object, LS_HDF5_LAYOUT, &layout)};
    uint64_t size;
    if (read.present) {
        if (!ls_hdf5_message(file, object, LS_HDF5_DATASPACE, &space) ||
            !ls_hdf5_message(file, object, LS_HDF5_DATATYPE, &type))
            ls_hdf5_fault(file, LS_DATA_LOSS, object, "an array without type or shape");
        if (!file->fault) check_float32(file, type.at);
        if (!file->fault) ls_hdf5_shape(file, space.at, &read.shape);
        int64_t count = ls_shape_count(&read.shape);
        if (count < 0 || __builtin_mul_overflow((uint64_t)count, sizeof(float), &size))
            ls_hdf5_fault(file, LS_DATA_LOSS, object, "a shape beyond all files");
        else if (!file->fault)
            find_values(file, layout.at, size, &read);
    }
    if (read.present && file->fault == LS_UNIMPLEMENTED) { /* of this array alone */
        read = (struct ls_hdf5_array){.present = true, .unread = file->what};
        file->fault = LS_OK;
    }
    if (!file->fault) *array = read;
    return ls_hdf5_status(file);
}

/* ---- attributes ---- */

/* The places of an attribute's parts. */
struct attribute {
    uint64_t name, type, space, data, end, name_size;
};

static uint64_t rounded(uint64_t size, bool pads) {
    return pads ? (size + 7) & ~UINT64_C(7) : size;
}

static void find_parts(struct ls_hdf5 *file, const struct ls_hdf5_message *message, struct attribute *attribute) {
    uint64_t version = ls_hdf5_number(file, message->at, 1), type_size = ls_hdf5_number(file, message->at + 4, 2);
    uint64_t space_size = ls_hdf5_number(file, message->at + 6, 2);
    bool pads = version == 1;
    if (version < 1 || version > 3) ls_hdf5_fault(file, LS_DATA_LOSS, message->at, "no attribute");
    attribute->name_size = ls_hdf5_number(file, message->at + 2, 2);
    attribute->name = message->at + (version == 3 ? 9 : 8);
    attribute->type = attribute->name + rounded(attribute->name_size, pads);
    attribute->space = attribute->type + rounded(type_size, pads);
    attribute->data = attribute->space + rounded(space_size, pads);
    attribute->end = message->at + message->size;
    if (attribute->data > attribute->end || !attribute->name_size)
        ls_hdf5_fault(file, LS_DATA_LOSS, message->at, "an attribute that does not fit");
}

static bool find_attribute(struct ls_hdf5 *file, uint64_t object, const char *name, struct attribute *attribute) {
    struct ls_hdf5_walk walk;
    struct ls_hdf5_message message;
    ls_hdf5_walk_begin(file, object, &walk);
    while (ls_hdf5_walk_next(&walk, &message)) {
        if (message.kind != LS_HDF5_ATTRIBUTE) continue;
        find_parts(file, &message, attribute);
        if (file->fault) return false;
        const char *there = (const char *)file->bytes + attribute->name;
        if (strnlen(there, attribute->name_size) == strlen(name) && !memcmp(there, name, strlen(name))) return true;
    }
    return false;
}

/* The object of a global heap that an element of variable length refers to. */
static uint64_t find_in_heap(struct ls_hdf5 *file, uint64_t heap, uint64_t index, uint64_t *size) {
    if (!ls_hdf5_magic(file, heap, "GCOL")) return 0;
    uint64_t end = heap + ls_hdf5_number(file, heap + 8, 8);
    if (!ls_hdf5_inside(file, heap, end - heap)) return 0;
    for (uint64_t at = heap + 16; end - at >= 16 && at < end && ls_hdf5_step(file, at);) {
        uint64_t number = ls_hdf5_number(file, at, 2);
        *size = ls_hdf5_number(file, at + 8, 8);
        if (*size > end - at - 16) break;
        if (number == index) return at + 16;
        if (!number) break; /* the free space, which comes last */
        at += 16 + rounded(*size, true);
    }
    ls_hdf5_fault(file, LS_DATA_LOSS, heap, "a text that is not where it should be");
    return 0;
}

/* Element index of an attribute of texts: as it is there, without what fills it up. */
static char *read_hdf5_values_text(struct ls_hdf5 *file, uint64_t type, uint64_t at) {
    uint64_t size = ls_hdf5_number(file, type + 4, 4);
    if ((ls_hdf5_number(file, type, 1) & 15) == CLASS_VARIABLE_LENGTH) {
        uint64_t length = ls_hdf5_number(file, at, 4), heap = ls_hdf5_number(file, at + 4, 8);
        at = find_in_heap(file, heap, ls_hdf5_number(file, at + 12, 4), &size);
        if (!file->fault && length > size) ls_hdf5_fault(file, LS_DATA_LOSS, at, "a text longer than its place");
        size = length;
    }
    if (size > MAX_TEXT) ls_hdf5_fault(file, LS_UNIMPLEMENTED, at, "a name of more than 4096 bytes");
    if (!ls_hdf5_inside(file, at, size) || !ls_hdf5_step(file, at)) return NULL;
    char *text = ls_alloc(size + 1);
    if (text) memcpy(text, file->bytes + at, size);
    if (!text) ls_hdf5_fault(file, LS_RESOURCE_EXHAUSTED, at, "no memory for a name");
    return text;
}

/* Bytes an element of texts has in the attribute; 0: these are no texts. */
static uint64_t element_size(struct ls_hdf5 *file, uint64_t type) {
    uint64_t kind = ls_hdf5_number(file, type, 1) & 15, variable = ls_hdf5_number(file, type + 1, 1) & 15;
    uint64_t size = ls_hdf5_number(file, type + 4, 4);
    if (kind == CLASS_VARIABLE_LENGTH && variable == 1) return size == 16 ? size : 0;
    return kind == CLASS_STRING ? size : 0;
}

static void read_texts(struct ls_hdf5 *file, const struct attribute *attribute, struct ls_hdf5_texts *texts) {
    ls_shape shape;
    uint64_t size = element_size(file, attribute->type);
    ls_hdf5_shape(file, attribute->space, &shape);
    int64_t count = file->fault ? 0 : ls_shape_count(&shape);
    if (!count) return; /* none, of whatever type */
    if (!size || count < 0 || (uint64_t)count > (attribute->end - attribute->data) / size) {
        ls_hdf5_fault(file, LS_DATA_LOSS, attribute->type, "an attribute that is no list of names");
        return;
    }
    if (LS_GROW(texts->texts, texts->capacity, texts->count + (size_t)count, 1, "names"))
        ls_hdf5_fault(file, LS_RESOURCE_EXHAUSTED, attribute->data, "no memory for names");
    for (uint64_t i = 0; !file->fault && i < (uint64_t)count; i++) {
        char *text = read_hdf5_values_text(file, attribute->type, attribute->data + i * size);
        if (text) texts->texts[texts->count++] = text;
    }
}

ls_status ls_hdf5_values_attribute(struct ls_hdf5 *file, uint64_t object, const char *name, bool *present,
                                   struct ls_hdf5_texts *texts) {
    struct attribute attribute;
    bool found = find_attribute(file, object, name, &attribute);
    if (found) read_texts(file, &attribute, texts);
    if (!file->fault) *present = found;
    return ls_hdf5_status(file);
}

void ls_hdf5_values_free_texts(struct ls_hdf5_texts *texts) {
    for (size_t i = 0; i < texts->count; i++) ls_free(texts->texts[i]);
    ls_free(texts->texts);
    *texts = (struct ls_hdf5_texts){0};
}
