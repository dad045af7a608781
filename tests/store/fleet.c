/* The order of keepers is that of servers. */
#include "store/fleet.h"

#include "harness.h"

void fleet_add(struct fleet *fleet) {
    assert_ok(ls_keeper_new(&fleet->log, &fleet->keepers[fleet->count++]));
}

struct ls_keeper *fleet_take_out(struct fleet *fleet, struct draw *draw) {
    int which = (int)draw_below(draw, (size_t)fleet->count);
    struct ls_keeper *keeper = fleet->keepers[which];
    for (int i = which + 1; i < fleet->count; i++) fleet->keepers[i - 1] = fleet->keepers[i];
    fleet->count--;
    return keeper;
}

void fleet_put_back(struct fleet *fleet, struct draw *draw, struct ls_keeper *keeper) {
    int which = (int)draw_below(draw, (size_t)fleet->count + 1);
    for (int i = fleet->count++; i > which; i--) fleet->keepers[i] = fleet->keepers[i - 1];
    fleet->keepers[which] = keeper;
}

void fleet_lose(struct fleet *fleet, struct draw *draw) {
    ls_keeper_free(fleet_take_out(fleet, draw));
}

void fleet_end(struct fleet *fleet) {
    while (fleet->count) ls_keeper_free(fleet->keepers[--fleet->count]);
}

void fleet_begin(struct fleet *fleet, int64_t generation) {
    for (int i = 0; i < fleet->count; i++) {
        ls_keeper_begin(fleet->keepers[i], generation, fleet->count);
        fleet->keeping[i] = (struct ls_keeping){ls_keeper_call, fleet->keepers[i]};
    }
}
