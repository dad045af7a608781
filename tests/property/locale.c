/* A program with a locale of another decimal sign: whatever a random training writes has the same names and bytes as in
 * the locale C, each goes on from the other's checkpoint, and numbers are printed and read alike. */
#define _GNU_SOURCE
#include <dirent.h>
#include <locale.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <strings.h>
#include <unistd.h>

#include "base/memory.h"
#include "base/plain.h"
#include "base/read_file.h"
#include "base/settings.h"
#include "folder.h"
#include "lockstep/lockstep.h"
#include "property/draw.h"
#include "train/draw_optimizer.h"

enum { PATH_ROOM = 512, MOST_FILES = 32 };
static const char comma[] = "comma";

/* ---- a locale ---- */

/* localedef makes it, so that the machine needs none. */
static void make_locale(const char *folder) {
    char command[3 * PATH_ROOM], source[PATH_ROOM];
    (void)snprintf(source, sizeof(source), "%s/source", folder);
    FILE *file = fopen(source, "w");
    if (!file) trial_fail("no file %s", source);
    (void)fputs("LC_NUMERIC\ndecimal_point \",\"\nthousands_sep \".\"\ngrouping 3;3\nEND LC_NUMERIC\n", file);
    (void)fclose(file);
    (void)snprintf(command, sizeof(command), "localedef --quiet --force -i %s %s/%s 2>%s.said", source, folder, comma,
                   source);
    (void)system(command); /* it says what else a locale has */
    (void)setenv("LOCPATH", folder, 1);
}

static void set_locale(const char *name) {
    if (!setlocale(LC_ALL, name)) trial_fail("no locale %s: is localedef there?", name);
    if (localeconv()->decimal_point[0] != (strcmp(name, "C") ? ',' : '.')) trial_fail("%s has another sign", name);
}

/* ---- numbers and letters ---- */

static double draw_number(struct draw *draw) {
    double number = (double)draw_below(draw, 1000000) / (double)(1 + draw_below(draw, 100000));
    return draw_once_in(draw, 4) ? number * 1e30 : draw_once_in(draw, 4) ? -number * 1e-30 : number;
}

static void try_numbers(struct draw *draw) {
    for (int i = 0; i < 200; i++) {
        static const char *const formats[] = {"%.*g %s", "%.*f %s", "%.*e %s"};
        const char *format = formats[draw_below(draw, 3)];
        char want[400], got[400], *want_end, *got_end;
        double number = draw_number(draw);
        int digits = (int)draw_below(draw, 18), size;
        set_locale("C");
        size = snprintf(want, sizeof(want), format, digits, number, "x");
        double there = strtod(want, &want_end);
        set_locale(comma);
        if (ls_plain_text(got, sizeof(got), format, digits, number, "x") != size || strcmp(got, want) != 0)
            trial_fail("%s instead of %s", got, want);
        double here = ls_plain_number(got, &got_end);
        if (here != there || got_end - got != want_end - want) trial_fail("%s is read as %.17g", got, here);
        if (localeconv()->decimal_point[0] != ',') trial_fail("the thread's locale is another one");
    }
    set_locale("C");
}

static void try_letters(void) {
    for (int c = 1; c < 256; c++)
        for (int d = 1; d < 256; d++) {
            const char a[] = {'x', (char)c, 0}, b[] = {'X', (char)d, 0};
            if (ls_plain_same(a, b) != !strcasecmp(a, b)) trial_fail("bytes %d and %d", c, d);
        }
    for (int c = 0; c < 128; c++) {
        bool letter = (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z'), space = c && strchr(" \t\n\v\f\r", c);
        if (ls_plain_is_letter((char)c) != letter || ls_plain_is_space((char)c) != space) trial_fail("byte %d", c);
    }
}

/* A setting is read alike. */
static void try_settings(struct draw *draw) {
    char text[40];
    struct ls_settings settings;
    (void)snprintf(text, sizeof(text), "%zu.%zu", 1 + draw_below(draw, 1000), 1 + draw_below(draw, 9));
    (void)setenv("LOCKSTEP_JOIN_TIMEOUT", text, 1);
    set_locale(comma);
    if (ls_settings_read(&settings)) trial_fail("%s: %s", text, ls_error());
    set_locale("C");
    if (settings.join_timeout != strtod(text, NULL)) trial_fail("%s is %g", text, settings.join_timeout);
    (void)unsetenv("LOCKSTEP_JOIN_TIMEOUT");
}

/* ---- a training ---- */

struct training {
    const char *folder;
    const char *early, *late; /* locales before the strategy is made, and behind it */
    int epochs;
};

static ls_status fit(const struct training *training, ls_strategy *strategy, struct draw draw) {
    char csv[PATH_ROOM], weights[PATH_ROOM], folder[PATH_ROOM];
    ls_dataset *data = NULL;
    ls_model *model = NULL;
    ls_callback *callbacks[3] = {NULL};
    const float part = (float)(1 + draw_below(&draw, 900)) / 1000;
    const ls_optimizer rule = draw_optimizer(&draw);
    const bool smooth = draw_once_in(&draw, 2);
    (void)snprintf(csv, sizeof(csv), "%s/log.csv", training->folder);
    (void)snprintf(weights, sizeof(weights), "%s/w-{epoch:02d}-{loss:.3f}.npz", training->folder);
    (void)snprintf(folder, sizeof(folder), "%s/checkpoint", training->folder);
    ls_status status = ls_dataset_digits(
        LS_DATASET(.batch_size = 32, .limit = 64, .maps = LS_MAPS(ls_random_brightness(part))), &data);
    if (!status)
        status = ls_model_new(strategy, LS_LAYERS(ls_flatten(), ls_dense(8, LS_RELU), ls_dropout(part), ls_dense(10)),
                              &model);
    if (!status)
        status = ls_model_compile_with(model, rule, LS_SPARSE_CATEGORICAL_CROSSENTROPY,
                                       LS_COMPILE(.label_smoothing = smooth ? part / 2 : 0));
    if (!status) status = ls_csv_logger_new(LS_CSV_LOGGER(.path = csv, .append = true), &callbacks[0]);
    if (!status) status = ls_model_checkpoint_new(LS_MODEL_CHECKPOINT(.path = weights), &callbacks[1]);
    if (!status)
        status = ls_reduce_on_plateau_new(
            LS_REDUCE_ON_PLATEAU(.monitor = "loss", .factor = part, .min_delta = part / 100), &callbacks[2]);
    if (!status)
        status = ls_model_fit(model, data,
                              LS_FIT(.epochs = training->epochs, .verbose = -1,
                                     .callbacks = LS_CALLBACKS(callbacks[0], callbacks[1], callbacks[2]),
                                     .class_weight = LS_CLASS_WEIGHT({1, 1 + part}),
                                     .checkpoint = LS_CHECKPOINT(.folder = folder, .keep_on_success = true)),
                              NULL);
    for (int i = 0; i < 3; i++) ls_callback_free(callbacks[i]);
    ls_model_free(model);
    ls_dataset_free(data);
    return status;
}

static void train(const struct training *training, struct draw draw) {
    ls_strategy *strategy = NULL;
    set_locale(training->early);
    ls_status status = ls_multi_worker_mirrored_strategy_new(LS_STRATEGY(.communication = LS_AUTO), &strategy);
    set_locale(training->late);
    if (!status) status = fit(training, strategy, draw);
    if (ls_strategy_close(strategy, status)) trial_fail("%s to %s: %s", training->early, training->late, ls_error());
    set_locale("C");
}

/* ---- its files ---- */

/* Each training's number, drawn anew, is in a checkpoint. */
static bool is_checkpoint(const char *name) {
    return strstr(name, ".safetensors") != NULL;
}

static int is_shown(const struct dirent *entry) {
    return entry->d_name[0] != '.';
}

static void compare(const char *want, const char *got) {
    struct dirent **names[2];
    int count = scandir(want, &names[0], is_shown, alphasort), other = scandir(got, &names[1], is_shown, alphasort);
    for (int i = 0; i < count || i < other; i++) {
        LS_CLEANUP(ls_free_pointer) char *bytes = NULL;
        LS_CLEANUP(ls_free_pointer) char *others = NULL;
        char path[2][2 * PATH_ROOM];
        size_t size, other_size;
        if (i >= count || i >= other || strcmp(names[0][i]->d_name, names[1][i]->d_name) != 0)
            trial_fail("file %d is '%s' and '%s'", i, i < count ? names[0][i]->d_name : "",
                       i < other ? names[1][i]->d_name : "");
        (void)snprintf(path[0], sizeof(path[0]), "%s/%s", want, names[0][i]->d_name);
        (void)snprintf(path[1], sizeof(path[1]), "%s/%s", got, names[1][i]->d_name);
        if (names[0][i]->d_type == DT_DIR) {
            compare(path[0], path[1]);
        } else if (ls_read_file_given(NULL, path[0], SIZE_MAX - 1, &bytes, &size) ||
                   ls_read_file_given(NULL, path[1], SIZE_MAX - 1, &others, &other_size)) {
            trial_fail("%s", ls_error());
        } else if (!is_checkpoint(path[0]) && (size != other_size || memcmp(bytes, others, size) != 0)) {
            trial_fail("'%s' is another file than '%s'", path[1], path[0]);
        }
        free(names[0][i]);
        free(names[1][i]);
    }
    free(names[0]);
    free(names[1]);
}

static long round_of(uint64_t seed) {
    char root[] = "/tmp/locale-XXXXXX", plain[PATH_ROOM], other[PATH_ROOM];
    struct draw draw = draw_from(seed, 1), choice = draw_from(seed, 2);
    (void)setenv("LOCKSTEP_LOG", "error", 1);
    if (!mkdtemp(root)) trial_fail("no folder");
    make_locale(root);
    try_numbers(&choice);
    try_letters();
    try_settings(&choice);
    (void)snprintf(plain, sizeof(plain), "%s/a", root);
    (void)snprintf(other, sizeof(other), "%s/b", root);
    (void)mkdir(plain, 0700), (void)mkdir(other, 0700);
    const char *early = draw_once_in(&choice, 2) ? comma : "C";
    train(&(struct training){plain, "C", "C", 2}, draw);
    train(&(struct training){other, early, comma, 2}, draw);
    compare(plain, other);
    train(&(struct training){plain, comma, comma, 3}, draw); /* they change places */
    train(&(struct training){other, "C", "C", 3}, draw);
    compare(plain, other);
    (void)folder_remove(root);
    return 4;
}

int main(int argc, char **argv) {
    return trial_main(argc, argv, "the program's locale changes nothing", round_of);
}
