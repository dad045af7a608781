/* A stage begins with as many forwards as it holds batches. Then backward and forward take turns until all batches have
 * gone forward, and the rest goes back. */
#include "sync/pipeline_order.h"

int ls_pipeline_order_depth(const struct ls_pipeline_order *order) {
    int ahead = order->stages - order->stage, all = order->batches;
    if (order->kind == LS_PIPELINE_GPIPE && ahead > 1) return all;
    return ahead < all ? ahead : all;
}

struct ls_pipeline_action ls_pipeline_order_at(const struct ls_pipeline_order *order, int index) {
    int depth = ls_pipeline_order_depth(order), turns = 2 * (order->batches - depth), past = index - depth;
    if (past < 0) return (struct ls_pipeline_action){false, index};
    if (past >= turns) return (struct ls_pipeline_action){true, order->batches - depth + past - turns};
    return past % 2 ? (struct ls_pipeline_action){false, depth + past / 2}
                    : (struct ls_pipeline_action){true, past / 2};
}
