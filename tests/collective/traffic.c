/* The bytes that schedules tell against those that links carry, for random ranks, servers, leaves, sizes, algorithms
 * and compressions. */
#include "collective/servers/traffic.h"

#include <stdlib.h>
#include <string.h>

#include "collective/collectives.h"
#include "collective/run/frame.h"
#include "collective/world.h"
#include "property/draw.h"

enum { CASES = SANITIZED ? 20 : 80, MOST_WORKERS = 6, MOST_SERVERS = 3 };

struct trial {
    size_t sent[MAX_RANKS][MAX_RANKS];
    struct ls_reduction reduction;
    int first[MAX_RANKS + 1];
};

static ls_status reduce(struct rank *rank) {
    const struct trial *trial = rank->context;
    int leaves = trial->first[rank->rank + 1] - trial->first[rank->rank];
    void *arrays[4];
    for (int i = 0; i < leaves; i++) arrays[i] = calloc(trial->reduction.count, sizeof(float));
    const struct ls_all_reduce call = {.name = "traffic",
                                       .dtype = LS_FLOAT32,
                                       .count = trial->reduction.count,
                                       .leaves = {trial->first},
                                       .compression = trial->reduction.compression,
                                       .inputs = (const void *const *)arrays,
                                       .outputs = arrays};
    ls_status status = ls_group_all_reduce(rank->group, &call);
    for (int i = 0; i < leaves; i++) free(arrays[i]);
    return status;
}

static void draw_trial(struct draw *draw, struct trial *trial) {
    static const ls_compression compressions[] = {LS_COMPRESS_NONE, LS_COMPRESS_FP16, LS_COMPRESS_BF16};
    int workers = 2 + (int)draw_below(draw, MOST_WORKERS - 1);
    *trial = (struct trial){.reduction = {.element = sizeof(float), .count = 1 + draw_below(draw, 1 << 17)}};
    trial->reduction.servers = draw_once_in(draw, 2) ? 0 : 1 + (int)draw_below(draw, MOST_SERVERS);
    trial->reduction.size = workers + trial->reduction.servers;
    trial->reduction.compression = compressions[draw_below(draw, 3)];
    trial->reduction.first = trial->first;
    if (trial->reduction.servers) trial->reduction.count += 4096; /* large enough for them */
    for (int w = 0; w < workers; w++) trial->first[w + 1] = trial->first[w] + 1 + (int)draw_below(draw, 3);
    for (int r = workers; r < trial->reduction.size; r++) trial->first[r + 1] = trial->first[r];
}

static enum ls_algorithm draw_algorithm(struct draw *draw, const struct trial *trial) {
    static const enum ls_algorithm over_links[] = {LS_ALGORITHM_EXCHANGE, LS_ALGORITHM_DIRECT};
    return trial->reduction.servers ? LS_ALGORITHM_ASSIST : over_links[draw_below(draw, 2)];
}

/* Each pair sends frames beside, and servers hear of the leaves. */
static void expect_bytes(const struct trial *trial, enum ls_algorithm algorithm) {
    const struct ls_reduction *reduction = &trial->reduction;
    for (int r = 0; r < reduction->size; r++) {
        struct ls_reduction own = *reduction;
        struct ls_traffic traffic = {0, 0};
        size_t out = 0, in = 0, beside = (size_t)reduction->size * (3 * LS_FRAME_SIZE + sizeof(trial->first));
        own.rank = r;
        assert_ok(ls_traffic_add(algorithm, &own, &traffic));
        for (int other = 0; other < reduction->size; other++) {
            out += trial->sent[r][other];
            in += trial->sent[other][r];
        }
        ck_assert_msg(out >= traffic.sent && out - traffic.sent <= beside, "rank %d of %d sent %zu, not %zu", r,
                      reduction->size, out, traffic.sent);
        ck_assert_msg(in >= traffic.received && in - traffic.received <= beside, "rank %d of %d received %zu, not %zu",
                      r, reduction->size, in, traffic.received);
    }
}

TEST(schedules_tell_what_links_carry) {
    uint64_t seed = first_seed();
    for (uint64_t i = 0; i < CASES; i++) {
        struct draw draw = draw_from(seed, i);
        struct trial trial;
        struct world world;
        draw_trial(&draw, &trial);
        enum ls_algorithm algorithm = draw_algorithm(&draw, &trial);
        const struct world_options options = {.size = trial.reduction.size - trial.reduction.servers,
                                              .servers = trial.reduction.servers,
                                              .algorithm = algorithm,
                                              .sent = trial.sent};
        world_run(&options, reduce, &trial, &world);
        world_expect_ok(&world, options.size);
        expect_bytes(&trial, algorithm);
    }
}

TESTS("collective/traffic", .seconds = 120)
