/* A bias is a column; a matrix lies on its longer side; the kernels of one channel are an image each. */
#include "callbacks/weight_images.h"

#include "base/memory.h"
#include "base/status.h"
#include "data/image.h"

#define IMAGES 3 /* at most so many */

/* The place of element (image, row, column, channel) in the data. */
struct layout {
    int64_t count, height, width, channels;
    int64_t steps[4]; /* floats from one to the next */
};

/* Without extents of 1. */
static ls_shape squeeze(const ls_shape *shape) {
    ls_shape squeezed = {0};
    for (int i = 0; i < shape->rank; i++)
        if (shape->dims[i] != 1) squeezed.dims[squeezed.rank++] = shape->dims[i];
    return squeezed;
}

static bool find_layout(const ls_shape *variable, struct layout *layout) {
    ls_shape shape = squeeze(variable);
    const int64_t *dims = shape.dims;
    switch (shape.rank) {
    case 1:
        *layout = (struct layout){1, dims[0], 1, 1, {0, 1, 0, 0}};
        return true;
    case 2:
        *layout = (struct layout){1, dims[0], dims[1], 1, {0, dims[1], 1, 0}};
        if (dims[0] > dims[1]) *layout = (struct layout){1, dims[1], dims[0], 1, {0, 1, dims[1], 0}};
        return true;
    case 3:
        *layout = (struct layout){dims[2], dims[0], dims[1], 1, {1, dims[1] * dims[2], dims[2], 0}};
        return true;
    case 4:
        *layout = (struct layout){
            dims[0], dims[1], dims[2], dims[3], {dims[1] * dims[2] * dims[3], dims[2] * dims[3], dims[3], 1}};
        return dims[3] == 3;
    default:
        return false;
    }
}

/* [0, 1] as tf.image.convert_image_dtype makes bytes of it. */
static uint8_t to_pixel(float value) {
    float scaled = value * 255.5F;
    return scaled > 0 ? (uint8_t)(scaled < 255 ? scaled : 255) : 0; /* NaN is 0 */
}

static void draw(const struct layout *layout, int64_t image, const float *data, uint8_t *pixels) {
    const int64_t *steps = layout->steps;
    for (int64_t y = 0; y < layout->height; y++)
        for (int64_t x = 0; x < layout->width; x++)
            for (int64_t c = 0; c < layout->channels; c++)
                *pixels++ = to_pixel(data[image * steps[0] + y * steps[1] + x * steps[2] + c * steps[3]]);
}

static ls_status encode_image(const struct layout *layout, int64_t index, const float *data,
                              struct ls_event_bytes *png) {
    size_t size = (size_t)(layout->height * layout->width * layout->channels);
    LS_CLEANUP(ls_free_pointer) uint8_t *pixels = ls_alloc(size);
    uint8_t *bytes = NULL;
    if (!pixels) return ls_fail_memory("an image", size);
    draw(layout, index, data, pixels);
    const struct ls_image image = {(int)layout->height, (int)layout->width, (int)layout->channels, pixels};
    ls_status status = ls_png_encode(&image, &bytes, &png->size);
    png->data = bytes;
    return status;
}

ls_status ls_weight_images(struct ls_event_file *file, const char *tag, int64_t step, const ls_shape *shape,
                           const float *data) {
    struct layout layout;
    struct ls_event_bytes images[IMAGES] = {0};
    ls_status status = LS_OK;
    if (!find_layout(shape, &layout) || layout.height > LS_IMAGE_MAX_SIDE || layout.width > LS_IMAGE_MAX_SIDE)
        return LS_OK;
    int64_t count = layout.count < IMAGES ? layout.count : IMAGES;
    for (int64_t i = 0; !status && i < count; i++) status = encode_image(&layout, i, data, &images[i]);
    if (!status)
        status = ls_event_file_images(file, tag, step, &LS_SHAPE(layout.height, layout.width), images, (size_t)count);
    for (int64_t i = 0; i < count; i++) ls_free((uint8_t *)images[i].data);
    return status;
}
