/* Folders of images, and the drawn shapes. */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "base/memory.h"
#include "data/dataset.h"
#include "data/sources.h"
#include "data/fixture.h"
#include "data/image.h"
#include "harness.h"

/* Writes a grey image of one shade. */
static void write_image(const char *name, int height, int width, int channels, uint8_t shade) {
    struct ls_image image = {height, width, channels, ls_alloc((size_t)(height * width * channels))};
    uint8_t *bytes;
    size_t size;
    memset(image.pixels, shade, (size_t)(height * width * channels));
    assert_ok(strstr(name, ".png") ? ls_png_encode(&image, &bytes, &size) : ls_jpeg_encode(&image, 95, &bytes, &size));
    folder_write(name, bytes, size, false);
    ls_free(bytes);
    ls_free(image.pixels);
}

static void write_folder(void) {
    folder_clear();
    folder_make_inside("dog");
    folder_make_inside("Cat");
    write_image("dog/b.png", 8, 6, 3, 51);
    write_image("dog/a.PNG.png", 4, 4, 1, 102);
    write_image("Cat/10.jpeg", 10, 12, 3, 0);
    write_image("Cat/9.JPG", 5, 5, 3, 255);
    folder_write("Cat/readme.txt", "no image", 8, false);
}

static void check_example(const ls_dataset *dataset, int64_t index, int32_t label, float value) {
    float features[2048];
    int32_t got;
    assert_ok(ls_source_read(dataset->source, index, features, LS_LABELS(&got)));
    ck_assert_int_eq(got, label);
    for (int64_t i = 0; i < 3 * 4 * 3; i++) ck_assert_float_eq_tol(features[i], value, 1.01F / 255.0F);
}

TEST(images_of_folders_are_read) {
    ls_dataset *dataset;
    write_folder();
    assert_ok(ls_dataset_open(folder_path(), LS_DATASET(.image_height = 3, .image_width = 4), &dataset));
    ck_assert_int_eq(ls_dataset_count(dataset), 4);
    ck_assert_int_eq(ls_dataset_num_classes(dataset), 2);
    ck_assert_str_eq(ls_dataset_class_name(dataset, 0), "Cat");
    ck_assert_str_eq(ls_dataset_class_name(dataset, 1), "dog");
    ck_assert_ptr_null(ls_dataset_class_name(dataset, 2));
    check_example(dataset, 0, 0, 0);
    check_example(dataset, 1, 0, 1);
    check_example(dataset, 2, 1, 0.4F);
    check_example(dataset, 3, 1, 0.2F);
    ls_dataset_free(dataset);
}

/* The first image gives the extents that no option asks for. */
TEST(the_first_image_gives_the_shape) {
    ls_dataset *dataset;
    write_folder();
    assert_ok(ls_dataset_images(folder_path(), LS_DATASET(.image_channels = 1), &dataset));
    ls_shape shape = ls_dataset_shape(dataset);
    ck_assert(shape.rank == 3 && shape.dims[0] == 10 && shape.dims[1] == 12 && shape.dims[2] == 1);
    ls_dataset_free(dataset);
    assert_refused(ls_dataset_images(folder_path(), LS_DATASET(.image_channels = 2), &dataset), "image_channels is 2");
    assert_refused(ls_dataset_images(folder_path(), LS_DATASET(.image_width = -1), &dataset), "image_width is -1");
}

static void describe_names(char digest[65]) {
    ls_dataset *dataset;
    char *lines;
    assert_ok(ls_dataset_images(folder_path(), LS_DATASET(.image_channels = 1), &dataset));
    assert_ok(ls_dataset_describe(dataset, &lines));
    (void)snprintf(digest, 65, "%.64s", strstr(lines, "names_sha256=") + strlen("names_sha256="));
    free(lines);
    ls_dataset_free(dataset);
}

/* Workers whose folders differ in a file that nobody has looked into. */
TEST(sizes_of_files_are_compared) {
    char first[65], second[65], third[65];
    write_folder();
    describe_names(first);
    describe_names(second);
    ck_assert_str_eq(first, second);
    write_image("Cat/9.JPG", 64, 64, 3, 77);
    describe_names(third);
    ck_assert_str_ne(first, third);
}

TEST(folders_hold_splits) {
    ls_dataset *dataset = NULL;
    write_folder();
    assert_fails(ls_dataset_images(folder_path(), LS_DATASET(.split = LS_TEST), &dataset), LS_NOT_FOUND,
                 "has no folder test, validation or val");
    folder_clear();
    static const char *const folders[] = {"train", "train/a", "train/b", "validation", "validation/b"};
    for (int i = 0; i < 5; i++) folder_make_inside(folders[i]);
    write_image("train/a/1.png", 4, 4, 3, 0);
    write_image("validation/b/1.png", 4, 4, 3, 51);
    assert_ok(ls_dataset_images(folder_path(), NULL, &dataset));
    ck_assert(ls_dataset_count(dataset) == 1 && ls_dataset_num_classes(dataset) == 2);
    ls_dataset_free(dataset);
    assert_ok(ls_dataset_images(folder_path(), LS_DATASET(.split = LS_TEST), &dataset));
    check_example(dataset, 0, 1, 0.2F);
    ls_dataset_free(dataset);
    folder_make_inside("validation/c");
    assert_refused(ls_dataset_images(folder_path(), LS_DATASET(.split = LS_TEST), &dataset),
                   "has class 'c', which the training images do not have");
}

/* As Keras walks a class: its folders count, whatever they are called. */
TEST(folders_in_a_class_are_of_it) {
    ls_dataset *dataset;
    write_folder();
    folder_make_inside("Cat/more");
    folder_make_inside("Cat/more/still");
    write_image("Cat/more/still/1.png", 8, 6, 3, 51);
    assert_ok(ls_dataset_open(folder_path(), LS_DATASET(.image_height = 3, .image_width = 4), &dataset));
    ck_assert_int_eq(ls_dataset_count(dataset), 5);
    check_example(dataset, 2, 0, 0.2F);
    check_example(dataset, 3, 1, 0.4F);
    ls_dataset_free(dataset);
}

/* All are in colour if one is, wherever it stands; all grey ones stay so. */
TEST_EACH(one_in_colour_makes_all_so, 7) {
    ls_dataset *dataset;
    folder_clear();
    folder_make_inside("a");
    folder_make_inside("b");
    for (int i = 0; i < 6; i++) {
        char name[32];
        (void)snprintf(name, sizeof(name), "%c/%d.png", 'a' + i / 3, i);
        write_image(name, 4, 4, i == _i ? 3 : 1, 51);
    }
    assert_ok(ls_dataset_open(folder_path(), LS_DATASET(.image_height = 3, .image_width = 4), &dataset));
    ck_assert_int_eq(ls_dataset_shape(dataset).dims[2], _i < 6 ? 3 : 1);
    if (_i < 6) check_example(dataset, 0, 0, 0.2F);
    ls_dataset_free(dataset);
    assert_ok(ls_dataset_open(folder_path(), LS_DATASET(.image_channels = 1), &dataset));
    ck_assert_int_eq(ls_dataset_shape(dataset).dims[2], 1);
    ls_dataset_free(dataset);
}

TEST(a_link_that_leads_nowhere_is_named) {
    ls_dataset *dataset = NULL;
    char link[300];
    write_folder();
    (void)snprintf(link, sizeof(link), "%s/dog/gone.png", folder_path());
    ck_assert_int_eq(symlink("/nowhere/gone.png", link), 0);
    assert_fails(ls_dataset_images(folder_path(), NULL, &dataset), LS_NOT_FOUND, "dog/gone.png");
}

TEST(an_empty_folder_is_refused) {
    ls_dataset *dataset = NULL;
    folder_clear();
    folder_make_inside("a");
    assert_fails(ls_dataset_images(folder_path(), NULL, &dataset), LS_NOT_FOUND, "holds no CLASS/NAME.jpg");
    ck_assert_ptr_null(dataset);
}

/* A damaged image is an error that names it, or is left out and counted, whatever the number of threads. */
TEST(a_damaged_image_is_named_or_left_out) {
    ls_dataset *dataset = NULL;
    float features[2048];
    int32_t label;
    write_folder();
    folder_truncate("Cat/9.JPG", 200);
    folder_truncate("dog/b.png", 60);
    const ls_dataset_options options = {.size = sizeof(options), .image_height = 3, .image_width = 4};
    assert_ok(ls_dataset_images(folder_path(), &options, &dataset));
    assert_fails(ls_source_read(dataset->source, 1, features, LS_LABELS(&label)), LS_DATA_LOSS,
                 "Cat/9.JPG' is damaged near offset");
    ls_dataset_free(dataset);
    ls_dataset_options skipping = options;
    skipping.damage = LS_DAMAGE_SKIPPED;
    assert_ok(ls_dataset_images(folder_path(), &skipping, &dataset));
    ck_assert_int_eq(ls_dataset_count(dataset), 2);
    ck_assert_int_eq(ls_dataset_num_damaged(dataset), 2);
    ck_assert_str_eq(ls_dataset_class_name(dataset, 1), "dog");
    check_example(dataset, 0, 0, 0);
    check_example(dataset, 1, 1, 0.4F);
    ls_dataset_free(dataset);
    folder_truncate("Cat/10.jpeg", 300);
    folder_truncate("dog/a.PNG.png", 40);
    skipping.image_channels = 3;
    assert_fails(ls_dataset_images(folder_path(), &skipping, &dataset), LS_DATA_LOSS, "all 4 examples are damaged");
    skipping.image_channels = 0;
    assert_fails(ls_dataset_images(folder_path(), &skipping, &dataset), LS_DATA_LOSS, "is damaged near offset");
}

TEST(shapes_are_drawn) {
    ls_dataset *train, *test;
    static float a[64 * 64 * 3], b[64 * 64 * 3];
    int32_t label;
    assert_ok(ls_dataset_open("shapes", LS_DATASET(.limit = 10), &train));
    assert_ok(ls_dataset_open("shapes", LS_DATASET(.split = LS_TEST), &test));
    ck_assert(ls_dataset_count(train) == 10 && ls_dataset_count(test) == 500);
    ck_assert_str_eq(ls_dataset_class_name(test, 1), "triangle");
    for (int i = 0; i < 10; i++) {
        assert_ok(ls_source_read(train->source, i, a, LS_LABELS(&label)));
        ck_assert_int_eq(label, i % 2);
        assert_ok(ls_source_read(train->source, i, b, LS_LABELS(&label)));
        ck_assert_mem_eq(a, b, sizeof(a));
        assert_ok(ls_source_read(test->source, i, b, LS_LABELS(&label)));
        ck_assert_mem_ne(a, b, sizeof(a));
    }
    ls_dataset_free(train);
    ls_dataset_free(test);
}

TESTS("images", .begin = folder_make, .end = folder_remove)
