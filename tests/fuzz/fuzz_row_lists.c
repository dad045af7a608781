/* The ids that workers tell a parameter server, from any words: refused with one error, or taken; then every id is the
 * owner's and ascends, and sums of gradients have each once. The first bytes say how many workers and servers there
 * are, and how the words are divided. */
#include <stdlib.h>
#include <string.h>

#include "base/memory.h"
#include "base/status.h"
#include "fuzz/fuzz.h"
#include "store/row_lists.h"

enum { HEAD = 8, MOST_WORKERS = 4, MOST_SERVERS = 5, WIDTH = 2, LIMIT = 100 };

static void require(bool condition) {
    if (!condition) abort();
}

static void add(struct ls_row_lists *lists, const struct ls_layout *layout, int copy, size_t words) {
    struct ls_row_sums sums = {NULL, NULL, 0};
    LS_CLEANUP(ls_free_pointer) float *gradients = ls_alloc_array(words + 1, WIDTH * sizeof(*gradients));
    float *at = gradients;
    size_t count = 0;
    require(gradients);
    for (int leaf = 0; leaf < lists->leaves; leaf++) {
        struct ls_row_slice *slice = &lists->slices[leaf * layout->copies + copy];
        slice->gradients = at;
        at += slice->count * WIDTH;
        count += slice->count;
    }
    require(!ls_row_lists_add(lists, layout->copies, copy, WIDTH, &sums));
    require(sums.count <= count && !sums.count == !count);
    for (size_t i = 1; i < sums.count; i++) require(sums.ids[i] > sums.ids[i - 1]);
    ls_row_lists_free_sums(&sums);
}

static void check(struct ls_row_lists *lists, const struct ls_layout *layout, int server, size_t words) {
    for (int i = 0; i < lists->leaves * layout->copies; i++) {
        const struct ls_row_slice *slice = &lists->slices[i];
        int owner = ls_layout_before(layout, server, i % layout->copies);
        for (size_t k = 0; k < slice->count; k++) {
            require(slice->ids[k] >= 0 && slice->ids[k] < LIMIT && slice->ids[k] % layout->holders == owner);
            require(!k || slice->ids[k] > slice->ids[k - 1]);
        }
    }
    for (int copy = 0; copy < layout->copies; copy++) add(lists, layout, copy, words);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size) {
    if (size < HEAD) return 0;
    int workers = 1 + data[0] % MOST_WORKERS, servers = 1 + data[1] % MOST_SERVERS, server = data[2] % servers;
    const struct ls_layout layout = {.holders = servers, .copies = 1 + data[3] % servers};
    size_t count = (size - HEAD) / sizeof(int32_t), counts[MOST_WORKERS] = {0}, left = count;
    for (int w = 0; w < workers; w++) {
        counts[w] = w + 1 == workers ? left : data[4 + w] % (left + 1);
        left -= counts[w];
    }
    LS_CLEANUP(ls_free_pointer) int32_t *words = ls_alloc_array(count + 1, sizeof(*words));
    struct ls_row_lists lists = {0};
    require(words);
    if (count) memcpy(words, data + HEAD, count * sizeof(*words));
    const struct ls_row_words told = {words, counts, workers, server, LIMIT};
    ls_status status = ls_row_lists_decode(&told, &layout, &lists);
    require(!status || (status == LS_DATA_LOSS && ls_error()[0]));
    if (!status) check(&lists, &layout, server, count);
    if (!status) ls_row_lists_free(&lists);
    return 0;
}
