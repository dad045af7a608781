/* The pump of messages: while a call waits, it writes what is queued, reads what has come, and sleeps.
 * One thread. */
#pragma once
#include "collective/group.h"
#include "collective/run/mailbox.h"

struct ls_pump {
    struct ls_group *group;
    struct ls_mail_wanted *wanted; /* what a receive waits for; NULL reads all that comes */
    int wake;                      /* a descriptor whose bytes end a wait; -1: none */
    int64_t idle;                  /* since when nothing has moved; 0: it has */
    int64_t grace;                 /* when to give up after the first trouble; LS_NEVER: there was none */
};
/* It has moved nothing. The group is borrowed. */
struct ls_pump ls_pump_of(struct ls_group *group);
/* Queues a message to another rank. It is borrowed until it has left, or the queue is cleared. */
void ls_pump_queue(struct ls_group *group, int to, struct ls_outgoing *message);
/* Writes what is queued for that rank, as far as it takes it now. A link that can't be made severs the group. */
ls_status ls_pump_write(struct ls_group *group, int to);
/* Drops what is queued for that rank. */
void ls_pump_clear(struct ls_group *group, int to);
/* Writes to all and reads from all, without waiting. */
ls_status ls_pump_move(struct ls_pump *pump, bool *moved);
/* Returns true once a grace has passed after the first trouble: its cause, or the rest of the bytes, may come in it. */
bool ls_pump_gives_up(struct ls_pump *pump, bool trouble);
/* Waits for something to move, until then or the end of the grace. It only yields shortly after something has moved. */
void ls_pump_wait(struct ls_pump *pump, bool moved, int64_t until);
