/* One table a family: a variable, and the tensors of which it is made. */
#include "weights/huggingface.h"

#include <stdio.h>
#include <string.h>

#include "base/new.h"
#include "base/shape.h"

enum { PARTS = 3, NAME = 160 };

/* "#" stands for the number of a block. */
struct row {
    const char *variable;
    const char *tensors[PARTS]; /* side by side; the later ones may be NULL */
    bool turned;                /* a tensor is (out, in), the variable (in, out) */
};
struct family {
    const char *prefix; /* which a file may leave out in names of tensors */
    const struct row *rows;
    size_t count;
    const char *sign;       /* a variable by which the family is known */
    bool head;              /* an untold head is a variable of its own; else it is the embedding */
    const char *dropped[2]; /* endings of names that say nothing */
};

#define DENSE(variable, tensor)                                                                                        \
    {variable "/kernel", {tensor ".weight"}, false}, {                                                                 \
        variable "/bias", {tensor ".bias"}, false                                                                      \
    }
#define NORM(variable, tensor)                                                                                         \
    {variable "/gamma", {tensor ".weight"}, false}, {                                                                  \
        variable "/beta", {tensor ".bias"}, false                                                                      \
    }
static const struct row gpt2_rows[] = {
    {"token_embedding/embeddings", {"wte.weight"}, false},
    {"position_embedding/embeddings", {"wpe.weight"}, false},
    NORM("block_#_norm_1", "h.#.ln_1"),
    DENSE("block_#_qkv", "h.#.attn.c_attn"),
    DENSE("block_#_projection", "h.#.attn.c_proj"),
    NORM("block_#_norm_2", "h.#.ln_2"),
    DENSE("block_#_expand", "h.#.mlp.c_fc"),
    DENSE("block_#_contract", "h.#.mlp.c_proj"),
    NORM("final_norm", "ln_f"),
};

#define ATTENTION "model.layers.#.self_attn."
#define TURNED(a, ...)                                                                                                 \
    { a "/kernel", {__VA_ARGS__}, true }
static const struct row llama_rows[] = {
    {"token_embedding/embeddings", {"model.embed_tokens.weight"}, false},
    {"block_#_norm_1/scale", {"model.layers.#.input_layernorm.weight"}, false},
    TURNED("block_#_qkv", ATTENTION "q_proj.weight", ATTENTION "k_proj.weight", ATTENTION "v_proj.weight"),
    {"block_#_qkv/bias", {ATTENTION "q_proj.bias", ATTENTION "k_proj.bias", ATTENTION "v_proj.bias"}, false},
    TURNED("block_#_projection", ATTENTION "o_proj.weight"),
    {"block_#_norm_2/scale", {"model.layers.#.post_attention_layernorm.weight"}, false},
    TURNED("block_#_gate", "model.layers.#.mlp.gate_proj.weight"),
    TURNED("block_#_up", "model.layers.#.mlp.up_proj.weight"),
    TURNED("block_#_down", "model.layers.#.mlp.down_proj.weight"),
    {"final_norm/scale", {"model.norm.weight"}, false},
};
/* Of both. Its name has no prefix. */
static const struct row head_row = TURNED("predictions", "lm_head.weight");

#define COUNT(array) (sizeof(array) / sizeof((array)[0]))
static const struct family families[] = {
    {"transformer.", gpt2_rows, COUNT(gpt2_rows), "block_0_expand/kernel", false, {".attn.bias", ".attn.masked_bias"}},
    {"", llama_rows, COUNT(llama_rows), "block_0_gate/kernel", true, {".rotary_emb.inv_freq"}},
};

/* Writes prefix and pattern, with the block's number. */
static void fill_name(const char *prefix, const char *pattern, int block, char name[NAME]) {
    const char *sign = strchr(pattern, '#');
    int before = sign ? (int)(sign - pattern) : (int)strlen(pattern);
    int used = snprintf(name, NAME, "%s%.*s", prefix, before, pattern);
    if (sign) (void)snprintf(name + used, (size_t)(NAME - used), "%d%s", block, sign + 1);
}

/* Variables that are being renamed. */
struct naming {
    const char *path;
    const struct family *family;
    const char *prefix; /* in this file */
    struct ls_weights from, to;
    bool *taken; /* [from.count] */
};
/* Tensors that are side by side in a variable: matrices (out, in), or vectors (out). */
struct parts {
    struct ls_weight *items[PARTS];
    int count, rank;
};

static struct ls_weight *find(const struct naming *naming, const char *prefix, const char *pattern, int block) {
    char name[NAME];
    fill_name(prefix, pattern, block, name);
    return (struct ls_weight *)(uintptr_t)ls_weights_find(&naming->from, name);
}

static void take(struct naming *naming, const struct ls_weight *weight) {
    naming->taken[weight - naming->from.items] = true;
}

/* Under another name; values that are its own are handed over. */
static ls_status move(struct naming *naming, struct ls_weight *weight, const char *name) {
    struct ls_weight item = *weight;
    item.name = (char *)(uintptr_t)name;
    weight->own = NULL;
    take(naming, weight);
    return ls_weights_add(&naming->to, &item);
}

static ls_status begin(const char *path, struct ls_weights *weights, struct naming *naming) {
    naming->path = path;
    naming->taken = ls_alloc_array(weights->count, sizeof(*naming->taken));
    if (!naming->taken) return ls_fail_memory("a list of variables", weights->count);
    naming->from = *weights;
    return LS_OK;
}

/* The list is that of the new names; after an error it is the old one, with values missing: to be freed. */
static ls_status end(ls_status status, struct naming *naming, struct ls_weights *weights) {
    struct ls_weights *gone = status ? &naming->to : weights;
    for (size_t i = 0; i < gone->count; i++) {
        ls_free(gone->items[i].name);
        ls_free(gone->items[i].own);
    }
    ls_free(gone->items);
    ls_free(naming->taken);
    if (status) return status;
    weights->items = naming->to.items;
    weights->count = naming->to.count;
    weights->capacity = naming->to.capacity;
    return ls_weights_sort(naming->path, weights);
}

/* ---- theirs to ours ---- */

/* The second axis; 1 of a vector, 0 of what is neither. */
static int64_t second(const struct ls_weight *weight) {
    return weight->shape.rank == 2 ? weight->shape.dims[1] : weight->shape.rank == 1;
}

static ls_status check_part(const struct naming *naming, const struct parts *parts, int p) {
    const struct ls_weight *weight = parts->items[p];
    int64_t in = second(parts->items[0]);
    char shape[192];
    ls_shape_text(&weight->shape, shape, sizeof(shape));
    if (!weight->unread[0] && weight->shape.rank == parts->rank && second(weight) == in) return LS_OK;
    if (parts->rank == 1)
        return ls_fail(LS_INVALID_ARGUMENT, "'%s': tensor '%s' is %s, and no vector of floats", naming->path,
                       weight->name, weight->unread[0] ? weight->unread : shape);
    return ls_fail(LS_INVALID_ARGUMENT, "'%s': tensor '%s' is %s, and no matrix of floats (out, %lld)", naming->path,
                   weight->name, weight->unread[0] ? weight->unread : shape, (long long)in);
}

/* Side by side, as a matrix (in, all of out) or a vector. */
static ls_status join(struct naming *naming, const struct parts *parts, const char *name) {
    struct ls_weight *const *items = parts->items;
    int64_t in = second(items[0]), all = 0, before = 0;
    ls_status status = LS_OK;
    for (int p = 0; !status && p < parts->count; p++) {
        status = check_part(naming, parts, p);
        all += items[p]->shape.dims[0];
    }
    if (status) return status;
    float *values = ls_alloc_array((size_t)(all * in) + 1, sizeof(*values));
    if (!values) return ls_fail_memory(name, (size_t)(all * in) * sizeof(*values));
    for (int p = 0; p < parts->count; before += items[p++]->shape.dims[0])
        for (int64_t i = 0; i < items[p]->shape.dims[0]; i++)
            for (int64_t j = 0; j < in; j++)
                memcpy(values + j * all + before + i, items[p]->values + (size_t)(i * in + j) * sizeof(*values),
                       sizeof(*values));
    return ls_weights_add(&naming->to,
                          &(struct ls_weight){.name = (char *)(uintptr_t)name,
                                              .shape = parts->rank == 1 ? LS_SHAPE(all) : LS_SHAPE(in, all),
                                              .values = (uint8_t *)values,
                                              .own = (uint8_t *)values});
}

static ls_status read_row(struct naming *naming, const struct row *row, int block) {
    struct parts parts = {.rank = row->turned ? 2 : 1};
    char name[NAME];
    fill_name("", row->variable, block, name);
    for (; parts.count < PARTS && row->tensors[parts.count]; parts.count++) {
        struct ls_weight *part = find(naming, naming->prefix, row->tensors[parts.count], block);
        if (!part && parts.count)
            return ls_fail(LS_INVALID_ARGUMENT, "'%s' has tensor '%s', and none of the others beside it", naming->path,
                           parts.items[0]->name);
        if (!part) return LS_OK; /* whose model wants it tells so */
        parts.items[parts.count] = part;
    }
    if (!row->turned && parts.count == 1) return move(naming, parts.items[0], name);
    ls_status status = join(naming, &parts, name);
    for (int p = 0; !status && p < parts.count; p++) take(naming, parts.items[p]);
    return status;
}

/* Blocks are counted as long as there is a first tensor of one. */
static int count_blocks(const struct naming *naming) {
    int blocks = 0;
    bool there = true;
    while (there) {
        there = false;
        for (size_t r = 0; !there && r < naming->family->count; r++) {
            const char *pattern = naming->family->rows[r].tensors[0];
            there = strchr(pattern, '#') && find(naming, naming->prefix, pattern, blocks);
        }
        blocks += there;
    }
    return blocks;
}

static ls_status read_rows(struct naming *naming) {
    ls_status status = LS_OK;
    int blocks = count_blocks(naming);
    for (size_t r = 0; r < naming->family->count; r++) {
        const struct row *row = &naming->family->rows[r];
        for (int block = 0; !status && block < (strchr(row->variable, '#') ? blocks : 1); block++)
            status = read_row(naming, row, block);
    }
    return status;
}

/* A head that is a variable of its own; where none is told, and none is there, it is the embedding's copy. */
static ls_status add_head(struct naming *naming, enum ls_head told) {
    bool own = told == LS_HEAD_OWN || (told == LS_HEAD_UNTOLD && naming->family->head);
    struct ls_weight *head = find(naming, "", head_row.tensors[0], 0);
    if (!own || (!head && told == LS_HEAD_OWN)) return LS_OK;
    if (head) take(naming, head);
    if (!head) head = find(naming, naming->prefix, naming->family->rows[0].tensors[0], 0);
    return join(naming, &(struct parts){{head}, 1, 2}, head_row.variable);
}

static bool is_dropped(const struct family *family, const char *name) {
    if (!strcmp(name, head_row.tensors[0])) return true; /* one that is tied */
    for (size_t i = 0; i < COUNT(family->dropped) && family->dropped[i]; i++) {
        size_t length = strlen(name), ending = strlen(family->dropped[i]);
        if (length >= ending && !strcmp(name + length - ending, family->dropped[i])) return true;
    }
    return false;
}

static ls_status keep_others(struct naming *naming) {
    ls_status status = LS_OK;
    for (size_t i = 0; !status && i < naming->from.count; i++) {
        struct ls_weight *weight = &naming->from.items[i];
        if (!naming->taken[i] && !is_dropped(naming->family, weight->name)) status = move(naming, weight, weight->name);
    }
    return status;
}

/* The family whose embedding the file has; false without one. */
static bool find_family(const struct ls_weights *weights, struct naming *naming) {
    naming->from = *weights;
    for (size_t f = 0; f < COUNT(families); f++) {
        const char *prefixes[] = {families[f].prefix, ""};
        for (size_t p = 0; p < COUNT(prefixes); p++) {
            naming->family = &families[f];
            naming->prefix = prefixes[p];
            if (find(naming, prefixes[p], families[f].rows[0].tensors[0], 0)) return true;
        }
    }
    return false;
}

ls_status ls_huggingface_read(const char *path, struct ls_weights *weights) {
    struct naming naming = {0};
    if (!find_family(weights, &naming)) return LS_OK;
    ls_status status = begin(path, weights, &naming);
    if (status) return status;
    /* a file of ours has the head that its model has */
    status =
        add_head(&naming, weights->about && !weights->head ? LS_HEAD_OWN
                                                           : weights->head); /* before the embedding is handed over */
    if (!status) status = read_rows(&naming);
    if (!status) status = keep_others(&naming);
    return end(status, &naming, weights);
}

/* ---- ours to theirs ---- */

/* Columns of the variable (in, all), from the first-th on, become the tensor (out, in). */
static ls_status split(struct naming *naming, const struct ls_weight *weight, int64_t first, int64_t out,
                       const char *name) {
    int rank = weight->shape.rank;
    int64_t in = rank == 1 ? 1 : weight->shape.dims[0], all = weight->shape.dims[rank - 1];
    float *values = ls_alloc_array((size_t)(out * in) + 1, sizeof(*values));
    if (!values) return ls_fail_memory(name, (size_t)(out * in) * sizeof(*values));
    for (int64_t i = 0; i < out; i++)
        for (int64_t j = 0; j < in; j++)
            memcpy(values + i * in + j, weight->values + (size_t)(j * all + first + i) * sizeof(*values),
                   sizeof(*values));
    return ls_weights_add(&naming->to, &(struct ls_weight){.name = (char *)(uintptr_t)name,
                                                           .shape = rank == 1 ? LS_SHAPE(out) : LS_SHAPE(out, in),
                                                           .values = (uint8_t *)values,
                                                           .own = (uint8_t *)values});
}

/* Queries are as wide as what is projected, which is 0 where that is unknown. */
static int64_t query_width(const struct naming *naming, int block) {
    const struct ls_weight *weight = find(naming, "", "block_#_projection/kernel", block);
    return weight && weight->shape.rank == 2 ? weight->shape.dims[0] : 0;
}

/* Keys and values share what the queries leave. */
static ls_status split_row(struct naming *naming, const struct row *row, struct ls_weight *weight, int block) {
    const ls_shape *shape = &weight->shape;
    char name[NAME], text[192];
    bool whole = !row->tensors[1];
    int rank = row->turned ? 2 : 1;
    int64_t all = shape->rank == rank ? shape->dims[rank - 1] : 0, queries = whole ? all : query_width(naming, block);
    int64_t width[PARTS] = {queries, (all - queries) / 2, (all - queries) / 2}, first = 0;
    ls_status status = LS_OK;
    if (shape->rank != rank || weight->unread[0] ||
        (!whole && (queries < 1 || all <= queries || (all - queries) % 2))) {
        ls_shape_text(shape, text, sizeof(text));
        return ls_fail(LS_INVALID_ARGUMENT, "'%s': variable '%s' is %s, and no kernel of a llama", naming->path,
                       weight->name, weight->unread[0] ? weight->unread : text);
    }
    take(naming, weight);
    const char *prefix = row == &head_row ? "" : naming->prefix;
    for (int p = 0; !status && p < PARTS && row->tensors[p]; first += width[p++]) {
        fill_name(prefix, row->tensors[p], block, name);
        status = split(naming, weight, first, width[p], name);
    }
    return status;
}

/* *there: there is such a variable. */
static ls_status write_row(struct naming *naming, const struct row *row, int block, bool *there) {
    struct ls_weight *weight = find(naming, "", row->variable, block);
    char name[NAME];
    *there = weight != NULL;
    if (!weight) return LS_OK;
    if (row->turned || row->tensors[1]) return split_row(naming, row, weight, block);
    fill_name(naming->prefix, row->tensors[0], block, name);
    return move(naming, weight, name);
}

static ls_status write_rows(struct naming *naming) {
    ls_status status = LS_OK;
    for (size_t r = 0; r < naming->family->count; r++) {
        const struct row *row = &naming->family->rows[r];
        bool there = true;
        for (int block = 0; !status && there && block < (strchr(row->variable, '#') ? (int)naming->from.count : 1);
             block++)
            status = write_row(naming, row, block, &there);
    }
    bool head;
    if (!status) status = write_row(naming, &head_row, 0, &head);
    for (size_t i = 0; !status && i < naming->from.count; i++)
        if (!naming->taken[i])
            status =
                ls_fail(LS_INVALID_ARGUMENT, "'%s': variable '%s' has no name at Hugging Face in a model like this",
                        naming->path, naming->from.items[i].name);
    return status;
}

ls_status ls_huggingface_write(const char *path, struct ls_weights *weights) {
    struct naming naming = {0};
    for (size_t f = 0; f < COUNT(families); f++)
        if (ls_weights_find(weights, families[f].sign)) naming.family = &families[f];
    if (!naming.family)
        return ls_fail(LS_INVALID_ARGUMENT,
                       "'%s' is of no gpt, gpt2 or llama, whose names Hugging Face has: its first "
                       "variable is '%s'",
                       path, weights->items[0].name);
    naming.prefix = naming.family->prefix;
    ls_status status = begin(path, weights, &naming);
    if (!status) status = end(write_rows(&naming), &naming, weights);
    if (!status) weights->format = "pt";
    return status;
}
