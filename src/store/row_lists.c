/* Ids are sorted by their bytes, which keeps the order of equal ones: the order of occurrence on a worker, the order of
 * leaves on a server. */
#include "store/row_lists.h"

#include <string.h>

#include "base/new.h"
#include "collective/schedule/tree.h"

struct entry {
    uint32_t id, at;
};

/* Least byte first (LSD radix sort), as many bytes as the largest id has. */
static ls_status sort(struct entry *entries, size_t count, uint32_t largest) {
    LS_CLEANUP(ls_free_pointer) struct entry *other = ls_alloc_array(count, sizeof(*other));
    struct entry *from = entries, *to = other;
    if (!other) return ls_fail_memory("ids", count * sizeof(*other));
    for (int shift = 0; shift < 32 && largest >> shift; shift += 8) {
        size_t begin[257] = {0};
        for (size_t i = 0; i < count; i++) begin[(from[i].id >> shift & 255) + 1]++;
        for (int b = 0; b < 256; b++) begin[b + 1] += begin[b];
        for (size_t i = 0; i < count; i++) to[begin[from[i].id >> shift & 255]++] = from[i];
        struct entry *sorted = to;
        to = from;
        from = sorted;
    }
    if (from != entries) memcpy(entries, from, count * sizeof(*entries));
    return LS_OK;
}

/* ---- a worker ---- */

/* An id's number among all ids by their owners. `rows`: of an owner, at most. */
static uint32_t number_of(uint32_t id, uint32_t servers, uint32_t rows) {
    return id % servers * rows + id / servers;
}

ls_status ls_row_lists_unique(const struct ls_tensor *ids, int servers, struct ls_row_leaf *leaf, int32_t *places) {
    size_t count = (size_t)(ids->shape.dims[0] * ids->shape.dims[1]);
    LS_CLEANUP(ls_free_pointer) struct entry *entries = ls_alloc_array(count, sizeof(*entries));
    uint32_t largest = 0, owners = (uint32_t)servers;
    if (!entries) return ls_fail_memory("ids", count * sizeof(*entries));
    for (size_t i = 0; i < count; i++) {
        entries[i] = (struct entry){(uint32_t)ls_ids_at(ids, (int64_t)i), (uint32_t)i};
        if (entries[i].id > largest) largest = entries[i].id;
    }
    uint32_t rows = largest / owners + 1;
    for (size_t i = 0; i < count; i++) entries[i].id = number_of(entries[i].id, owners, rows);
    ls_status status = sort(entries, count, owners * rows - 1);
    leaf->servers = servers;
    leaf->count = 0;
    for (size_t i = 0; i < count && !status; i++) {
        uint32_t number = entries[i].id;
        if (!i || number != entries[i - 1].id)
            leaf->ids[leaf->count++] = (int32_t)(number % rows * owners + number / rows);
        places[entries[i].at] = (int32_t)(leaf->count - 1);
    }
    return status;
}

/* The first id of that owner, or of a later one. */
static size_t first_of(const struct ls_row_leaf *leaf, int owner) {
    size_t low = 0, high = leaf->count;
    while (low < high) {
        size_t middle = low + (high - low) / 2;
        if (leaf->ids[middle] % leaf->servers < owner)
            low = middle + 1;
        else
            high = middle;
    }
    return low;
}

struct ls_row_span ls_row_lists_span(const struct ls_row_leaf *leaf, int owner) {
    size_t first = first_of(leaf, owner);
    return (struct ls_row_span){first, first_of(leaf, owner + 1) - first};
}

static size_t encode_slice(const struct ls_row_leaf *leaf, int owner, int32_t *words) {
    const struct ls_row_span span = ls_row_lists_span(leaf, owner);
    if (words) words[0] = (int32_t)span.count;
    if (words && span.count) memcpy(words + 1, leaf->ids + span.first, span.count * sizeof(*words));
    return 1 + span.count;
}

size_t ls_row_lists_encode(const struct ls_row_leaf *leaves, int count, const struct ls_layout *layout, int server,
                           int32_t *words) {
    size_t made = 1;
    if (words) words[0] = count;
    for (int l = 0; l < count; l++)
        for (int c = 0; c < layout->copies; c++)
            made += encode_slice(&leaves[l], ls_layout_before(layout, server, c), words ? words + made : NULL);
    return made;
}

/* ---- a server ---- */

static ls_status bad_list(int worker, const char *what, int64_t value) {
    return ls_fail(LS_DATA_LOSS, "rank %d asks a parameter server for rows of which %s, %lld, cannot be", worker, what,
                   (long long)value);
}

/* The next slice of what is left. */
static ls_status read_slice(const int32_t **at, const int32_t *end, int worker, struct ls_row_slice *slice) {
    if (*at == end || **at < 0 || **at > end - *at - 1)
        return bad_list(worker, "the number of ids", *at == end ? -1 : **at);
    *slice = (struct ls_row_slice){*at + 1, (size_t) * *at, NULL};
    *at += 1 + slice->count;
    return LS_OK;
}

static ls_status check_slice(const struct ls_row_slice *slice, int worker, int servers, int owner, int64_t limit) {
    for (size_t i = 0; i < slice->count; i++) {
        int32_t id = slice->ids[i];
        if (id < 0 || id >= limit || id % servers != owner || (i && id <= slice->ids[i - 1]))
            return bad_list(worker, "an id", id);
    }
    return LS_OK;
}

static ls_status count_leaves(const struct ls_row_words *told, int copies, struct ls_row_lists *lists) {
    const int32_t *words = told->words;
    for (int w = 0; w < told->workers; words += told->counts[w++]) {
        int64_t count = told->counts[w] ? words[0] : -1;
        if (count < 0 || (uint64_t)count * (uint64_t)copies > told->counts[w] - 1)
            return bad_list(w, "the number of replicas", count);
        if (count > INT32_MAX - lists->leaves) return bad_list(w, "the number of replicas", count);
        lists->leaves += (int)count;
        lists->first[w + 1] = lists->leaves;
    }
    return LS_OK;
}

static ls_status read_slices(const struct ls_row_words *told, const struct ls_layout *layout,
                             struct ls_row_lists *lists) {
    struct ls_row_slice *slice = lists->slices;
    const int32_t *words = told->words;
    for (int w = 0; w < told->workers; words += told->counts[w++]) {
        const int32_t *at = words + 1, *end = words + told->counts[w];
        int slices = (lists->first[w + 1] - lists->first[w]) * layout->copies;
        for (int i = 0; i < slices; i++, slice++) {
            int owner = ls_layout_before(layout, told->server, i % layout->copies);
            ls_status status = read_slice(&at, end, w, slice);
            if (!status) status = check_slice(slice, w, layout->holders, owner, told->limit);
            if (status) return status;
        }
        if (at != end) return bad_list(w, "the number of words", (int64_t)told->counts[w]);
    }
    return LS_OK;
}

ls_status ls_row_lists_decode(const struct ls_row_words *told, const struct ls_layout *layout,
                              struct ls_row_lists *lists) {
    struct ls_row_lists made = {.first = ls_alloc_array((size_t)told->workers + 1, sizeof(*made.first))};
    if (!made.first) return ls_fail_memory("lists of rows", (size_t)told->workers * sizeof(*made.first));
    ls_status status = count_leaves(told, layout->copies, &made);
    size_t slices = (size_t)made.leaves * (size_t)layout->copies;
    if (!status && !(made.slices = ls_alloc_array(slices + 1, sizeof(*made.slices))))
        status = ls_fail_memory("lists of rows", slices * sizeof(*made.slices));
    if (!status) status = read_slices(told, layout, &made);
    return LS_HAND_OVER(status, lists, made, ls_row_lists_free(&made));
}

void ls_row_lists_free(struct ls_row_lists *lists) {
    ls_free(ls_steal(lists->slices));
    ls_free(ls_steal(lists->first));
    lists->leaves = 0;
}

/* ---- sums ---- */

/* A row as the leaves that have it bring it. */
struct present {
    int leaf;
    float *values;
};

/* A node of the tree over leaves [low, high), of which [begin, end) of the list lie in it. Adds into the lowest. */
static float *fold(const struct present *list, size_t begin, size_t end, int low, int high, size_t width) {
    if (end - begin == 1) return list[begin].values;
    int middle = low + ls_tree_split(high - low);
    size_t cut = begin;
    while (cut < end && list[cut].leaf < middle) cut++;
    if (cut == begin) return fold(list, begin, end, middle, high, width);
    if (cut == end) return fold(list, begin, end, low, middle, width);
    float *left = fold(list, begin, cut, low, middle, width);
    const float *right = fold(list, cut, end, middle, high, width);
    for (size_t i = 0; i < width; i++) left[i] += right[i];
    return left;
}

/* Rows of one owner, which are width floats each. */
struct adding {
    const struct ls_row_lists *lists;
    int copies, copy;
    size_t width, count; /* of all leaves */
};

static const struct ls_row_slice *slice_of(const struct adding *adding, int leaf) {
    return &adding->lists->slices[(size_t)leaf * (size_t)adding->copies + (size_t)adding->copy];
}

/* All rows of all leaves, sorted; at is the number in list, which stays in the order of leaves. */
static ls_status list_entries(const struct adding *adding, struct entry *entries, struct present *list) {
    size_t made = 0;
    uint32_t largest = 0;
    for (int leaf = 0; leaf < adding->lists->leaves; leaf++) {
        const struct ls_row_slice *slice = slice_of(adding, leaf);
        for (size_t i = 0; i < slice->count; i++, made++) {
            entries[made] = (struct entry){(uint32_t)slice->ids[i], (uint32_t)made};
            list[made] = (struct present){leaf, slice->gradients + i * adding->width};
            if (entries[made].id > largest) largest = entries[made].id;
        }
    }
    return sort(entries, made, largest);
}

static void fold_entries(const struct adding *adding, const struct entry *entries, const struct present *list,
                         struct ls_row_sums *sums, struct present *same) {
    size_t width = adding->width;
    for (size_t begin = 0, end; begin < adding->count; begin = end) {
        for (end = begin; end < adding->count && entries[end].id == entries[begin].id; end++)
            same[end - begin] = list[entries[end].at];
        sums->ids[sums->count] = (int32_t)entries[begin].id;
        memcpy(sums->gradients + sums->count++ * width, fold(same, 0, end - begin, 0, adding->lists->leaves, width),
               width * sizeof(float));
    }
}

ls_status ls_row_lists_add(const struct ls_row_lists *lists, int copies, int copy, size_t width,
                           struct ls_row_sums *sums) {
    struct adding adding = {lists, copies, copy, width, 0};
    for (int leaf = 0; leaf < lists->leaves; leaf++) adding.count += slice_of(&adding, leaf)->count;
    size_t count = adding.count;
    LS_CLEANUP(ls_free_pointer) struct entry *entries = ls_alloc_array(count + 1, sizeof(*entries));
    LS_CLEANUP(ls_free_pointer) struct present *list = ls_alloc_array(count + 1, sizeof(*list));
    LS_CLEANUP(ls_free_pointer) struct present *same = ls_alloc_array((size_t)lists->leaves + 1, sizeof(*same));
    struct ls_row_sums made = {ls_alloc_array(count + 1, sizeof(*made.ids)),
                               ls_alloc_aligned((count + 1) * width * sizeof(float)), 0};
    ls_status status = LS_OK;
    if (!entries || !list || !same || !made.ids || !made.gradients)
        status = ls_fail_memory("sums of rows", count * width * sizeof(float));
    if (!status) status = list_entries(&adding, entries, list);
    if (!status) fold_entries(&adding, entries, list, &made, same);
    return LS_HAND_OVER(status, sums, made, ls_row_lists_free_sums(&made));
}

void ls_row_lists_free_sums(struct ls_row_sums *sums) {
    ls_free(ls_steal(sums->ids));
    ls_free(ls_steal(sums->gradients));
    sums->count = 0;
}
