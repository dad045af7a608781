/* A worker of a bare communicator that makes alike calls, then one that some of the ranks make unlike, then alike calls
 * again. The seed says who makes which call, on every rank alike. With 0 every second rank takes another one for the
 * root of a broadcast: fingerprints go along the edges of two trees that share none.
 *
 * usage: unlike_calls SEED */
#include <lockstep/lockstep.h>
#include <stdio.h>
#include <stdlib.h>

enum { RANKS = 64, MOST = 200000 };

struct call {
    int kind, root;
    size_t count;
};

static ls_status make(ls_communicator *communicator, const struct call *call) {
    static float input[MOST], output[MOST];
    switch (call->kind) {
    case 0:
        return ls_all_reduce(communicator, LS_ALL_REDUCE("call", input, output, call->count));
    case 1:
        return ls_barrier(communicator, "call");
    default: /* the commonest, for a root sends to some and waits for nobody */
        return ls_broadcast(communicator, LS_BROADCAST("call", output, call->count, LS_FLOAT32, call->root));
    }
}

static struct call draw(int size) {
    static const size_t counts[] = {1, 10, 3000, MOST};
    int kind = rand() % 4, root = rand() % size; /* NOLINT: the same on all ranks is what counts */
    return (struct call){kind, root, counts[rand() % 4]};
}

static bool is_alike(const struct call *a, const struct call *b) {
    bool broadcasts = a->kind >= 2 && b->kind >= 2;
    if (!broadcasts && a->kind != b->kind) return false;
    return a->kind == 1 || (a->count == b->count && (!broadcasts || a->root == b->root));
}

static void draw_unlike(int size, struct call *usual, struct call *stray, int strays[RANKS]) {
    *usual = draw(size);
    do *stray = draw(size);
    while (is_alike(usual, stray));
    for (int few = 1 + rand() % (size / 2); few > 0; few--) strays[rand() % size] = 1;
}

int main(int argc, char **argv) {
    ls_communicator *communicator = NULL;
    if (argc != 2) return 2;
    ls_status status = ls_communicator_new(NULL, &communicator);
    if (status) return ls_exit(status);
    int size = ls_size(communicator), rank = ls_rank(communicator), seed = atoi(argv[1]), strays[RANKS] = {0};
    srand((unsigned)seed);
    struct call usual = {2, 0, 10}, stray = {2, 7, 10}, before = {0, 0, 100};
    if (seed) draw_unlike(size, &usual, &stray, strays);
    for (int i = 1; i < size && !seed; i += 2) strays[i] = 1;
    for (int i = 0; i < 3 && !status; i++) status = make(communicator, &before);
    if (!status) status = make(communicator, strays[rank] ? &stray : &usual);
    for (int i = 0; i < 3 && !status; i++) status = make(communicator, &before);
    return ls_exit(ls_communicator_close(communicator, status));
}
