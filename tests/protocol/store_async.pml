/* Parameter servers that keep the variables, and apply each push alone, in one order.
 *
 * A worker has a ticket, and sends its push to every server, which stages it. When a server has staged all that it
 * holds of a push, its own part and its copy of that of the server before it, it tells the lowest server, the
 * sequencer. That one gives the push the next number in the order when all have told, and tells all. Each applies in
 * that order, and answers. A worker's ticket is done when all have answered.
 *
 * A loss ends the generation. In the next one the servers tell each other what they have applied. Those that are behind
 * go forward to the furthest from what they have staged. When all have, they drop the rest, and tickets that nobody has
 * applied are handed out again. A server that drops what it has staged before that may meet one that is further. Only
 * who was in the last generation whose handover is done knows the order: another one takes all anew, also where it has
 * applied as many.
 *
 * A generation forms at once: recovery.pml is about how. Its members stop one by one after a loss, each at any time. A
 * message is sent and taken in one action, as in store.pml, which also says how variables are divided anew.
 *
 * What may happen: CRASHES, of them WORKERS_LOST and SERVERS_LOST at most; AWAY, as in store.pml.
 * The cluster: SERVERS (2 workers beside them), COPIES, TICKETS, CREDITS (tickets that a worker has at a time).
 * Broken on purpose: EARLY, LATE_COPY, NO_ROLL, DROP_FIRST, ASK_WORKERS, TRUST, ANY_PAST. */
#ifndef SERVERS
#define SERVERS 2
#endif
#ifndef COPIES
#define COPIES 1
#endif
#ifndef TICKETS
#define TICKETS 3
#endif
#ifndef CREDITS
#define CREDITS 1
#endif
#ifndef CRASHES
#define CRASHES 1
#endif
#ifndef WORKERS_LOST
#define WORKERS_LOST CRASHES
#endif
#ifndef SERVERS_LOST
#define SERVERS_LOST CRASHES
#endif
#ifndef AWAY
#define AWAY 0
#endif
#define BOTH 3 /* set of workers */
#define ALL  (BIT(SERVERS) - 1)

#define BIT(i)     (1 << (i))
#define IN(set, i) (((set) >> (i)) & 1)
#define ones(m)    (IN(m, 0) + IN(m, 1) + IN(m, 2))
#if SERVERS == 2
#define SOME(P, a) (P(0, a) || P(1, a))
#else
#define SOME(P, a) (P(0, a) || P(1, a) || P(2, a))
#endif

/* docs/protocol.md, "What parameter servers promise"; they stay 0, and name what failed in spin's output. */
byte ONCE, ORDER, KEPT, ENDS;
#define must(promise, holds) assert((holds) || promise)

/* The world. */
byte workers = BOTH, servers = ALL; /* sets: who lives */
byte workers_lost, servers_lost, away;
bool lost; /* what servers applied: the run ends */

/* A generation. */
byte members = ALL; /* set of servers */
bool broken;
byte training = BOTH, serving = ALL; /* sets: who has not stopped */
byte left_out;                       /* set of servers, of the next one */
bool begun = true;                   /* its handover is done */
byte told = ALL;                     /* set of servers that have what the furthest has */
byte knowing = ALL;                  /* set of servers: the members of the last generation whose handover was done */
byte divided = SERVERS;              /* how many these were */
int furthest;                        /* an order */
byte reached;                        /* how many are in it */

/* The order of a generation: its tickets, 3 bits each, the first in the lowest. */
int order;
byte numbered;

/* Tickets, from 0: sets. */
byte given, done; /* done: only as workers know it */
byte has[2];      /* a worker's */

/* A server. */
byte staged[SERVERS], copied[SERVERS]; /* sets of tickets: its own parts, and those of the server before it */
int applied[SERVERS];                  /* an order */
byte count[SERVERS];

/* Scratch of one action. */
hidden byte i, j, t;

#define ticket(list, n)   (((list) >> (3 * (n))) & 7)
#define first_of(list, n) ((list) & ((1 << (3 * (n))) - 1))
#define least(a, b)       ((a) < (b) -> (a) : (b))
#define EVERY             (BIT(TICKETS) - 1)
#define trains(w)         (IN(training, w) && begun)
#define serves(s)         (IN(serving, s) && begun)
#define place(s)          ones(members & (BIT(s) - 1))
#define before_is(p, s)   (IN(members, p) && place(p) == (place(s) + ones(members) - 1) % ones(members))
#define has_copies        (COPIES == 2 && ones(members) > 1)
#define holds(s, t)       (IN(staged[s], t) && (!has_copies || IN(copied[s], t)))

/* ---- a push ---- */

#define may_take(w) (trains(w) && ones(has[w]) < CREDITS && given != EVERY)
inline take_ticket(w) {
    t = 0;
    do
    :: IN(given, t) -> t++
    :: else -> break
    od;
    given = given | BIT(t);
    has[w] = has[w] | BIT(t)
}

#define may_stage(w, t, s) (trains(w) && IN(has[w], t) && serves(s) && IN(members, s) && !IN(staged[s], t))
#define may_copy(p, s)     (has_copies && serves(s) && IN(members, s) && before_is(p, s) && IN(members, p) && \
    (staged[p] & ~copied[s]))
inline copy_next(p, s) {
    t = 0;
    do
    :: IN(staged[p], t) && !IN(copied[s], t) -> break
    :: else -> t++
    od;
    copied[s] = copied[s] | BIT(t)
}

/* What the sequencer hears of. */
#ifdef LATE_COPY
#define tells(s, t) IN(staged[s], t)
#else
#define tells(s, t) holds(s, t)
#endif
#define is_silent(s, t) (IN(members, s) && !tells(s, t))
#define in_order(list, n, t) (((n) > 0 && ticket(list, 0) == (t)) || ((n) > 1 && ticket(list, 1) == (t)) || \
    ((n) > 2 && ticket(list, 2) == (t)) || ((n) > 3 && ticket(list, 3) == (t)))
/* It keeps no tickets of generations before. */
#define has_number(t) in_order(order >> (3 * reached), numbered - reached, t)
#define is_sequencer(s, a) (IN(members, s) && place(s) == 0 && serves(s))
#ifdef EARLY
#define all_tell(t) (SOME(sequencer_tells, t))
#define sequencer_tells(s, t) (IN(members, s) && place(s) == 0 && tells(s, t))
#else
#define all_tell(t) (!SOME(is_silent, t))
#endif
#define may_number(t) (SOME(is_sequencer, 0) && IN(given, t) && !has_number(t) && all_tell(t))
inline number(t) {
    order = order | (t << (3 * numbered));
    numbered++
}

#define may_apply(s) (serves(s) && IN(members, s) && count[s] < numbered && tells(s, ticket(order, count[s])))
inline apply(s, list) {
    t = ticket(list, count[s]);
    must(ONCE, holds(s, t) && !in_order(applied[s], count[s], t));
    applied[s] = applied[s] | (t << (3 * count[s]));
    count[s]++;
    i = 0;
    do
    :: i < SERVERS ->
        must(ORDER, !IN(members & knowing, i) || first_of(applied[i], least(count[i], count[s])) ==
                                                 first_of(applied[s], least(count[i], count[s])));
        i++
    :: else -> break
    od
}

#define has_not_applied(s, t) (IN(members, s) && !in_order(applied[s], count[s], t))
#define may_finish(w, t) (trains(w) && IN(has[w], t) && !SOME(has_not_applied, t))
inline finish(w, t) {
    has[w] = has[w] - BIT(t);
    done = done | BIT(t)
}

/* ---- a generation ends, and the next one forms ---- */

/* Of those that know the order. */
inline find_furthest() {
    reached = 0;
    furthest = 0;
    i = 0;
    do
    :: i < SERVERS ->
        if
        :: IN(members & knowing, i) && count[i] >= reached -> reached = count[i]; furthest = applied[i]
        :: else
        fi;
        i++
    :: else -> break
    od
}

inline tickets_of(list, n) {
    given = 0;
    i = 0;
    do
    :: i < n -> given = given | BIT(ticket(list, i)); i++
    :: else -> break
    od
}

inline form() {
    members = servers & ~left_out;
    left_out = 0;
    broken = false;
    begun = false;
    workers = BOTH;
    training = BOTH;
    serving = members;
    told = 0;
    has[0] = 0;
    has[1] = 0;
    find_furthest();
#ifdef TRUST
    tickets_of(furthest, reached);
    done = done | given;
#endif
    if
    :: divided - ones(members & knowing) >= COPIES ->
        must(KEPT, servers_lost + away >= COPIES);
        lost = true;
        training = 0;
        serving = 0
    :: else
    fi
}

/* ---- the handover ---- */

#ifdef NO_ROLL
#define may_roll(s) false
#define is_there(s) true
#else
#define may_roll(s) (IN(serving, s) && !begun && IN(knowing, s) && count[s] < reached)
#define is_there(s) (count[s] == reached)
#endif
#define is_behind(s, a) (IN(members & knowing, s) && !is_there(s))
#ifdef ANY_PAST
#define is_past(s) (!IN(knowing, s) && count[s] != reached)
#else
#define is_past(s) !IN(knowing, s)
#endif
/* Who knows has gone forward; the others take all from these. */
#define may_tell(s) (IN(serving, s) && !begun && !IN(told, s) && \
    (is_past(s) -> !SOME(is_behind, 0) : (!IN(knowing, s) || is_there(s))))
inline tell(s) {
    if
    :: is_past(s) -> applied[s] = furthest; count[s] = reached
    :: else
    fi;
#ifdef DROP_FIRST
    staged[s] = 0;
    copied[s] = 0;
#endif
    told = told | BIT(s)
}

#define may_begin (!begun && (training || serving) && told == members)
inline begin() {
    begun = true;
    knowing = members;
    divided = ones(members);
    order = furthest;
    numbered = reached;
    i = 0;
    do
    :: i < SERVERS -> staged[i] = 0; copied[i] = 0; i++
    :: else -> break
    od;
#if defined(ASK_WORKERS) || defined(TRUST)
    given = done
#else
    tickets_of(furthest, reached)
#endif
}

/* ---- losses ---- */

#define is_short(s, a) (IN(members, s) && count[s] < TICKETS)
#define over           (lost || (begun && training == BOTH && serving == members && !SOME(is_short, 0)))
#define may_lose       (workers_lost + servers_lost < CRASHES && !over)
#define may_lose_worker(w) (may_lose && workers_lost < WORKERS_LOST && workers == BOTH)
inline lose_worker(w) {
    workers = workers - BIT(w);
    training = training & ~BIT(w);
    workers_lost++;
    broken = true
}
#define may_lose_server(s) (may_lose && servers_lost < SERVERS_LOST && IN(servers, s))
inline lose_server(s) {
    servers = servers - BIT(s);
    serving = serving & ~BIT(s);
    servers_lost++;
    broken = broken || IN(members, s)
}
/* A new process of the task, with nothing. */
inline revive(s) {
    servers = servers | BIT(s);
    knowing = knowing & ~BIT(s);
    told = told & ~BIT(s);
    applied[s] = 0;
    count[s] = 0;
    staged[s] = 0;
    copied[s] = 0
}
#define knocks(s)        (IN(servers, s) && !IN(members, s))
#define stopped          (broken && !training && !serving)
#define may_leave_out(s) (!over && away < AWAY && IN(servers, s) && IN(members, s) && !IN(left_out, s))
#define may_form         (stopped && (servers & ~left_out))

#define TICKET(w, t) \
    :: d_step { may_finish(w, t) -> finish(w, t); i = 0 }
#define STAGE(w, t, s) \
    :: d_step { may_stage(w, t, s) -> staged[s] = staged[s] | BIT(t); i = 0 }
#define EACH_TICKET(A) A(0) A(1) A(2) A(3)
#define WORKER(w) \
    :: d_step { may_lose_worker(w) -> lose_worker(w); i = 0 } \
    :: d_step { broken && IN(training, w) -> training = training - BIT(w); i = 0 } \
    :: d_step { may_take(w) -> take_ticket(w); i = 0 } \
    TICKET(w, 0) TICKET(w, 1) TICKET(w, 2) TICKET(w, 3)
#define SERVER(s) \
    :: d_step { may_lose_server(s) -> lose_server(s); i = 0 } \
    :: d_step { !IN(servers, s) && !over && (!IN(members, s) || stopped) -> revive(s); i = 0 } \
    :: d_step { knocks(s) && !broken && !over -> broken = true; i = 0 } \
    :: d_step { may_leave_out(s) -> left_out = left_out | BIT(s); away++; broken = true; i = 0 } \
    :: d_step { broken && IN(serving, s) -> serving = serving - BIT(s); i = 0 } \
    :: d_step { may_apply(s) -> apply(s, order); i = 0 } \
    :: d_step { may_roll(s) -> apply(s, furthest); i = 0 } \
    :: d_step { may_tell(s) -> tell(s); i = 0 } \
    STAGE(0, 0, s) STAGE(0, 1, s) STAGE(0, 2, s) STAGE(0, 3, s) \
    STAGE(1, 0, s) STAGE(1, 1, s) STAGE(1, 2, s) STAGE(1, 3, s)
#define COPY(p, s) \
    :: d_step { may_copy(p, s) -> copy_next(p, s); i = 0 }
#define NUMBER(t) \
    :: d_step { may_number(t) -> number(t); i = 0 }

init {
    do
    WORKER(0) WORKER(1)
    SERVER(0) SERVER(1)
    COPY(0, 1) COPY(1, 0)
#if SERVERS == 3
    SERVER(2)
    COPY(0, 2) COPY(1, 2) COPY(2, 0) COPY(2, 1)
#endif
    NUMBER(0) NUMBER(1) NUMBER(2) NUMBER(3)
    :: d_step { may_form -> form(); i = 0 }
    :: d_step { may_begin -> begin(); i = 0 }
    :: else -> break
    od;
    must(ENDS, over)
}
