/* Random collectives on random worlds of threads: every kind of call, type, op, order, count, layout, link, algorithm
 * and memory, against the oracle in bits. */
#include <stdio.h>
#include <string.h>

#include "collective/tuner.h"
#include "property/call.h"

enum { MOST_CALLS = 40 };

struct random_world {
    struct setting setting;
    struct answers answers;
    struct call call; /* of all ranks */
    struct ls_tuner_choice choice[MOST_RANKS];
    uint64_t calls;
};

static ls_status begin(struct rank *rank, struct random_world *world) {
    return world->setting.measured ? ls_tuner_measure(rank->group, &world->choice[rank->rank]) : LS_OK;
}

/* All ranks are between calls while one draws the next. */
static void prepare(struct rank *rank, struct random_world *world, uint64_t number) {
    (void)pthread_barrier_wait(rank->barrier);
    if (!rank->rank) {
        draw_call(&world->setting, number, &world->call);
        trial_note(world->call.text);
        answers_prepare(&world->answers, &world->setting, &world->call);
    }
    (void)pthread_barrier_wait(rank->barrier);
}

static ls_status run(struct rank *rank) {
    struct random_world *world = rank->context;
    struct pool pools[POOLS] = {{0}};
    ls_status status = begin(rank, world);
    for (uint64_t number = 0; number < world->calls && !status; number++) {
        prepare(rank, world, number);
        status = call_make(rank->group, &world->setting, &world->call, &world->answers, pools);
        if (status) trial_fail("rank %d: %s", rank->rank, ls_error());
    }
    if (status) trial_fail("rank %d: %s", rank->rank, ls_error());
    for (int i = 0; i < POOLS; i++) ls_group_unshare(rank->group, pools[i].memory);
    return status;
}

static long one_world(uint64_t seed) {
    struct draw draw = draw_from(seed, 2);
    struct random_world random = {.setting = draw_setting(seed)};
    char text[256];
    setting_describe(&random.setting, text, sizeof(text));
    trial_note(text);
    random.calls = 1 + draw_below(&draw, MOST_CALLS);
    const struct world_options options = {.size = random.setting.size,
                                          .wire = random.setting.wire,
                                          .timeout = 120,
                                          .segment = random.setting.segment,
                                          .hosts = random.setting.hosts,
                                          .algorithm = random.setting.algorithm};
    struct world world;
    world_run(&options, run, &random, &world);
    for (int i = 0; i < options.size; i++)
        if (world.ranks[i].status) trial_fail("rank %d: %s", i, world.ranks[i].error);
    answers_free(&random.answers);
    trial_note("between worlds");
    return (long)random.calls;
}

int main(int argc, char **argv) {
    return trial_main(argc, argv, "property/collective", one_world);
}
