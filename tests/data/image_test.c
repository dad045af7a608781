/* Images: decoding and resizing as TensorFlow's, damage found and told. */
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/memory.h"
#include "data/files.h"
#include "data/fixture.h"
#include "data/image.h"
#include "golden/golden.h"
#include "harness.h"

static const char *const names[] = {"half.jpg",  "full.jpg",       "low.jpg",        "progressive.jpg", "grey.jpg",
                                    "color.png", "grey.png",       "alpha.png",      "deep.png",        "palette.png",
                                    "bits.png",  "interlaced.png", "transparent.png"};
#define NAMES ((int)(sizeof(names) / sizeof(names[0])))

static void read_golden(const char *name, const char *suffix, uint8_t **bytes, size_t *size) {
    char path[512];
    (void)snprintf(path, sizeof(path), IMAGES_GOLDEN "/%s%s", name, suffix);
    assert_ok(ls_file_read(path, bytes, size));
}

static int difference(const uint8_t *a, const uint8_t *b, size_t count) {
    int worst = 0;
    for (size_t i = 0; i < count; i++) worst = abs(a[i] - b[i]) > worst ? abs(a[i] - b[i]) : worst;
    return worst;
}

static struct ls_image decode(const char *name, const struct ls_image_wish *wish) {
    uint8_t *bytes;
    size_t size;
    struct ls_image image;
    read_golden(name, "", &bytes, &size);
    assert_ok(ls_image_decode(name, bytes, size, wish, &image));
    ls_free(bytes);
    return image;
}

/* Pixel for pixel, or within one level where the JPEG library is another build. */
TEST_EACH(images_are_decoded_as_in_tensorflow, NAMES) {
    uint8_t *bytes, *wanted;
    size_t size, count;
    struct ls_image probed, image = decode(names[_i], &(struct ls_image_wish){0});
    read_golden(names[_i], ".pixels", &wanted, &count);
    read_golden(names[_i], "", &bytes, &size);
    assert_ok(ls_image_probe(names[_i], bytes, size, &probed));
    ck_assert(probed.height == image.height && probed.width == image.width && probed.channels == image.channels);
    ck_assert_uint_eq((size_t)image.height * (size_t)image.width * (size_t)image.channels, count);
    ck_assert_int_le(difference(image.pixels, wanted, count), 1);
    ls_free(image.pixels);
    ls_free(wanted);
    ls_free(bytes);
}

TEST(channels_are_converted) {
    for (int i = 0; i < NAMES; i++) {
        struct ls_image natural = decode(names[i], &(struct ls_image_wish){0});
        struct ls_image grey = decode(names[i], &(struct ls_image_wish){.channels = 1});
        struct ls_image color = decode(names[i], &(struct ls_image_wish){.channels = 3});
        ck_assert(grey.channels == 1 && color.channels == 3);
        size_t count = (size_t)natural.height * (size_t)natural.width;
        for (size_t p = 0; p < count; p++) {
            const uint8_t *rgb = color.pixels + 3 * p;
            if (natural.channels == 1) require(rgb[0] == natural.pixels[p] && rgb[1] == rgb[0] && rgb[2] == rgb[0]);
            double luma = 0.299 * rgb[0] + 0.587 * rgb[1] + 0.114 * rgb[2];
            if (strstr(names[i], ".png")) require(fabs(luma - grey.pixels[p]) <= 1.01);
        }
        ls_free(natural.pixels);
        ls_free(grey.pixels);
        ls_free(color.pixels);
    }
}

TEST(images_are_resized_as_in_tensorflow) {
    static const int sizes[][2] = {{50, 20}, {16, 16}, {37, 53}, {7, 90}, {1, 1}, {38, 54}};
    struct golden *golden = golden_open("resize.txt");
    for (int grey = 0; grey < 2; grey++) {
        struct ls_image image = decode(grey ? "grey.png" : "color.png", &(struct ls_image_wish){0});
        for (int i = grey; i < 5 + grey; i++) {
            const struct golden_tensor *wanted =
                golden_find(golden, "%s/%dx%d", grey ? "grey" : "color", sizes[i][0], sizes[i][1]);
            float *values = ls_alloc_array((size_t)wanted->count, sizeof(*values));
            assert_ok(ls_image_to_unit(&image, sizes[i][0], sizes[i][1], values));
            for (int64_t j = 0; j < wanted->count; j++) require(fabsf(values[j] * 255.0F - wanted->values[j]) < 1e-4F);
            ls_free(values);
        }
        ls_free(image.pixels);
    }
    golden_close(golden);
}

TEST(an_encoded_image_comes_back) {
    struct ls_image image = decode("color.png", &(struct ls_image_wish){0}), again;
    uint8_t *bytes;
    size_t size, count = (size_t)image.height * (size_t)image.width * 3;
    assert_ok(ls_png_encode(&image, &bytes, &size));
    assert_ok(ls_image_decode("again", bytes, size, &(struct ls_image_wish){0}, &again));
    ck_assert_int_eq(difference(image.pixels, again.pixels, count), 0);
    ls_free(again.pixels);
    ls_free(bytes);
    for (int channels = 1; channels <= 3; channels += 2) {
        image.channels = channels;
        assert_ok(ls_jpeg_encode(&image, 95, &bytes, &size));
        assert_ok(ls_image_decode("again", bytes, size, &(struct ls_image_wish){0}, &again));
        ck_assert(again.height == image.height && again.width == image.width && again.channels == channels);
        ls_free(again.pixels);
        ls_free(bytes);
    }
    ls_free(image.pixels);
}

TEST(a_jpeg_is_decoded_at_a_smaller_scale) {
    struct ls_image image = {256, 384, 3, ls_alloc(256 * 384 * 3)}, scaled;
    uint8_t *bytes;
    size_t size;
    for (int i = 0; i < 256 * 384; i++) memset(image.pixels + 3 * i, i % 384 / 2, 3);
    assert_ok(ls_jpeg_encode(&image, 90, &bytes, &size));
    assert_ok(ls_image_decode("scaled", bytes, size, &(struct ls_image_wish){3, 60, 60}, &scaled));
    ck_assert(scaled.height == 64 && scaled.width == 96);
    for (int x = 0; x < 96; x++) ck_assert_int_le(abs(scaled.pixels[3 * x] - 2 * x), 4);
    ls_free(scaled.pixels);
    assert_ok(ls_image_decode("scaled", bytes, size, &(struct ls_image_wish){3, 200, 60}, &scaled));
    ck_assert(scaled.height == 256 && scaled.width == 384);
    ls_free(scaled.pixels);
    ls_free(bytes);
    ls_free(image.pixels);
}

/* Every cut of a file is found, with an offset within what is there. */
TEST_EACH(every_truncation_is_found, NAMES) {
    uint8_t *bytes;
    size_t size;
    read_golden(names[_i], "", &bytes, &size);
    size_t end = strstr(names[_i], ".png") ? size - 4 : size - 2; /* the last checksum, the end marker */
    for (size_t cut = 0; cut < end; cut += SANITIZED ? 7 : 1) {
        struct ls_image image = {.height = -1};
        uint8_t *part = malloc(cut ? cut : 1);
        memcpy(part, bytes, cut);
        ls_status status = ls_image_decode("cut", part, cut, &(struct ls_image_wish){0}, &image);
        ck_assert_msg(status == LS_DATA_LOSS, "%s cut at %zu of %zu: %s", names[_i], cut, size, ls_status_name(status));
        ck_assert(image.height == -1 && strstr(ls_error(), "cut"));
        if (cut > 8) ck_assert_msg(strstr(ls_error(), "offset") != NULL, "%s", ls_error());
        free(part);
    }
    ls_free(bytes);
}

TEST(other_formats_are_named) {
    struct ls_image image;
    assert_fails(ls_image_probe("a.jpg", NULL, 0, &image), LS_DATA_LOSS, "'a.jpg' is empty");
    assert_fails(ls_image_probe("a.jpg", (const uint8_t *)"GYF89a", 6, &image), LS_DATA_LOSS,
                 "'a.jpg' is neither a JPEG nor a PNG: at offset 0 it has 47 59");
    assert_fails(ls_image_probe("a.jpg", (const uint8_t *)"GIF89a", 6, &image), LS_DATA_LOSS, "'a.jpg' is a GIF");
    assert_fails(ls_image_probe("a.jpg", (const uint8_t *)"BM6", 3, &image), LS_DATA_LOSS, "'a.jpg' is a BMP");
    assert_fails(ls_image_probe("a.jpg", (const uint8_t *)"RIFF\1\2\3\4WEBPVP8 ", 16, &image), LS_DATA_LOSS,
                 "'a.jpg' is a WebP image by its first bytes, whatever its name says: convert it to JPEG or PNG");
}

TESTS("image", .seconds = 60)
