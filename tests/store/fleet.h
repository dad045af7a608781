/* Parameter servers of a test, as keepers that come and go from one generation to the next. */
#pragma once
#include "base/log.h"
#include "property/draw.h"
#include "store/keeper.h"

enum { FLEET_MOST = 8 };
struct fleet {
    struct ls_log log;
    struct ls_keeper *keepers[FLEET_MOST];
    struct ls_keeping keeping[FLEET_MOST]; /* of the present generation */
    int count;
};
void fleet_add(struct fleet *fleet);
/* One of them, drawn; it is the caller's then. */
struct ls_keeper *fleet_take_out(struct fleet *fleet, struct draw *draw);
void fleet_put_back(struct fleet *fleet, struct draw *draw, struct ls_keeper *keeper); /* at a drawn place */
void fleet_lose(struct fleet *fleet, struct draw *draw);
void fleet_end(struct fleet *fleet); /* all of them */
/* A generation begins for all. */
void fleet_begin(struct fleet *fleet, int64_t generation);
