/* The built-in integers: examples of a few words each, as numbers, of which frequent ones are much more frequent than
 * others. Half of an example's words are of its class's topic. Example i is a pure function of (seed, split, i), drawn
 * at each reading in whole numbers: the same everywhere. */
#include <string.h>

#include "base/need.h"
#include "base/random.h"
#include "data/sources.h"

enum { TOPICS = 4, LENGTH = 10, VOCABULARY = 10000, OCTAVES = 14 /* 2^14 > VOCABULARY */ };
#define TRAIN_COUNT 20000
#define TEST_COUNT  2000
#define MAX_COUNT   (INT64_C(1) << 31)

/* An octave, then a word of it: a word's frequency falls with its number, as in Zipf's law. A topic has every
 * TOPICS-th one. */
static int32_t draw_word(const struct ls_source_drawn *words, int64_t index, int label) {
    uint32_t random[4];
    ls_philox_words(words->seed, words->stream, (uint64_t)index, random);
    uint32_t first = (1U << random[0] % OCTAVES) - 1;
    int32_t word = (int32_t)((first + random[1] % (first + 1)) % VOCABULARY);
    return random[2] & 1 ? word - word % TOPICS + label : word;
}

static ls_status read_words_example(const struct ls_source *source, int64_t index, float *features,
                                    const struct ls_targets *targets) {
    const struct ls_source_drawn *words = (const struct ls_source_drawn *)source;
    int32_t drawn[LENGTH];
    int label = (int)(index % TOPICS);
    for (int i = 0; i < LENGTH; i++) drawn[i] = draw_word(words, index * LENGTH + i, label);
    memcpy(features, drawn, sizeof(drawn));
    *targets->labels = label;
    return LS_OK;
}

static const struct ls_source_ops words_ops = {.read = read_words_example, .free = ls_source_free};

static ls_status open_words(struct ls_source **source, const char *path, const ls_dataset_options *options) {
    (void)path;
    return ls_source_draw(*source, options, &(struct ls_source_counts){TRAIN_COUNT, TEST_COUNT, MAX_COUNT});
}

ls_status ls_dataset_words(const ls_dataset_options *options, ls_dataset **dataset) {
    LS_NEED(dataset);
    static const struct ls_source_start start = {
        .source = {.ops = &words_ops, .kind = "words", .shape = {1, {LENGTH}}, .classes = TOPICS, .integers = true},
        .size = sizeof(struct ls_source_drawn),
        .open = open_words};
    return ls_source_open(&start, NULL, options, dataset);
}
