/* Files without labels: images, folders of them, lists, NumPy's arrays; and arrays in memory without y. */
#include <stdio.h>
#include <string.h>

#include "base/memory.h"
#include "data/dataset.h"
#include "data/sources.h"
#include "data/fixture.h"
#include "data/image.h"
#include "data/npy.h"
#include "harness.h"

static void write_png(const char *name, uint8_t shade) {
    uint8_t pixels[4 * 4], *bytes;
    struct ls_image image = {4, 4, 1, pixels};
    size_t size;
    memset(pixels, shade, sizeof(pixels));
    assert_ok(ls_png_encode(&image, &bytes, &size));
    folder_write(name, bytes, size, false);
    ls_free(bytes);
}

static char *path_to(const char *name) {
    static char paths[8][300];
    static int next;
    char *path = paths[next++ % 8];
    (void)snprintf(path, sizeof(paths[0]), "%s%s%s", folder_path(), *name ? "/" : "", name);
    return path;
}

/* Shades 1 to 4, in the order of a walk: files of a folder, then its folders. */
static void write_folder(void) {
    folder_clear();
    folder_make_inside("a");
    folder_make_inside("a/deep");
    folder_make_inside("b");
    write_png("z.png", 1);
    write_png("a/x.PNG", 2);
    write_png("a/deep/k.png", 3);
    write_png("b/c.png", 4);
    folder_write("a/notes.txt", "b/c.png", 7, false);
    folder_write("a/old.gif", "GIF", 3, false);
}

static void check_shades(const char *const *paths, size_t count, const char *wanted) {
    ls_dataset *dataset;
    char found[16] = "";
    assert_ok(ls_dataset_paths(paths, count, LS_DATASET(.shuffle = LS_SHUFFLE_NEVER), &dataset));
    ck_assert_int_eq(ls_dataset_num_classes(dataset), 0);
    for (int64_t i = 0; i < ls_dataset_count(dataset); i++) {
        float features[16];
        int32_t label = 7;
        assert_ok(ls_source_read(dataset->source, i, features, LS_LABELS(&label)));
        ck_assert_int_eq(label, 0);
        found[i] = (char)('0' + (int)(features[0] * 255.0F + 0.5F));
        ck_assert_ptr_nonnull(strstr(ls_dataset_example_path(dataset, i), folder_path()));
    }
    ck_assert_str_eq(found, wanted);
    ck_assert_ptr_null(ls_dataset_example_path(dataset, ls_dataset_count(dataset)));
    ls_dataset_free(dataset);
}

TEST(all_images_below_are_found_in_order) {
    write_folder();
    const char *whole[] = {path_to("")}, *two[] = {path_to("b"), path_to("z.png")};
    check_shades(whole, 1, "1234");
    check_shades(two, 2, "41");
}

TEST(a_list_names_them) {
    char lines[700];
    write_folder();
    (void)snprintf(lines, sizeof(lines), "%s\r\n%s\n", path_to("b/c.png"), path_to("a"));
    folder_write("list.txt", lines, strlen(lines), false);
    const char *list[] = {path_to("list.txt"), path_to("z.png")};
    check_shades(list, 2, "4231");
}

TEST(others_are_counted) {
    ls_dataset *dataset;
    write_folder();
    const char *whole[] = {path_to("")};
    assert_ok(ls_dataset_paths(whole, 1, NULL, &dataset));
    ck_assert(dataset->source->others == 2 && dataset->source->unread == 1);
    ls_dataset_free(dataset);
}

TEST(paths_keep_their_examples_under_skip_damage_and_cache) {
    ls_dataset *dataset;
    write_folder();
    folder_truncate("a/x.PNG", 50);
    const char *whole[] = {path_to("")};
    assert_ok(ls_dataset_paths(whole, 1, LS_DATASET(.skip = 1, .damage = LS_DAMAGE_SKIPPED, .cache = true), &dataset));
    ck_assert_int_eq(ls_dataset_count(dataset), 2);
    ck_assert_str_eq(ls_dataset_example_path(dataset, 0), path_to("a/deep/k.png"));
    ck_assert_str_eq(ls_dataset_example_path(dataset, 1), path_to("b/c.png"));
    ls_dataset_free(dataset);
}

TEST(what_is_none_is_named) {
    ls_dataset *dataset = NULL;
    write_folder();
    folder_make_inside("empty");
    folder_write("list.txt", "nowhere.docx\n", 13, false);
    folder_write("x.docx", "x", 1, false);
    const char *const lacking[] = {path_to("none.png")}, *const empty[] = {path_to("empty")},
                      *const odd[] = {path_to("x.docx")}, *const list[] = {path_to("list.txt")},
                      *const nothing[] = {""};
    assert_fails(ls_dataset_paths(lacking, 1, NULL, &dataset), LS_NOT_FOUND, "none.png");
    assert_fails(ls_dataset_paths(empty, 1, NULL, &dataset), LS_NOT_FOUND, "holds no .jpg");
    assert_refused(ls_dataset_paths(odd, 1, NULL, &dataset), "x.docx' is no folder");
    assert_refused(ls_dataset_paths(list, 1, NULL, &dataset), "nowhere.docx' is no folder");
    assert_refused(ls_dataset_paths(nothing, 1, NULL, &dataset), "a path is empty");
    assert_refused(ls_dataset_paths(odd, 0, NULL, &dataset), "no path is given");
    ck_assert_ptr_null(dataset);
}

TEST(a_loop_of_folders_ends) {
    ls_dataset *dataset = NULL;
    char command[700];
    folder_clear();
    folder_make_inside("a");
    (void)snprintf(command, sizeof(command), "ln -s '%s' '%s'", path_to("a"), path_to("a/again"));
    ck_assert_int_eq(system(command), 0);
    const char *const paths[] = {path_to("a")};
    assert_refused(ls_dataset_paths(paths, 1, NULL, &dataset), "33 folders deep");
}

TEST(numpy_needs_no_y) {
    ls_dataset *dataset;
    char header[LS_NPY_HEADER], file[LS_NPY_HEADER + 6 * sizeof(float)];
    const float x[6] = {1, 2, 3, 4, 5, 6};
    folder_clear();
    ls_npy_header("<f4", &LS_SHAPE(3, 2), header);
    memcpy(file, header, sizeof(header));
    memcpy(file + sizeof(header), x, sizeof(x));
    folder_write("x.npy", file, sizeof(file), false);
    const char *const paths[] = {path_to("x.npy")};
    assert_ok(ls_dataset_paths(paths, 1, NULL, &dataset));
    float features[2];
    int32_t label = 7;
    assert_ok(ls_source_read(dataset->source, 2, features, LS_LABELS(&label)));
    ck_assert(ls_dataset_count(dataset) == 3 && features[0] == 5 && features[1] == 6 && label == 0);
    ck_assert_ptr_null(ls_dataset_example_path(dataset, 0));
    ls_dataset_free(dataset);
}

TEST(arrays_need_no_labels) {
    ls_dataset *dataset = NULL;
    const float x[4] = {1, 2, 3, 4};
    assert_ok(ls_dataset_from_arrays(LS_ARRAYS(.count = 2, .features = x, .shape = LS_SHAPE(2)), NULL, &dataset));
    ls_shape shape;
    ck_assert(ls_dataset_num_classes(dataset) == 0 && !ls_dataset_targets(dataset, &shape));
    assert_refused(ls_dataset_write(dataset, LS_FORMAT_NPY, folder_path(), NULL), "has no labels");
    ls_dataset_free(dataset);
    assert_refused(ls_dataset_from_arrays(LS_ARRAYS(.count = 2, .features = x, .shape = LS_SHAPE(2), .classes = 3),
                                          NULL, &dataset),
                   "labels is NULL");
}

TESTS("paths", .begin = folder_make, .end = folder_remove)
