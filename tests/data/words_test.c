/* The built-in words: the same everywhere, different in each split, frequent ones first, and of their topic by half. */
#include <string.h>

#include "base/digest.h"
#include "data/dataset.h"
#include "data/sources.h"
#include "data/fixture.h"
#include "harness.h"

enum { LENGTH = 10, VOCABULARY = 10000, TOPICS = 4, EXAMPLES = 2000 };

static int32_t words[EXAMPLES][LENGTH], labels[EXAMPLES];

static void read_words(const ls_dataset_options *options) {
    ls_dataset *dataset;
    float features[LENGTH];
    assert_ok(ls_dataset_words(options, &dataset));
    ck_assert_int_eq(ls_dataset_count(dataset), EXAMPLES);
    ck_assert_int_eq(ls_dataset_num_classes(dataset), TOPICS);
    ck_assert(dataset->source->integers);
    for (int i = 0; i < EXAMPLES; i++) {
        assert_ok(ls_source_read(dataset->source, i, features, LS_LABELS(&labels[i])));
        memcpy(words[i], features, sizeof(words[i]));
    }
    ls_dataset_free(dataset);
}

/* Recorded digests: a change of the drawing changes every recorded training result. */
TEST(words_have_their_recorded_digests) {
    static const struct {
        ls_split split;
        uint64_t seed;
        const char *digest;
    } rows[] = {
        {LS_TRAIN, 0, "4d11cbd3b7de2003bda6cc10c225d0700f5128d117b1113d9a0508ec2478efd9"},
        {LS_TEST, 0, "f9250b49cbd705682a231896a3260de4f1ba605c3d1d250bfa2bed4a1a5f7295"},
        {LS_TRAIN, 1, "f4a32060e70be06add0260bf0a95a78be88622d82afd4aa17707795653d759a8"},
    };
    for (int i = 0; i < 3; i++) {
        char hex[65];
        read_words(LS_DATASET(.split = rows[i].split, .seed = rows[i].seed, .limit = EXAMPLES));
        assert_ok(ls_digest_sha256(words, sizeof(words), hex));
        ck_assert_str_eq(hex, rows[i].digest);
    }
}

TEST(words_are_of_topics_and_frequent_ones_come_first) {
    int frequent = 0, own = 0, counts[TOPICS] = {0};
    read_words(LS_DATASET(.limit = EXAMPLES));
    for (int i = 0; i < EXAMPLES; i++) {
        counts[labels[i]]++;
        for (int j = 0; j < LENGTH; j++) {
            ck_assert(words[i][j] >= 0 && words[i][j] < VOCABULARY);
            frequent += words[i][j] < VOCABULARY / 100;
            own += words[i][j] % TOPICS == labels[i];
        }
    }
    for (int t = 0; t < TOPICS; t++) ck_assert_int_eq(counts[t], EXAMPLES / TOPICS);
    ck_assert(frequent > EXAMPLES * LENGTH * 4 / 10 && frequent < EXAMPLES * LENGTH * 6 / 10);
    ck_assert(own > EXAMPLES * LENGTH * 11 / 20 && own < EXAMPLES * LENGTH * 14 / 20); /* 1/2 + 1/2 a fourth */
}

TESTS("data/words")
