/* The tickets of asynchronous training: who may compute which. Arithmetic, without I/O. A ticket is a batch of a
 * session, by its number from 0. Each is given once, to who asks first, and those that are done already are left out. A
 * worker may be so many tickets ahead of the slowest one (stale synchronous parallel, Ho et al. 2013). */
#pragma once
#include <lockstep/lockstep.h>
#include <stdint.h>

struct ls_tickets;
#define LS_NO_TICKET (-1)
/* done: [(count + 63) / 64] a bit for each ticket, borrowed; the caller sets the bit of a ticket that is finished.
 * staleness -1: no bound. */
ls_status ls_tickets_new(int64_t count, const uint64_t *done, int workers, int64_t staleness,
                         struct ls_tickets **tickets);
void ls_tickets_free(struct ls_tickets *tickets);
void ls_tickets_ask(struct ls_tickets *tickets, int worker);
/* The next ticket for somebody who has asked; false: nobody may have one now. */
bool ls_tickets_give(struct ls_tickets *tickets, int *worker, int64_t *ticket);
/* That ticket for who has asked first, however far ahead; false: nobody asks. */
bool ls_tickets_give_this(struct ls_tickets *tickets, int64_t ticket, int *worker);
/* The worker's ticket is done. */
void ls_tickets_finish(struct ls_tickets *tickets, int worker);
/* No tickets are given any more but those that have been given before and are not done. */
void ls_tickets_close(struct ls_tickets *tickets);
/* Every ticket below ls_tickets_end is done, and no other is given. */
bool ls_tickets_are_over(const struct ls_tickets *tickets);
int64_t ls_tickets_end(const struct ls_tickets *tickets);
/* The worker waits for a ticket. */
bool ls_tickets_asks(const struct ls_tickets *tickets, int worker);
/* The worker's ticket; LS_NO_TICKET: it has none. */
int64_t ls_tickets_of(const struct ls_tickets *tickets, int worker);
