/* An LSTM tells kinds of text apart. The bytes of a piece are ids of an embedding, the LSTM reads them in their order,
 * and a dense layer says the class: English, a list of packages or a shell script. Every Debian has one of each. The
 * last fifth of each text is for validation.
 *
 *     texts [a file for each class ...] */
#include <lockstep/lockstep.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>

#define LENGTH 64    /* bytes of a piece */
#define STEP   16    /* bytes from one to the next */
#define MOST   32768 /* bytes of a file that are read */

static const char *const usual[] = {"/usr/share/common-licenses/GPL-3", "/var/lib/dpkg/status", "/usr/bin/ldd"};

struct pieces {
    int32_t *ids, *labels; /* (count, LENGTH), (count) */
    int64_t count;
};

static bool add_piece(struct pieces *pieces, const unsigned char *text, int label) {
    size_t count = (size_t)pieces->count + 1;
    int32_t *ids = realloc(pieces->ids, count * LENGTH * sizeof(*ids));
    if (ids) pieces->ids = ids;
    int32_t *labels = realloc(pieces->labels, count * sizeof(*labels));
    if (labels) pieces->labels = labels;
    if (!ids || !labels) return false;
    for (size_t i = 0; i < LENGTH; i++) ids[(count - 1) * LENGTH + i] = text[i];
    labels[count - 1] = label;
    pieces->count++;
    return true;
}

/* False with errno. */
static bool cut_file(const char *path, int label, struct pieces *training, struct pieces *validation) {
    static unsigned char text[MOST];
    FILE *file = fopen(path, "rb");
    if (!file) return false;
    size_t size = fread(text, 1, sizeof(text), file), kept = size - size / 5;
    bool good = !ferror(file);
    for (size_t at = 0; good && at + LENGTH <= kept; at += STEP) good = add_piece(training, text + at, label);
    for (size_t at = kept; good && at + LENGTH <= size; at += STEP) good = add_piece(validation, text + at, label);
    return fclose(file) == 0 && good;
}

static ls_status open_pieces(const struct pieces *pieces, int classes, const ls_dataset_options *options,
                             ls_dataset **data) {
    return ls_dataset_from_arrays(LS_ARRAYS(.count = pieces->count, .ids = pieces->ids, .shape = LS_SHAPE(LENGTH),
                                            .labels = pieces->labels, .classes = classes),
                                  options, data);
}

static ls_status train(ls_strategy *strategy, const struct pieces *pieces, int classes) {
    ls_dataset *data = NULL, *validation = NULL;
    ls_model *model = NULL;
    ls_result result;
    char digest[65];
    ls_status st = open_pieces(&pieces[0], classes, LS_DATASET(.batch_size = 64, .seed = 1), &data);
    if (!st) st = open_pieces(&pieces[1], classes, LS_DATASET(.batch_size = 64), &validation);
    if (!st) st = ls_model_new(strategy, LS_LAYERS(ls_embedding(256, 16), ls_lstm(64), ls_dense(classes)), &model);
    if (!st) st = ls_model_compile(model, ls_adam(0.003F, .global_clipnorm = 1), LS_SPARSE_CATEGORICAL_CROSSENTROPY);
    if (!st) st = ls_model_fit(model, data, LS_FIT(.epochs = 5, .validation_data = validation), &result);
    if (!st) st = ls_model_weights_sha256(model, digest);
    if (!st && ls_is_chief(strategy))
        (void)printf("%d texts: validation accuracy %.4f, weights %.12s\n", classes, result.val_accuracy, digest);
    ls_model_free(model);
    ls_dataset_free(data);
    ls_dataset_free(validation);
    return st;
}

static ls_status train_in_lockstep(const struct pieces *pieces, int classes) {
    ls_strategy *strategy = NULL;
    ls_status st = ls_multi_worker_mirrored_strategy_new(NULL, &strategy);
    return st ? st : ls_strategy_close(strategy, train(strategy, pieces, classes));
}

int main(int argc, char **argv) {
    struct pieces pieces[2] = {{0}}; /* of training, of validation */
    int classes = argc > 1 ? argc - 1 : (int)(sizeof(usual) / sizeof(usual[0]));
    for (int i = 0; i < classes; i++) {
        const char *path = argc > 1 ? argv[i + 1] : usual[i];
        if (cut_file(path, i, &pieces[0], &pieces[1])) continue;
        perror(path);
        return EXIT_FAILURE;
    }
    ls_status st = train_in_lockstep(pieces, classes);
    for (int i = 0; i < 2; i++) free(pieces[i].ids), free(pieces[i].labels);
    return ls_exit(st);
}
