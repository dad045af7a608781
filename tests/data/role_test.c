/* Splits by their names: words in random names, and sources of each kind with random ones of the three splits. */
#define _GNU_SOURCE
#include "data/role.h"

#include <ctype.h>
#include <dirent.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "data/dataset.h"
#include "data/fixture.h"
#include "harness.h"
#include "property/draw.h"

enum { NAME = 96, PATH = 512 };

static const char *draw_word(struct draw *draw, ls_split split) {
    size_t count = 0;
    while (ls_role_word(split, count)) count++;
    return ls_role_word(split, draw_below(draw, count));
}

static void append(char name[NAME], const char *piece) {
    size_t used = strlen(name);
    (void)snprintf(name + used, NAME - used, "%s", piece);
}

/* Words in any case, between what is no letter; the last one counts, and a longer word is another one. */
TEST(the_last_whole_word_of_a_name_counts) {
    static const char *const between[] = {"-", "_", ".", "2", " ", "-00001-of-00002."};
    static const char *const others[] = {"flowers", "trains", "contest", "retest", "evaluate", "deval", "invalid", "x"};
    struct draw draw = draw_from(first_seed(), 1);
    for (int round = 0; round < 5000; round++) {
        char name[NAME] = "";
        int wanted = LS_ROLE_NONE;
        for (size_t pieces = 1 + draw_below(&draw, 4); pieces > 0; pieces--) {
            int role = (int)draw_below(&draw, LS_ROLES + 1) - 1;
            append(name, role < 0 ? others[draw_below(&draw, 8)] : draw_word(&draw, (ls_split)role));
            append(name, between[draw_below(&draw, 6)]);
            if (role >= 0) wanted = role;
        }
        for (char *c = name; *c; c++) *c = (char)(draw_once_in(&draw, 3) ? toupper((unsigned char)*c) : *c);
        ck_assert_msg(ls_role_of_name(name) == wanted, "'%s' is %d, not %d", name, ls_role_of_name(name), wanted);
    }
}

/* ---- sources ---- */

/* So many examples has a split. */
static int64_t count_of(ls_split split) {
    return 30 + 2 * (int64_t)split;
}

static void write_split(ls_split split, ls_file_format format) {
    ls_dataset *dataset;
    assert_ok(ls_dataset_digits(LS_DATASET(.limit = count_of(split), .split = split == LS_TRAIN ? LS_TRAIN : LS_TEST),
                                &dataset));
    dataset->options.split = split;
    assert_ok(ls_dataset_write(dataset, format, folder_path(), NULL));
    ls_dataset_free(dataset);
}

/* Files and folders get another word of the split in their names. */
static void rename_split(ls_split split, const char *word, bool upper) {
    struct dirent **names;
    int count = scandir(folder_path(), &names, NULL, NULL);
    for (int i = 0; i < count; i++) {
        char from[PATH], to[PATH];
        const char *name = names[i]->d_name, *at = strstr(name, ls_role_name(split));
        if (at) {
            int before = (int)(at - name);
            (void)snprintf(from, sizeof(from), "%s/%s", folder_path(), name);
            (void)snprintf(to, sizeof(to), "%s/%.*s%s%s", folder_path(), before, name, word,
                           at + strlen(ls_role_name(split)));
            char *written = to + strlen(folder_path()) + 1 + before;
            if (upper) *written = (char)toupper((unsigned char)*written);
            ck_assert_int_eq(rename(from, to), 0);
        }
        free(names[i]);
    }
    free(names);
}

static void check_split(ls_split wanted, unsigned there) {
    ls_dataset *dataset;
    ls_split other = wanted == LS_TEST ? LS_VALIDATION : LS_TEST, read = wanted;
    if (wanted != LS_TRAIN && !(there & 1U << wanted)) read = other;
    ls_status status = ls_dataset_open(folder_path(), LS_DATASET(.split = wanted), &dataset);
    if (!(there & 1U << read)) {
        ck_assert_msg(status == LS_NOT_FOUND, "%s of splits %u: %s", ls_role_name(wanted), there, ls_error());
        return;
    }
    assert_ok(status);
    ck_assert_int_eq(ls_dataset_count(dataset), count_of(read));
    ck_assert_int_eq(ls_dataset_split(dataset), read);
    ls_dataset_free(dataset);
}

/* Every set of splits that is not empty, by random words, in format number _i. */
TEST_EACH(each_example_is_in_one_split, 4) {
    static const ls_file_format formats[] = {LS_FORMAT_PNG, LS_FORMAT_TFRECORD, LS_FORMAT_NPY, LS_FORMAT_NPZ};
    struct draw draw = draw_from(first_seed(), 2 + (uint64_t)_i);
    for (unsigned there = 1; there < 1U << LS_ROLES; there++) {
        folder_clear();
        for (int split = 0; split < LS_ROLES; split++)
            if (there & 1U << split) write_split((ls_split)split, formats[_i]);
        for (int split = 0; split < LS_ROLES; split++)
            rename_split((ls_split)split, draw_word(&draw, (ls_split)split), _i < 2 && draw_once_in(&draw, 2));
        for (int split = 0; split < LS_ROLES; split++) check_split((ls_split)split, there);
    }
}

TEST(two_words_for_one_split_are_refused) {
    static const ls_file_format formats[] = {LS_FORMAT_PNG, LS_FORMAT_NPY};
    for (size_t format = 0; format < 2; format++) {
        ls_dataset *dataset = NULL;
        folder_clear();
        for (int split = 0; split < LS_ROLES; split++) write_split((ls_split)split, formats[format]);
        rename_split(LS_TEST, "dev", false);
        assert_refused(ls_dataset_open(folder_path(), NULL, &dataset), "dev");
        ck_assert_ptr_nonnull(strstr(ls_error(), "leave one validation split in it"));
    }
}

/* Classes beside a test split, and a class that is named as a split. */
TEST(classes_beside_a_split) {
    ls_dataset *dataset;
    folder_clear();
    write_split(LS_TEST, LS_FORMAT_PNG);
    for (int label = 0; label < 10; label++) {
        char from[PATH], to[PATH];
        (void)snprintf(from, sizeof(from), "%s/test/%05d", folder_path(), label);
        (void)snprintf(to, sizeof(to), "%s/%s", folder_path(), label == 1 ? "valid" : strrchr(from, '/') + 1);
        if (label < 2) ck_assert_int_eq(rename(from, to), 0);
    }
    assert_ok(ls_dataset_open(folder_path(), NULL, &dataset));
    ck_assert_int_eq(ls_dataset_num_classes(dataset), 2);
    ck_assert_str_eq(ls_dataset_class_name(dataset, 1), "valid");
    ls_dataset_free(dataset);
}

TESTS("role", .seconds = 60, .begin = folder_make, .end = folder_remove)
