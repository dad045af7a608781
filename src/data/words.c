/* The built-in integers: examples of a few words each, as numbers, of which frequent ones are much more frequent than
 * others. Half of an example's words are of its class's topic. Example i is a pure function of (seed, split, i), drawn
 * at each reading in whole numbers: the same everywhere. */
#include <string.h>

#include "base/need.h"
#include "base/new.h"
#include "base/random.h"
#include "data/dataset.h"
#include "data/role.h"

enum { TOPICS = 4, LENGTH = 10, VOCABULARY = 10000, OCTAVES = 14 /* 2^14 > VOCABULARY */ };
#define TRAIN_COUNT 20000
#define TEST_COUNT  2000
#define MAX_COUNT   (INT64_C(1) << 31)

struct words {
    struct ls_source source;
    uint64_t seed, stream;
};

/* An octave, then a word of it: a word's frequency falls with its number, as in Zipf's law. A topic has every
 * TOPICS-th one. */
static int32_t draw_word(const struct words *words, int64_t index, int label) {
    uint32_t random[4];
    ls_philox(words->seed, words->stream, (uint64_t)index, random);
    uint32_t first = (1U << random[0] % OCTAVES) - 1;
    int32_t word = (int32_t)((first + random[1] % (first + 1)) % VOCABULARY);
    return random[2] & 1 ? word - word % TOPICS + label : word;
}

static ls_status read_words_example(const struct ls_source *source, int64_t index, float *features,
                                    const struct ls_targets *targets) {
    const struct words *words = (const struct words *)source;
    int32_t drawn[LENGTH];
    int label = (int)(index % TOPICS);
    for (int i = 0; i < LENGTH; i++) drawn[i] = draw_word(words, index * LENGTH + i, label);
    memcpy(features, drawn, sizeof(drawn));
    *targets->labels = label;
    return LS_OK;
}

static void free_words(struct ls_source *source) {
    ls_free(source);
}

static const struct ls_source_ops words_ops = {.read = read_words_example, .free = free_words};

ls_status ls_dataset_words(const ls_dataset_options *options, ls_dataset **dataset) {
    LS_NEED(dataset);
    ls_dataset_options filled;
    ls_status status = ls_dataset_options_fill(options, &filled);
    if (status) return status;
    if (filled.limit > MAX_COUNT)
        return ls_fail(LS_INVALID_ARGUMENT, "limit is %lld: up to %lld examples of words are drawn",
                       (long long)filled.limit, (long long)MAX_COUNT);
    LS_NEW(struct words, words, "a dataset");
    words->source = (struct ls_source){.ops = &words_ops,
                                       .kind = "words",
                                       .split = ls_role_of_two(filled.split),
                                       .shape = LS_SHAPE(LENGTH),
                                       .classes = TOPICS,
                                       .count = filled.split != LS_TRAIN ? TEST_COUNT : TRAIN_COUNT,
                                       .integers = true};
    if (filled.limit) words->source.count = filled.limit;
    words->seed = filled.seed;
    words->stream = ls_random_stream(filled.split != LS_TRAIN ? "words/test" : "words/train");
    return ls_dataset_from_source(LS_OK, &words->source, &filled, dataset);
}
