/* A clock, a ticket and the turn of its question for each worker. */
#include "store/session/tickets.h"

#include "base/new.h"

struct holder {
    int64_t ticket; /* LS_NO_TICKET: none */
    int64_t clock;  /* tickets that it has finished */
    int64_t asked;  /* when it asked, in turns; 0: it does not */
};
struct ls_tickets {
    int64_t next, end, staleness, turn;
    const uint64_t *done;
    struct holder *holders; /* [workers] */
    int workers, out;       /* workers that have one */
};

static bool is_done(const struct ls_tickets *tickets, int64_t ticket) {
    return tickets->done[ticket / 64] >> ticket % 64 & 1;
}

static void skip_done(struct ls_tickets *tickets) {
    while (tickets->next < tickets->end && is_done(tickets, tickets->next)) tickets->next++;
}

ls_status ls_tickets_new(int64_t count, const uint64_t *done, int workers, int64_t staleness,
                         struct ls_tickets **tickets) {
    LS_CLEANUP(ls_free_pointer) LS_NEW_ARRAY(struct holder, holders, (size_t)workers, "tickets");
    LS_NEW(struct ls_tickets, made, "tickets");
    for (int w = 0; w < workers; w++) holders[w].ticket = LS_NO_TICKET;
    *made = (struct ls_tickets){
        .end = count, .staleness = staleness, .done = done, .holders = ls_steal(holders), .workers = workers};
    skip_done(made);
    *tickets = made;
    return LS_OK;
}

void ls_tickets_free(struct ls_tickets *tickets) {
    if (!tickets) return;
    ls_free(tickets->holders);
    ls_free(tickets);
}

void ls_tickets_ask(struct ls_tickets *tickets, int worker) {
    tickets->holders[worker].asked = ++tickets->turn;
}

static int64_t slowest_clock(const struct ls_tickets *tickets) {
    int64_t least = tickets->holders[0].clock;
    for (int w = 1; w < tickets->workers; w++)
        if (tickets->holders[w].clock < least) least = tickets->holders[w].clock;
    return least;
}

/* Of those who ask, and with bounded are not too far ahead. */
static int find_first(const struct ls_tickets *tickets, bool bounded) {
    int64_t most = bounded && tickets->staleness >= 0 ? slowest_clock(tickets) + tickets->staleness : INT64_MAX;
    int first = -1;
    for (int w = 0; w < tickets->workers; w++) {
        const struct holder *holder = &tickets->holders[w];
        bool sooner = first < 0 || holder->asked < tickets->holders[first].asked;
        if (holder->asked && sooner && holder->clock <= most) first = w;
    }
    return first;
}

static void hand_out(struct ls_tickets *tickets, int worker, int64_t ticket) {
    tickets->holders[worker].ticket = ticket;
    tickets->holders[worker].asked = 0;
    tickets->out++;
    skip_done(tickets);
}

bool ls_tickets_give(struct ls_tickets *tickets, int *worker, int64_t *ticket) {
    int first = tickets->next < tickets->end ? find_first(tickets, true) : -1;
    if (first < 0) return false;
    *worker = first;
    *ticket = tickets->next++;
    hand_out(tickets, first, *ticket);
    return true;
}

bool ls_tickets_give_this(struct ls_tickets *tickets, int64_t ticket, int *worker) {
    int first = find_first(tickets, false);
    if (first < 0) return false;
    *worker = first;
    hand_out(tickets, first, ticket);
    return true;
}

void ls_tickets_finish(struct ls_tickets *tickets, int worker) {
    struct holder *holder = &tickets->holders[worker];
    if (holder->ticket == LS_NO_TICKET) return;
    holder->ticket = LS_NO_TICKET;
    holder->clock++;
    tickets->out--;
    skip_done(tickets);
}

void ls_tickets_close(struct ls_tickets *tickets) {
    int64_t end = tickets->next;
    for (int64_t ticket = tickets->next; ticket < tickets->end; ticket++)
        if (is_done(tickets, ticket)) end = ticket + 1;
    tickets->end = end;
    skip_done(tickets);
}

bool ls_tickets_are_over(const struct ls_tickets *tickets) {
    return tickets->next >= tickets->end && !tickets->out;
}

int64_t ls_tickets_end(const struct ls_tickets *tickets) {
    return tickets->end;
}

bool ls_tickets_asks(const struct ls_tickets *tickets, int worker) {
    return tickets->holders[worker].asked != 0;
}

int64_t ls_tickets_of(const struct ls_tickets *tickets, int worker) {
    return tickets->holders[worker].ticket;
}
