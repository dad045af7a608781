/* An encoded image as an example: its size, and its pixels in [0, 1]. The sources of images use it. */
#include "data/sources.h"

#include "base/memory.h"
#include "base/status.h"
#include "data/image.h"
#include "data/pixels.h"

ls_status ls_picture_settle(const char *name, const uint8_t *bytes, size_t size, const ls_dataset_options *options,
                            struct ls_image_wish *wish, ls_shape *shape) {
    struct ls_image image = {options->image_height, options->image_width, options->image_channels, NULL}, first = {0};
    if (!image.height || !image.width || !image.channels) {
        ls_status status = ls_image_probe(name, bytes, size, &first);
        if (status) return ls_fail_context(status, "the size of the images is the first one's");
    }
    if (!image.height) image.height = first.height;
    if (!image.width) image.width = first.width;
    if (!image.channels) image.channels = first.channels;
    *shape = LS_SHAPE(image.height, image.width, image.channels);
    *wish = (struct ls_image_wish){.channels = image.channels};
    if (options->scaled_decode) wish->height = image.height, wish->width = image.width;
    return LS_OK;
}

ls_status ls_picture_read(const char *name, const uint8_t *bytes, size_t size, const struct ls_image_wish *wish,
                          const struct ls_image_place *place) {
    struct ls_image image;
    ls_status status = ls_image_decode(name, bytes, size, wish, &image);
    if (status) return status;
    status = ls_image_to_unit(&image, (int)place->shape->dims[0], (int)place->shape->dims[1], place->features);
    ls_free(image.pixels);
    return status;
}

ls_status ls_picture_check(const char *name, const uint8_t *bytes, size_t size) {
    struct ls_image image;
    ls_status status = ls_image_decode(name, bytes, size, &(struct ls_image_wish){0, 1, 1}, &image);
    if (!status) ls_free(image.pixels);
    return status;
}

ls_status ls_picture_from_unit(const float *features, const ls_shape *shape, struct ls_image *image) {
    size_t count = (size_t)(shape->dims[0] * shape->dims[1] * shape->dims[2]);
    struct ls_image made = {(int)shape->dims[0], (int)shape->dims[1], (int)shape->dims[2], ls_alloc(count)};
    if (!made.pixels) return ls_fail_memory("an image", count);
    ls_pixels_from_unit(features, count, made.pixels);
    *image = made;
    return LS_OK;
}
