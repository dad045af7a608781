/* .npy, versions 1 to 3: \x93NUMPY, version, length of the header, a Python dictionary with descr, fortran_order and
 * shape, then the elements. */
#include "data/npy.h"

#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/half.h"
#include "base/shape.h"
#include "base/status.h"
#include "data/pixels.h"
#include "data/sources.h"

#define MAGIC      "\x93NUMPY"
#define MAX_HEADER 65535

static ls_status fail_header(const char *name, const char *what) {
    return ls_fail(LS_DATA_LOSS, "'%s' is no .npy array: its header %s", name, what);
}

/* The text behind 'key': in the dictionary, or NULL without the key. The header is a Python literal. NumPy writes its
 * three keys with single quotes and sorted, so looking for a key with its quotes is enough. A type whose fields could
 * be called so is refused by parse_type. */
static const char *find_value(const char *header, const char *key) {
    const char *at = strstr(header, key);
    if (!at) return NULL;
    at += strlen(key);
    at += strspn(at, " ");
    return *at == ':' ? at + 1 + strspn(at + 1, " ") : NULL;
}

static ls_status parse_type(const char *name, const char *text, struct ls_npy *npy) {
    if (!text || (*text != '\'' && *text != '"')) return fail_header(name, "has no descr");
    char order = text[1], kind = order ? text[2] : 0, item = kind ? text[3] : 0;
    bool known = kind && item && strchr("uifb", kind) && strchr("1248", item) && text[4] == *text;
    if (!known || (kind == 'f' && item < '2') || (kind == 'b' && item != '1'))
        return ls_fail(LS_UNIMPLEMENTED, "'%s' has elements of type '%.*s': integers and floats are read", name,
                       (int)strcspn(text + 1, "'\""), text + 1);
    npy->kind = kind;
    npy->item = item - '0';
    npy->swapped = order == '>' && item != '1';
    return LS_OK;
}

static ls_status parse_shape(const char *name, const char *text, ls_shape *shape) {
    if (!text || *text++ != '(') return fail_header(name, "has no shape");
    for (shape->rank = 0; *text != ')'; shape->rank++) {
        char *end;
        if (shape->rank == LS_MAX_RANK)
            return ls_fail(LS_UNIMPLEMENTED, "'%s' has more than %d axes", name, LS_MAX_RANK);
        text += strspn(text, " ");
        long long extent = *text >= '0' && *text <= '9' ? strtoll(text, &end, 10) : -1;
        if (extent < 0 || extent == INT64_MAX) return fail_header(name, "has a bad shape");
        shape->dims[shape->rank] = extent;
        end += *end == 'L'; /* Python 2 wrote its long integers so */
        text = end + strspn(end, ", ");
    }
    return LS_OK;
}

static ls_status parse_dictionary(const char *name, const char *header, struct ls_npy *npy) {
    const char *order = find_value(header, "'fortran_order'");
    ls_status status = parse_type(name, find_value(header, "'descr'"), npy);
    if (!status) status = parse_shape(name, find_value(header, "'shape'"), &npy->shape);
    if (status) return status;
    if (!order) return fail_header(name, "has no fortran_order");
    npy->fortran = npy->shape.rank > 1 && strncmp(order, "False", 5) != 0;
    npy->count = ls_shape_count(&npy->shape);
    return npy->count < 0 ? fail_header(name, "has a shape too large for this machine") : LS_OK;
}

/* *start is where the dictionary begins, *length its length. */
static ls_status find_dictionary(const char *name, const uint8_t *bytes, size_t size, size_t *start, size_t *length) {
    if (size < 10 || memcmp(bytes, MAGIC, 6) != 0) return fail_header(name, "does not begin with \\x93NUMPY");
    *start = bytes[6] == 1 ? 10 : 12;
    if (bytes[6] < 1 || bytes[6] > 3 || size < *start) return fail_header(name, "has an unknown version");
    *length = (size_t)bytes[8] | (size_t)bytes[9] << 8;
    if (bytes[6] > 1) *length |= (size_t)bytes[10] << 16 | (size_t)bytes[11] << 24;
    if (*length > MAX_HEADER) return fail_header(name, "is too long");
    if (*length <= size - *start) return LS_OK;
    return ls_fail(LS_DATA_LOSS, "'%s' is truncated: its header ends at offset %zu, the data at %zu", name,
                   *start + *length, size);
}

ls_status ls_npy_parse(const char *name, const uint8_t *bytes, size_t size, struct ls_npy *npy) {
    char header[MAX_HEADER + 1];
    struct ls_npy read = {0};
    size_t start = 0, length = 0, need;
    ls_status status = find_dictionary(name, bytes, size, &start, &length);
    if (status) return status;
    memcpy(header, bytes + start, length);
    header[length] = 0;
    status = parse_dictionary(name, header, &read);
    if (status) return status;
    if (__builtin_mul_overflow((size_t)read.count, (size_t)read.item, &need) || need != size - start - length)
        return ls_fail(LS_DATA_LOSS, "'%s' is %s: %lld elements of %d bytes from offset %zu, the data ends at %zu",
                       name, need > size - start - length ? "truncated" : "longer than its header says",
                       (long long)read.count, read.item, start + length, size);
    read.values = bytes + start + length;
    *npy = read;
    return LS_OK;
}

/* The place of the index-th element, counted row by row. */
static int64_t offset_of(const struct ls_npy *npy, int64_t index) {
    int64_t place = 0, step = npy->count;
    if (!npy->fortran) return index;
    for (int axis = npy->shape.rank - 1; axis >= 0; axis--) {
        int64_t extent = npy->shape.dims[axis];
        step /= extent;
        place += index % extent * step;
        index /= extent;
    }
    return place;
}

static uint64_t bits_at(const struct ls_npy *npy, int64_t index) {
    const uint8_t *at = npy->values + (size_t)offset_of(npy, index) * (size_t)npy->item;
    uint64_t value = 0;
    for (int i = 0; i < npy->item; i++) value = value << 8 | at[npy->swapped ? i : npy->item - 1 - i];
    return value;
}

static double float_at(const struct ls_npy *npy, int64_t index) {
    uint64_t bits = bits_at(npy, index);
    uint32_t half = (uint32_t)bits;
    float single;
    double value;
    if (npy->kind != 'f') return (double)ls_npy_integer(npy, index);
    memcpy(&single, &half, sizeof(single));
    memcpy(&value, &bits, sizeof(value));
    return npy->item == 8 ? value : npy->item == 4 ? (double)single : (double)ls_half_to_float((uint16_t)bits);
}

void ls_npy_floats(const struct ls_npy *npy, int64_t first, int64_t count, bool unit, float *values) {
    const uint8_t *from = npy->values + (size_t)first * (size_t)npy->item;
    bool bytes = unit && npy->kind == 'u' && npy->item == 1;
    if (bytes && !npy->fortran)
        ls_pixels_to_unit(from, (size_t)count, values);
    else if (bytes)
        for (int64_t i = 0; i < count; i++) ls_pixels_to_unit(npy->values + offset_of(npy, first + i), 1, &values[i]);
    else if (npy->kind == 'f' && npy->item == 4 && !npy->swapped && !npy->fortran)
        memcpy(values, from, (size_t)count * sizeof(*values));
    else
        for (int64_t i = 0; i < count; i++) values[i] = (float)float_at(npy, first + i);
}

void ls_npy_bytes(const struct ls_npy *npy, int64_t first, int64_t count, uint8_t *bytes) {
    if (!npy->fortran)
        memcpy(bytes, npy->values + first, (size_t)count);
    else
        for (int64_t i = 0; i < count; i++) bytes[i] = npy->values[offset_of(npy, first + i)];
}

int64_t ls_npy_integer(const struct ls_npy *npy, int64_t index) {
    if (npy->kind == 'f') {
        double value = float_at(npy, index);
        return value > -9e18 && value < 9e18 ? (int64_t)floor(value) : INT64_MIN;
    }
    uint64_t value = bits_at(npy, index);
    int unused = 64 - 8 * npy->item;
    return npy->kind == 'i' ? (int64_t)(value << unused) >> unused : (int64_t)value;
}

/* The header is padded with blanks to 256 bytes, a multiple of 64, so that a reader which maps the file finds the
 * elements aligned. A tuple of one extent needs its comma: (3,). */
void ls_npy_header(const char *type, const ls_shape *shape, char header[LS_NPY_HEADER]) {
    char dims[LS_MAX_RANK * 24] = "";
    for (int i = 0; i < shape->rank; i++)
        (void)snprintf(dims + strlen(dims), sizeof(dims) - strlen(dims),
                       i + 1 < shape->rank || shape->rank == 1 ? "%lld, " : "%lld", (long long)shape->dims[i]);
    memset(header, ' ', LS_NPY_HEADER);
    memcpy(header, MAGIC "\x01\x00", 8);
    header[8] = (char)(LS_NPY_HEADER - 10);
    header[9] = 0;
    int length = snprintf(header + 10, LS_NPY_HEADER - 10, "{'descr': '%s', 'fortran_order': False, 'shape': (%s), }",
                          type, dims);
    header[10 + length] = ' ';
    header[LS_NPY_HEADER - 1] = '\n';
}
