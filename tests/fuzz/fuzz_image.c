/* JPEG and PNG from any bytes: a decoded image of the size that its header says, or one error. */
#include <stdlib.h>

#include "base/memory.h"
#include "data/image.h"
#include "fuzz/fuzz.h"

#define MOST 250000 /* pixels: larger images only take longer */

static void require(bool condition) {
    if (!condition) abort();
}

static void decode(const uint8_t *data, size_t size, const struct ls_image_wish *wish, const struct ls_image *probed) {
    struct ls_image image = {.height = -1};
    float values[5 * 7 * 3];
    ls_status status = ls_image_decode("input", data, size, wish, &image);
    if (status) {
        require((status == LS_DATA_LOSS || status == LS_RESOURCE_EXHAUSTED) && image.height == -1);
        return;
    }
    if (!wish->height) require(image.height == probed->height && image.width == probed->width);
    require(image.channels == (wish->channels ? wish->channels : probed->channels));
    require(ls_image_to_unit(&image, 5, 7, values) == LS_OK);
    for (int i = 0; i < 5 * 7 * image.channels; i++) require(values[i] >= 0 && values[i] <= 1);
    ls_free(image.pixels);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size) {
    struct ls_image probed = {.height = -1};
    ls_status status = ls_image_probe("input", data, size, &probed);
    if (status) {
        require(status == LS_DATA_LOSS && probed.height == -1);
        return 0;
    }
    require(probed.height > 0 && probed.width > 0 && (probed.channels == 1 || probed.channels == 3));
    if ((int64_t)probed.height * probed.width > MOST) return 0;
    decode(data, size, &(struct ls_image_wish){0}, &probed);
    decode(data, size, &(struct ls_image_wish){1, 0, 0}, &probed);
    decode(data, size, &(struct ls_image_wish){3, 1, 1}, &probed);
    return 0;
}
