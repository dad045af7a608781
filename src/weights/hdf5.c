/* The superblock, objects' messages, and groups. */
#include "weights/hdf5.h"

#include <string.h>

#include "base/grow.h"
#include "weights/hdf5_private.h"

#define SIGNATURE  "\x89HDF\r\n\x1a\n"
#define WORD       8  /* bytes of offsets and lengths, as all writers have it */
#define LEVELS     16 /* of a group's tree */
#define LEAF_ENTRY 40
#define STEPS      1000000 /* more than any whole file needs */

/* ---- bytes ---- */

void ls_hdf5_fault(struct ls_hdf5 *file, ls_status status, uint64_t at, const char *what) {
    if (file->fault) return;
    file->fault = status;
    file->at = at;
    file->what = what;
}

ls_status ls_hdf5_status(const struct ls_hdf5 *file) {
    if (!file->fault) return LS_OK;
    if (file->fault == LS_UNIMPLEMENTED)
        return ls_fail(file->fault, "'%s' is not read: %s, at offset %llu", file->path, file->what,
                       (unsigned long long)file->at);
    return ls_fail(file->fault, "'%s' is damaged, truncated or no HDF5 file: %s, at offset %llu of %zu", file->path,
                   file->what, (unsigned long long)file->at, file->size);
}

bool ls_hdf5_inside(struct ls_hdf5 *file, uint64_t at, uint64_t size) {
    if (file->fault) return false;
    if (at <= file->size && size <= file->size - at) return true;
    ls_hdf5_fault(file, LS_DATA_LOSS, at, "something beyond its end");
    return false;
}

uint64_t ls_hdf5_number(struct ls_hdf5 *file, uint64_t at, int size) {
    uint64_t value = 0;
    if (!ls_hdf5_inside(file, at, (uint64_t)size)) return 0;
    for (int i = size; i-- > 0;) value = value << 8 | file->bytes[at + (uint64_t)i];
    return value;
}

bool ls_hdf5_magic(struct ls_hdf5 *file, uint64_t at, const char *letters) {
    size_t length = strlen(letters);
    if (!ls_hdf5_inside(file, at, length)) return false;
    if (!memcmp(file->bytes + at, letters, length)) return true;
    ls_hdf5_fault(file, LS_DATA_LOSS, at, "not the block that it should be");
    return false;
}

bool ls_hdf5_step(struct ls_hdf5 *file, uint64_t at) {
    if (!file->fault && file->steps > 0) {
        file->steps--;
        return true;
    }
    ls_hdf5_fault(file, LS_DATA_LOSS, at, "links that lead in circles");
    return false;
}

ls_status ls_hdf5_open(const char *path, const uint8_t *bytes, size_t size, struct ls_hdf5 *file) {
    struct ls_hdf5 opened = {.path = path, .bytes = bytes, .size = size, .steps = STEPS};
    if (size < 8 || memcmp(bytes, SIGNATURE, 8) != 0) ls_hdf5_fault(&opened, LS_DATA_LOSS, 0, "not HDF5's signature");
    uint64_t version = ls_hdf5_number(&opened, 8, 1), addresses = version == 1 ? 28 : 24;
    if (version > 1) ls_hdf5_fault(&opened, LS_UNIMPLEMENTED, 8, "a superblock of a newer form (libver='latest')");
    if (ls_hdf5_number(&opened, 13, 1) != WORD || ls_hdf5_number(&opened, 14, 1) != WORD)
        ls_hdf5_fault(&opened, LS_UNIMPLEMENTED, 13, "offsets of another size than 8 bytes");
    if (ls_hdf5_number(&opened, addresses, WORD)) ls_hdf5_fault(&opened, LS_UNIMPLEMENTED, addresses, "a base address");
    opened.root = ls_hdf5_number(&opened, addresses + 5 * WORD, WORD);
    ls_status status = ls_hdf5_status(&opened);
    if (!status) *file = opened;
    return status;
}

/* ---- messages ---- */

void ls_hdf5_walk_begin(struct ls_hdf5 *file, uint64_t object, struct ls_hdf5_walk *walk) {
    *walk = (struct ls_hdf5_walk){.file = file};
    if (ls_hdf5_number(file, object, 4) == 0x5244484F) /* "OHDR" */
        ls_hdf5_fault(file, LS_UNIMPLEMENTED, object, "an object of a newer form (libver='latest', track_order)");
    else if (ls_hdf5_number(file, object, 1) != 1)
        ls_hdf5_fault(file, LS_DATA_LOSS, object, "no object");
    uint64_t size = ls_hdf5_number(file, object + 8, 4);
    walk->left = ls_hdf5_number(file, object + 2, 2);
    walk->at = object + 16;
    if (ls_hdf5_inside(file, walk->at, size)) walk->end = walk->at + size;
}

static void add_block(struct ls_hdf5_walk *walk, uint64_t at) {
    uint64_t place = ls_hdf5_number(walk->file, at, WORD), size = ls_hdf5_number(walk->file, at + WORD, WORD);
    if (walk->count == LS_HDF5_BLOCKS)
        ls_hdf5_fault(walk->file, LS_DATA_LOSS, at, "an object in too many blocks");
    else if (ls_hdf5_inside(walk->file, place, size))
        memcpy(walk->blocks[walk->count++], (uint64_t[]){place, place + size}, sizeof(walk->blocks[0]));
}

/* To the block in which the next message lies. */
static bool find_block(struct ls_hdf5_walk *walk) {
    while (walk->end < walk->at || walk->end - walk->at < 8) {
        if (walk->next == walk->count) return false;
        walk->at = walk->blocks[walk->next][0];
        walk->end = walk->blocks[walk->next++][1];
    }
    return true;
}

bool ls_hdf5_walk_next(struct ls_hdf5_walk *walk, struct ls_hdf5_message *message) {
    struct ls_hdf5 *file = walk->file;
    while (!file->fault && walk->left && find_block(walk) && ls_hdf5_step(file, walk->at)) {
        *message = (struct ls_hdf5_message){(unsigned)ls_hdf5_number(file, walk->at, 2), walk->at + 8,
                                            ls_hdf5_number(file, walk->at + 2, 2)};
        bool shared = ls_hdf5_number(file, walk->at + 4, 1) & 2;
        if (message->size > walk->end - message->at)
            ls_hdf5_fault(file, LS_DATA_LOSS, walk->at, "a message that does not fit");
        walk->at = message->at + message->size;
        walk->left--;
        if (file->fault) return false;
        if (shared && message->kind == LS_HDF5_DATATYPE)
            ls_hdf5_fault(file, LS_UNIMPLEMENTED, message->at, "a named datatype");
        if (message->kind != LS_HDF5_CONTINUATION) return !file->fault;
        add_block(walk, message->at);
    }
    return false;
}

bool ls_hdf5_message(struct ls_hdf5 *file, uint64_t object, enum ls_hdf5_kind kind, struct ls_hdf5_message *message) {
    struct ls_hdf5_walk walk;
    ls_hdf5_walk_begin(file, object, &walk);
    while (ls_hdf5_walk_next(&walk, message))
        if (message->kind == (unsigned)kind) return true;
    return false;
}

void ls_hdf5_shape(struct ls_hdf5 *file, uint64_t at, ls_shape *shape) {
    uint64_t version = ls_hdf5_number(file, at, 1), rank = ls_hdf5_number(file, at + 1, 1);
    *shape = (ls_shape){0};
    if (version < 1 || version > 2) ls_hdf5_fault(file, LS_DATA_LOSS, at, "no dataspace");
    if (rank > LS_MAX_RANK) ls_hdf5_fault(file, LS_UNIMPLEMENTED, at, "of more than 8 axes");
    for (uint64_t i = 0; !file->fault && i < rank; i++) {
        uint64_t extent = ls_hdf5_number(file, at + (version == 1 ? 8 : 4) + i * WORD, WORD);
        if (extent > INT64_MAX) ls_hdf5_fault(file, LS_DATA_LOSS, at, "an extent beyond all files");
        shape->dims[shape->rank++] = (int64_t)extent;
    }
}

/* ---- groups ---- */

static void add_link(struct ls_hdf5 *file, struct ls_hdf5_links *links, const struct ls_hdf5_link *link) {
    if (LS_GROW(links->links, links->capacity, links->count + 1, 16, "links"))
        ls_hdf5_fault(file, LS_RESOURCE_EXHAUSTED, 0, "no memory for its links");
    else
        links->links[links->count++] = *link;
}

/* A group while it is listed: where its names lie. */
struct listing {
    struct ls_hdf5 *file;
    uint64_t names, names_size;
    struct ls_hdf5_links *links;
};

static void list_entry(const struct listing *listing, uint64_t at) {
    struct ls_hdf5 *file = listing->file;
    uint64_t name = ls_hdf5_number(file, at, WORD);
    struct ls_hdf5_link link = {.object = ls_hdf5_number(file, at + WORD, WORD)};
    if (file->fault || !ls_hdf5_step(file, at)) return;
    if (name < listing->names_size) {
        link.name = (const char *)file->bytes + listing->names + name;
        if (memchr(link.name, 0, listing->names_size - name)) {
            add_link(file, listing->links, &link);
            return;
        }
    }
    ls_hdf5_fault(file, LS_DATA_LOSS, at, "a link without a name");
}

static void list_leaf(const struct listing *listing, uint64_t at) {
    if (!ls_hdf5_magic(listing->file, at, "SNOD") || !ls_hdf5_step(listing->file, at)) return;
    uint64_t count = ls_hdf5_number(listing->file, at + 6, 2);
    for (uint64_t i = 0; !listing->file->fault && i < count; i++) list_entry(listing, at + 8 + i * LEAF_ENTRY);
}

/* level: how many more levels there may be below. */
static void list_tree(const struct listing *listing, uint64_t at, int level) {
    struct ls_hdf5 *file = listing->file;
    if (!ls_hdf5_magic(file, at, "TREE") || !ls_hdf5_step(file, at)) return;
    uint64_t height = ls_hdf5_number(file, at + 5, 1), count = ls_hdf5_number(file, at + 6, 2);
    if (ls_hdf5_number(file, at + 4, 1) || height >= (uint64_t)level)
        ls_hdf5_fault(file, LS_DATA_LOSS, at, "no tree of a group");
    for (uint64_t i = 0; !file->fault && i < count; i++) {
        uint64_t child = ls_hdf5_number(file, at + 8 + 2 * WORD + WORD + i * 2 * WORD, WORD);
        if (height)
            list_tree(listing, child, (int)height);
        else
            list_leaf(listing, child);
    }
}

ls_status ls_hdf5_list(struct ls_hdf5 *file, uint64_t object, struct ls_hdf5_links *links) {
    struct ls_hdf5_message table;
    struct listing listing = {.file = file, .links = links};
    *links = (struct ls_hdf5_links){0};
    if (ls_hdf5_message(file, object, LS_HDF5_SYMBOL_TABLE, &table)) {
        uint64_t tree = ls_hdf5_number(file, table.at, WORD), heap = ls_hdf5_number(file, table.at + WORD, WORD);
        if (ls_hdf5_magic(file, heap, "HEAP")) {
            listing.names_size = ls_hdf5_number(file, heap + 8, WORD);
            listing.names = ls_hdf5_number(file, heap + 8 + 2 * WORD, WORD);
            if (ls_hdf5_inside(file, listing.names, listing.names_size)) list_tree(&listing, tree, LEVELS);
        }
    } else if (!file->fault && ls_hdf5_message(file, object, LS_HDF5_LINK_INFO, &table)) {
        ls_hdf5_fault(file, LS_UNIMPLEMENTED, object, "a group of a newer form (libver='latest', track_order)");
    }
    if (file->fault) ls_hdf5_links_free(links);
    return ls_hdf5_status(file);
}

void ls_hdf5_links_free(struct ls_hdf5_links *links) {
    ls_free(links->links);
    *links = (struct ls_hdf5_links){0};
}

const struct ls_hdf5_link *ls_hdf5_link(const struct ls_hdf5_links *links, const char *name, size_t length) {
    for (size_t i = 0; i < links->count; i++)
        if (!strncmp(links->links[i].name, name, length) && !links->links[i].name[length]) return &links->links[i];
    return NULL;
}
