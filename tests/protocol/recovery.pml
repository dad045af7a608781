/* Recovery in place, as docs/protocol.md specifies it, without clocks.
 *
 * A slot is a process: a task that is started anew, or that draws a new incarnation, gets a spare slot, so a set of
 * slots is a roster. Every step of a worker is one atomic action. A message is a fact that its receiver may take note
 * of at any time until it has noticed the end of the stream; so messages that come late, or never, need no queues. What
 * is sent while the two are cut off from each other never arrives. A deadline passes when nothing else can happen; with
 * ELASTIC the rejoin timeout may pass at any time.
 *
 * Who is lost by a crash is seen to end by every survivor that was on the roster of the generation that it entered last: who
 * leaves somebody out closes that one's stream itself, before it enters. That somebody may see it later, or never, is as
 * if it looked later.
 *
 * Two processes are connected when one of them dials the other; a stream is there as soon as it can be.
 *
 * What may happen: CRASHES, FREEZES, CUTS (how many), BREAKS (a member stops without a loss, as when a data link breaks),
 * START (from the first join on), REPLACE (a frozen worker's task may be started anew), RESTART (lost tasks are, with
 * ELASTIC too); limits on it: WHO_CRASHES, WHO_FREEZES, WHO_CUT, CUT_FROM, MOST.
 * The cluster: TASKS, SPARES, STEPS, WINDOW, COORDINATOR (the rank of the first), STREAMS_END (no stream outlives a
 * generation, but for those of the window), ELASTIC (the least number of members), QUORUM (some side always keeps one),
 * PATIENT (the rejoin timeout is longer than any wait for a task that is started anew), LONG (training lasts until all
 * who can come in have).
 * Broken on purpose: NO_FENCE, EVEN_HALF, NOT_FURTHEST, NO_LEDGER, ANY_HEIR, ANY_END, NO_HINT, NO_WIDENING, ONLY_BELOW,
 * NO_RELAY, NO_KNOCK. */
#ifndef TASKS
#define TASKS 3
#endif
#ifndef SPARES
#define SPARES 2
#endif
#ifndef STEPS
#define STEPS 2
#endif
#ifndef CRASHES
#define CRASHES 0
#endif
#ifndef FREEZES
#define FREEZES 0
#endif
#ifndef WHO_FREEZES
#define WHO_FREEZES 255 /* a set of slots */
#endif
#ifndef WHO_CUT
#define WHO_CUT 14 /* likewise: who may be on the side of slot 0 */
#endif
#ifndef CUT_FROM
#define CUT_FROM 0 /* proposals that must have been made by then */
#endif
#ifndef MOST
#define MOST PROPOSALS /* no more proposals than that in a run */
#endif
#ifndef WINDOW
#define WINDOW (TASKS - 1) /* all are connected to all */
#endif
#ifndef COORDINATOR
#define COORDINATOR 0 /* of the generation that a run begins with */
#endif
#ifndef BREAKS
#define BREAKS 0
#endif
#ifndef WHO_CRASHES
#define WHO_CRASHES 255 /* a set of slots */
#endif
#ifndef CUTS
#define CUTS 0
#endif
#ifndef PATIENT
#define PATIENT false
#endif
#define SLOTS     (TASKS + SPARES)
#define NOBODY    SLOTS
#define PROPOSALS 12 /* 0: none; their bits fit a short, their digits 4 bits */
#define FIRST     1  /* position 0; 0 is no state */
#define LAST      (FIRST + STEPS)

mtype:state = {JOINING, MEMBER, SEEKING, CONVENING, FORMING, READY, FENCED, LEAVING, ENDED};
mtype:message = {Hello, HelloReply, Beat, Stop, Report, Propose, State, Accept, Begin, Share, Shares, Finished, Waiting,
                 Leave};

#define BIT(i)     (1 << (i))
#define IN(set, i) (((set) >> (i)) & 1)
/* P of some slot, with a second argument; ANY is the same, for use inside of another. SET: the slots of which P holds. */
#define P4(P, a)   P(0, a) || P(1, a) || P(2, a) || P(3, a)
#if TASKS + SPARES == 4
#define SOME(P, a) (P4(P, a))
#define ANY(P, a)  (P(0, a) || P(1, a) || P(2, a) || P(3, a))
#define SET(P, a)  (P(0, a) + 2 * P(1, a) + 4 * P(2, a) + 8 * P(3, a))
#define EACH(A)    A(0) A(1) A(2) A(3)
#elif TASKS + SPARES == 5
#define SOME(P, a) (P4(P, a) || P(4, a))
#define ANY(P, a)  (P(0, a) || P(1, a) || P(2, a) || P(3, a) || P(4, a))
#define SET(P, a)  (P(0, a) + 2 * P(1, a) + 4 * P(2, a) + 8 * P(3, a) + 16 * P(4, a))
#define EACH(A)    A(0) A(1) A(2) A(3) A(4)
#else
#define SOME(P, a) (P4(P, a) || P(4, a) || P(5, a))
#define ANY(P, a)  (P(0, a) || P(1, a) || P(2, a) || P(3, a) || P(4, a) || P(5, a))
#define SET(P, a)  (P(0, a) + 2 * P(1, a) + 4 * P(2, a) + 8 * P(3, a) + 16 * P(4, a) + 32 * P(5, a))
#define EACH(A)    A(0) A(1) A(2) A(3) A(4) A(5)
#endif

/* The promises of docs/protocol.md; they stay 0, and name what failed in spin's output. */
byte LINE, FENCE, ONCE, EFFECT, SAME, ENDS;
#define must(promise, holds) assert((holds) || promise)

/* Scratch of one action. */
hidden byte i, j, members, newest, ended;
hidden short seen;

/* The world. */
byte alive, frozen;         /* sets of slots */
byte crashed;               /* likewise: whose streams their kernel has closed */
byte side;                  /* the set on one side of the cut */
bool cut, cut_before, reborn;
byte crashes, freezes, breaks, used = TASKS, joiner_stops;
byte missing;               /* set of ranks to be started anew */

/* A process. */
mtype:state state[SLOTS];
byte rank[SLOTS];
byte gen[SLOTS];            /* the proposal that it has entered */
byte num[SLOTS];            /* that it forms, or has accepted */
byte follow[SLOTS];
byte wide[SLOTS];           /* ranks that it dials besides its window's */
byte position[SLOTS];
short applied[SLOTS];       /* the state: in which generation each step was computed, 4 bits a step */
short ledger[SLOTS];        /* set of proposals */

/* A convener. */
byte heard[SLOTS];          /* whose Reports it holds */
byte last[SLOTS];           /* its last proposal */
bool may[SLOTS];            /* whether what it holds is enough for one */

/* A proposal. */
byte proposals = 1;
byte number[PROPOSALS], roster[PROPOSALS], lowest[PROPOSALS], start[PROPOSALS], source[PROPOSALS];
byte sent[PROPOSALS], accepted[PROPOSALS], begun[PROPOSALS]; /* whom Propose, whose Accept, whom Begin has reached */
short known[PROPOSALS];                                      /* the union of the ledgers */
byte given[PROPOSALS * SLOTS];                               /* the last part of a step that a member has given ... */
byte halfway[PROPOSALS];                                     /* ... and who gave it to its side of the cut only */
byte shared[PROPOSALS];                                      /* whom the Shares of the exit barrier have reached */
#ifdef LONG
byte ranks[PROPOSALS];     /* those on the roster */
#endif
#ifdef NO_RELAY
bool quiet[PROPOSALS];     /* its coordinator has stopped because it heard Stop */
#endif
#ifdef NO_FENCE
byte given_by_rank[TASKS];
#endif

/* Only for the assertions. */
short before[PROPOSALS];   /* all proposals that it descends from */
byte agreed[PROPOSALS];    /* who has accepted, whether or not the convener has heard */
short formed, entered;     /* sets of proposals */
byte settled;              /* the furthest position known to be settled */
short effect[STEPS + 1];
short result;

#define say(message, from, to) printf(#message); printf(" %d -> %d\n", from, to) /* in simulations only */

#define together(a, b) (!cut || IN(side, a) == IN(side, b))
#define up(a)          (IN(alive, a) && !IN(frozen, a))
#define answers(b, a)  (up(b) && together(a, b))
#define convenes(c)    (follow[c] == c)
#define forms(a)       (state[a] == FORMING || state[a] == READY)
#define over(a)        (!IN(alive, a) || state[a] == LEAVING || state[a] == ENDED)

/* The window: the lowest ranks but its own. A pair is connected when one of the two dials, or was in a generation that
 * one of them coordinated: those streams stay. */
#define coordinates(c, g) (IN(roster[g], c) && rank[c] == number[g] % TASKS)
#if WINDOW < TASKS - 1
#define in_window(a, r) ((r) != rank[a] && (r) < WINDOW + (rank[a] < WINDOW))
#define dials(a, b)     (in_window(a, rank[b]) || IN(wide[a], rank[b]))
#ifdef STREAMS_END
#define was_with(a, b)  false
#else
#define was_with(a, b)  (gen[a] && gen[a] == gen[b] && (coordinates(a, gen[a]) || coordinates(b, gen[a])))
#endif
#define linked(a, b)    (dials(a, b) || dials(b, a) || was_with(a, b))
#define had_stream(w, x) (in_window(w, rank[x]) || in_window(x, rank[w]) || \
    coordinates(w, gen[w]) || coordinates(x, gen[w]))
#else
#define dials(a, b)      true
#define linked(a, b)     true
#define had_stream(w, x) true
#endif

/* Whether a has entered a later generation that does not name b. */
#define fences(a, b) (gen[a] && gen[b] && number[gen[a]] > number[gen[b]] && !IN(roster[gen[a]], b))
/* It hears so when it dials, or is dialled and dials back; in MEMBER nobody dials. One whose place is taken by a is
 * refused by all that it meets, which is the same here. */
#define is_fencing(a, b) (a != b && answers(a, b) && !over(a) && fences(a, b) && \
    (rank[a] == rank[b] || dials(b, a) || (dials(a, b) && state[a] != MEMBER)))
#define fenced(b) SOME(is_fencing, b)

inline release(who, at) { /* the effects of a position leave the process */
    settled = (settled < at -> at : settled);
    must(EFFECT, effect[at - FIRST] == -1 || effect[at - FIRST] == applied[who] % BIT(4 * (at - FIRST)));
    effect[at - FIRST] = applied[who] % BIT(4 * (at - FIRST))
}

/* Training. */
#define holds_up(w, s) (!IN(roster[gen[s]], w) || (IN(alive, w) && !IN(frozen, w) && together(w, s) && \
    ((gen[w] == gen[s] && (state[w] == MEMBER || state[w] == LEAVING)) || (num[w] == gen[s] && state[w] == READY))))
/* A stream that ends counts between coordinator and member; Stop is heard on any, and the coordinator says it again. */
#define matters(w, s) (coordinates(w, gen[s]) || coordinates(s, gen[s]) || (answers(w, s) && linked(w, s)))
#ifdef NO_RELAY
#define lost(w, s) (!holds_up(w, s) && matters(w, s) && !(answers(w, s) && coordinates(w, gen[s]) && quiet[gen[s]]))
#define fell_silent(w, s) (!holds_up(w, s) && !answers(w, s))
#else
#define lost(w, s) (!holds_up(w, s) && matters(w, s))
#endif
#ifdef NO_FENCE
#define lacks(w, s) (IN(roster[gen[s]], w) && given_by_rank[rank[w]] <= position[s])
#else
#define lacks(w, s) (IN(roster[gen[s]], w) && (given[gen[s] * SLOTS + w] <= position[s] || \
    (given[gen[s] * SLOTS + w] == position[s] + 1 && IN(halfway[gen[s]], w) && IN(side, w) != IN(side, s))))
#endif
#define in_roster_across(w, s) (IN(roster[gen[s]], w) && !together(w, s))
#define in_roster_here(w, s) (IN(roster[gen[s]], w) && together(w, s))

inline give(s) {
    given[gen[s] * SLOTS + s] = position[s] + 1;
    if
    :: SOME(in_roster_across, s) -> halfway[gen[s]] = halfway[gen[s]] | BIT(s)
    :: else
    fi;
#ifdef NO_FENCE
    given_by_rank[rank[s]] = (given_by_rank[rank[s]] > position[s] -> given_by_rank[rank[s]] : position[s] + 1);
#endif
    say(Share, s, NOBODY)
}

inline commit(s) {
    if
    :: position[s] > FIRST -> release(s, position[s]) /* all have given their part of the next one */
    :: else
    fi;
    i = 1;
    do
    :: i <= proposals ->
        must(FENCE, !IN(entered, i) || i == gen[s] || !IN(before[i], gen[s]) ||
                    (position[s] <= start[i] && !IN(roster[i], s)));
        i++
    :: else -> break
    od;
    applied[s] = applied[s] + gen[s] * BIT(4 * (position[s] - FIRST));
    position[s]++
}

/* The exit barrier: the shares go to the coordinator, which tells all that it has them. Nothing stops it after that. */
#define trains(s) (state[s] == MEMBER && !(coordinates(s, gen[s]) && shared[gen[s]]))
inline share_out(c) {
    shared[gen[c]] = SET(in_roster_here, c);
    say(Finished, c, NOBODY);
    say(Shares, c, NOBODY)
}

inline leave(s) {
    must(SAME, position[s] == LAST && (result == 0 || result == applied[s]));
    result = applied[s];
    release(s, LAST);
    heard[s] = 0;
    follow[s] = NOBODY;
    num[s] = 0;
    wide[s] = 0;
    state[s] = LEAVING;
    say(Leave, s, NOBODY)
}
/* A convener dials who is missing, to say why. */
#define has_left(w, s) (IN(alive, w) && state[w] == LEAVING && gen[w] == gen[s] && together(w, s) && \
    (linked(w, s) || state[s] == CONVENING))

/* Nothing of a generation that all have left can matter any more. */
#define uses(w, g) (IN(alive, w) && ((gen[w] == g && state[w] == MEMBER) || (num[w] == g && forms(w))))
inline tidy(g) {
    if
    :: !SOME(uses, g) ->
        i = 0;
        do
        :: i < SLOTS -> given[g * SLOTS + i] = 0; i++
        :: else -> break
        od;
        halfway[g] = 0; accepted[g] = 0; begun[g] = 0; shared[g] = 0
    :: else
    fi
}

inline seek(s) { /* follows nobody any more */
    i = num[s];
    num[s] = 0;
    follow[s] = NOBODY;
    heard[s] = 0;
    may[s] = false;
    state[s] = (gen[s] -> SEEKING : JOINING);
    if
    :: i -> j = i; tidy(j) /* tidy counts with i */
    :: else
    fi
}

inline stop(s) {
    say(Stop, s, NOBODY);
    j = gen[s];
    num[s] = 0;
    follow[s] = NOBODY;
    state[s] = SEEKING;
    tidy(j)
}

/* Convening. */
#define ones(m) (IN(m, 0) + IN(m, 1) + IN(m, 2) + IN(m, 3) + IN(m, 4) + IN(m, 5))
#define more_than_half(m, g) (2 * ones(m & roster[g]) > ones(roster[g]))
#define half(m, g) (2 * ones(m & roster[g]) == ones(roster[g]))
#ifdef EVEN_HALF
#define quorum(m, g) (more_than_half(m, g) || half(m, g))
#else
#define quorum(m, g) (more_than_half(m, g) || (half(m, g) && IN(m, lowest[g])))
#endif

/* Whether w has seen the end of x: it had a stream to it. */
#ifdef ANY_END
#define sees_end(w, x) (gen[w] && IN(crashed, x) && together(w, x))
#else
#define sees_end(w, x) (gen[w] && IN(crashed, x) && together(w, x) && had_stream(w, x) && \
    (gen[x] == 0 || IN(roster[gen[x]], w)))
#endif
#define ends_for(x, w) (sees_end(w, x))
/* Where all tasks are there, another process of a task has the vote of the one before, whose end a member has seen; but
 * only where all others of the roster are there, or have such an heir. */
#define is_heir(q, x)  (IN(members, q) && rank[q] == rank[x])
#define lives(x, g)    (IN(roster[g], x) && !IN(members, x) && !(IN(ended, x) && ANY(is_heir, x)))
#ifdef ANY_HEIR
#define stands_for(x, g) (IN(roster[g], x) && IN(ended, x) && ANY(is_heir, x))
#define inherits(g)    (quorum((members | SET(stands_for, g)), g))
#else
#define inherits(g)    (ones(members) == TASKS && !SOME(lives, g))
#endif

/* What c has proposed and has not begun, when it proposes anew: nobody can begin it. */
#define given_up(g, c) (g != gen[c] && number[g] % TASKS == rank[c] && IN(roster[g], c))

/* members, the union of their ledgers in seen, the newest generation that any has entered in newest, whose end any of
 * them has seen in ended */
inline look_round(c) {
    members = heard[c] | BIT(c);
    seen = 0;
    newest = 0;
    ended = 0;
    i = 0;
    do
    :: i < SLOTS ->
        if
        :: IN(members, i) ->
            seen = seen | ledger[i];
            ended = ended | SET(ends_for, i);
            newest = (gen[i] && (newest == 0 || number[gen[i]] > number[newest]) -> gen[i] : newest)
        :: else
        fi;
        i++
    :: else -> break
    od
}

inline weigh(c) {
    look_round(c);
#ifdef ELASTIC
    may[c] = (gen[c] == 0 || PATIENT -> ones(members) == TASKS : ones(members) >= ELASTIC);
    i = 1;
    do
    :: i <= proposals && gen[c] ->
        if
#ifdef NO_LEDGER
        :: i == newest && !quorum(members, i) && !inherits(i) -> may[c] = false
#else
        :: IN(seen, i) && number[i] >= number[newest] && !given_up(i, c) && !quorum(members, i) && !inherits(i) ->
            may[c] = false
#endif
        :: else
        fi;
        i++
    :: else -> break
    od;
    skip
#else
    may[c] = (ones(members) == TASKS)
#endif
}

inline convene(s) {
    state[s] = CONVENING;
    follow[s] = s;
    heard[s] = 0;
    weigh(s)
}

inline forget(c, s) {
    heard[c] = heard[c] & ~BIT(s);
    say(Waiting, c, NOBODY);
    if
    :: forms(c) && IN(roster[num[c]], s) -> num[c] = 0; state[c] = CONVENING
    :: else
    fi;
    weigh(c)
}

#define rival(q, c)   (IN(heard[c], q) && rank[q] == rank[_me] && q != _me)
/* A survivor convenes when it is connected to no lower one; a joiner follows rank 0 when it is connected to none. */
#define is_survivor(c, s) (c != s && answers(c, s) && linked(c, s) && gen[c] && !fences(c, s) && !fences(s, c) && \
    (state[c] == SEEKING || state[c] == CONVENING || forms(c)))
#define is_lower_survivor(c, s) (is_survivor(c, s) && rank[c] < rank[s])
#define is_known_survivor(c, s) is_survivor(c, s)
#define is_better(c, s) (follow[s] == NOBODY -> (gen[c] || !ANY(is_known_survivor, s)) : \
    (gen[c] && (rank[c] < rank[follow[s]] || !gen[follow[s]])))
#define seeks(s) (state[s] == JOINING || state[s] == SEEKING || state[s] == CONVENING)
#define may_follow(c, s) (c != s && seeks(s) && answers(c, s) && linked(c, s) && convenes(c) && rank[c] != rank[s] && \
    (gen[s] == 0 || (gen[c] && rank[c] < rank[s])) && is_better(c, s) && !fences(c, s) && !fences(s, c) && \
    !SOME(rival, c))

#if WINDOW < TASKS - 1
/* A process that follows nobody but itself dials one rank more, the lowest that it does not dial yet. Unanimous:
 * survivors only, and only ranks below them. */
#define dials_rank(s, r) ((r) == rank[s] || in_window(s, r) || IN(wide[s], r))
#define next_rank(s) (!dials_rank(s, 0) -> 0 : (!dials_rank(s, 1) -> 1 : (!dials_rank(s, 2) -> 2 : 3)))
#if defined(ELASTIC) && !defined(ONLY_BELOW)
#define may_widen(s, r) ((r) < TASKS && !dials_rank(s, r))
#else
#define may_widen(s, r) (gen[s] && (r) < rank[s] && !dials_rank(s, r))
#endif
#define leads_itself(s) (seeks(s) && (follow[s] == NOBODY || convenes(s)) && \
    (gen[s] -> !SOME(is_lower_survivor, s) : !SOME(is_known_survivor, s)))

/* A Beat names the survivor that its sender follows; a process that hears of one dials it too. */
#define tells_of_leader(q, s) (q != s && answers(q, s) && linked(q, s) && follow[q] != NOBODY && gen[follow[q]] && \
    rank[follow[q]] != rank[s] && (gen[s] == 0 || rank[follow[q]] < rank[s]) && \
    !dials_rank(s, rank[follow[q]]) && !linked(s, follow[q]))
#endif

inline begin_to_follow(s, c) {
    say(Hello, s, c);
    say(HelloReply, c, s);
    heard[s] = 0;
    may[s] = false;
    if
    :: IN(heard[c], s) -> forget(c, s) /* a new stream ends the one before */
    :: else
    fi;
    sent[last[c]] = sent[last[c]] & ~BIT(s);
    follow[s] = c;
    state[s] = (gen[s] -> SEEKING : JOINING);
    heard[c] = heard[c] | BIT(s);
    say(Report, s, c);
    weigh(c)
}

#define left_unseen(s, c) (IN(heard[c], s) && follow[s] != c)

/* Forming. */
#define takes_propose(s) (follow[s] != NOBODY && follow[s] != s && num[s] != last[follow[s]] && \
    IN(sent[last[follow[s]]], s) && state[s] != MEMBER)
#define gives_state(q, s) (q == source[num[s]] && position[q] >= start[num[s]] && forms(q) && num[q] == num[s] && \
    answers(q, s))

/* What its convener has not begun when it crashes, nobody can begin. */
#define had_convener(q, g) (IN(crashed, q) && IN(roster[g], q) && rank[q] == number[g] % TASKS)
#define never_begins(g) (!IN(entered, g) && SOME(had_convener, g))

inline accept(s) {
    ledger[s] = known[num[s]];
    agreed[num[s]] = agreed[num[s]] | BIT(s);
    accepted[num[s]] = (together(s, follow[s]) -> accepted[num[s]] | BIT(s) : accepted[num[s]]);
    state[s] = READY;
    say(Accept, s, follow[s]);
    if
    :: agreed[num[s]] == roster[num[s]] && !never_begins(num[s]) ->
        i = 1;
        newest = num[s]; /* of the formed ones, the last that descends from this one: who accepts may be late */
        do
        :: i <= proposals ->
            newest = (IN(formed, i) && IN(before[i], num[s]) && !never_begins(i) -> i : newest);
            must(LINE, !IN(formed, i) || never_begins(i) || i == num[s] || IN(before[num[s]], i) || IN(before[i], num[s]));
            i++
        :: else -> break
        od;
        must(ONCE, newest != num[s] || start[num[s]] >= settled);
        formed = formed | BIT(num[s])
    :: else
    fi
}

/* A member that holds the state accepts in the same action: what could happen in between is as if it had not got the
 * proposal yet. That its links are made is not modelled; so it may accept earlier here than it can. */
inline form(s) {
    state[s] = FORMING;
    if
    :: position[s] == start[num[s]] -> accept(s)
    :: else
    fi
}

inline copy(s) {
    i = source[num[s]];
    say(State, i, s);
    must(ONCE, position[i] >= position[s] &&
               (position[s] <= FIRST || applied[s] == applied[i] % BIT(4 * (position[s] - FIRST))));
    position[s] = position[i];
    applied[s] = applied[i];
    form(s)
}

inline propose(c) {
    proposals++;
    assert(proposals < PROPOSALS);
    look_round(c);
    roster[proposals] = members;
    i = 0;
    do
    :: i < SLOTS ->
        if
        :: IN(members, i) ->
            start[proposals] = (position[i] > start[proposals] -> position[i] : start[proposals]);
#ifdef LONG
            ranks[proposals] = ranks[proposals] | BIT(rank[i]);
#endif
            sent[proposals] = (together(i, c) -> sent[proposals] | BIT(i) : sent[proposals])
        :: else
        fi;
        i++
    :: else -> break
    od;
#ifdef NOT_FURTHEST
    start[proposals] = position[c];
#endif
    if
    :: start[proposals] == 0 -> start[proposals] = FIRST; position[c] = FIRST
    :: else
    fi;
    source[proposals] = NOBODY;
    lowest[proposals] = NOBODY;
    i = 0;
    do
    :: i < SLOTS ->
        if
        :: IN(members, i) ->
            lowest[proposals] = (lowest[proposals] == NOBODY || rank[i] < rank[lowest[proposals]] ->
                                 i : lowest[proposals]);
            source[proposals] = (position[i] == start[proposals] && (source[proposals] == NOBODY ||
                                 rank[i] < rank[source[proposals]]) -> i : source[proposals])
        :: else
        fi;
        i++
    :: else -> break
    od;
    i = 1;
    do
    :: i < proposals ->
        if
        :: IN(seen, i) ->
            before[proposals] = before[proposals] | before[i] | BIT(i);
            number[proposals] = (number[i] > number[proposals] -> number[i] : number[proposals]);
            known[proposals] = (given_up(i, c) -> known[proposals] : known[proposals] | BIT(i))
        :: else
        fi;
        i++
    :: else -> break
    od;
    number[proposals] = (number[last[c]] > number[proposals] -> number[last[c]] : number[proposals]);
    number[proposals] = (number[proposals] / TASKS) * TASKS + rank[c] +
                        (number[proposals] % TASKS >= rank[c] -> TASKS : 0);
    known[proposals] = known[proposals] | BIT(proposals);
    ledger[c] = known[proposals];
    last[c] = proposals;
    num[c] = proposals;
    say(Propose, c, NOBODY);
    form(c)
}

inline enter(s) {
    gen[s] = num[s];
    ledger[s] = BIT(gen[s]);
    entered = entered | BIT(gen[s]);
    num[s] = 0;
    follow[s] = NOBODY;
    wide[s] = 0;
    state[s] = MEMBER;
    if
    :: position[s] > FIRST -> release(s, position[s])
    :: else
    fi
}

inline begin(c) {
    i = 0;
    do
    :: i < SLOTS ->
        begun[num[c]] = (IN(roster[num[c]], i) && together(i, c) -> begun[num[c]] | BIT(i) : begun[num[c]]);
        i++
    :: else -> break
    od;
    say(Begin, c, NOBODY);
    heard[c] = 0;
    may[c] = false;
    enter(c)
}

/* A copy of an attempt that failed may have brought a follower further than the proposal that came next. */
#define holds_more(s, c) (IN(heard[c], s) && follow[s] == c && position[s] > start[num[c]])
inline hear_again(c) {
    say(Report, NOBODY, c);
    num[c] = 0;
    state[c] = CONVENING;
    weigh(c)
}

#define convener_gone(s, c) (!answers(c, s) || (!IN(heard[c], s) && \
    !(state[c] == MEMBER && IN(begun[gen[c]], s) && gen[c] == num[s])))
#define has_task(q, s) (q != s && IN(alive, q) && rank[q] == rank[s])

/* A joiner for a place that the running generation does not fill. */
#define has_rank(p, j) (IN(roster[gen[_me]], p) && rank[p] == rank[j])
#define knocks(j, s)   (answers(j, s) && dials(j, s) && gen[j] == 0 && seeks(j) && \
    (follow[j] == NOBODY || gen[follow[j]] == 0) && !ANY(has_rank, j))

/* Where training is LONG nobody leaves while somebody is there who is to hear that it was left out, and the exit barrier
 * waits for who is to come in. Who is started after it comes too late. */
#ifdef LONG
#define is_left_out(q, s) (answers(q, s) && !over(q) && gen[q] && fences(s, q))
#define comes_in(q, s)    (answers(q, s) && !over(q) && gen[q] == 0 && joiner_stops == 0 && !IN(ranks[gen[s]], rank[q]))
#else
#define is_left_out(q, s) false
#define comes_in(q, s)    false
#endif

#define FOLLOW(c) :: d_step { up(_me) && may_follow(c, _me) -> begin_to_follow(_me, c) }
#define HINT(q)   :: d_step { up(_me) && seeks(_me) && tells_of_leader(q, _me) -> \
    say(Beat, q, _me); wide[_me] = wide[_me] | BIT(rank[follow[q]]) }
#define FORGET(f) :: d_step { up(_me) && convenes(_me) && IN(heard[_me], f) && \
    (!answers(f, _me) || follow[f] != _me) -> forget(_me, f) }

proctype Worker(byte _me) {
end:
    do
    /* MEMBER */
    :: d_step { up(_me) && state[_me] == MEMBER && given[gen[_me] * SLOTS + _me] <= position[_me] -> give(_me) }
    :: d_step { up(_me) && state[_me] == MEMBER && position[_me] < LAST && !SOME(lacks, _me) -> commit(_me) }
    :: d_step { up(_me) && state[_me] == MEMBER && position[_me] == LAST && coordinates(_me, gen[_me]) &&
                shared[gen[_me]] == 0 && !SOME(lacks, _me) && !SOME(comes_in, _me) -> share_out(_me) }
    :: d_step { up(_me) && state[_me] == MEMBER && IN(shared[gen[_me]], _me) && !SOME(is_left_out, _me) -> leave(_me) }
#ifdef NO_RELAY
    :: d_step { up(_me) && trains(_me) && SOME(lost, _me) ->
                quiet[gen[_me]] = quiet[gen[_me]] || (coordinates(_me, gen[_me]) && !SOME(fell_silent, _me));
                stop(_me) }
#else
    :: d_step { up(_me) && trains(_me) && SOME(lost, _me) -> stop(_me) }
#endif
#if BREAKS
    :: d_step { up(_me) && trains(_me) && breaks < BREAKS -> breaks++; stop(_me) } /* a data link breaks */
#endif
    :: d_step { up(_me) && !over(_me) && gen[_me] && SOME(has_left, _me) -> leave(_me) }
#if defined(ELASTIC) && !defined(NO_KNOCK)
    :: d_step { up(_me) && trains(_me) && coordinates(_me, gen[_me]) && joiner_stops == 0 && SOME(knocks, _me) ->
                joiner_stops++; stop(_me) }
#endif
    /* SEEKING, CONVENING, JOINING */
    :: d_step { up(_me) && state[_me] == SEEKING && follow[_me] == NOBODY && !SOME(is_lower_survivor, _me) &&
                !fenced(_me) ->
                convene(_me) }
    :: d_step { up(_me) && state[_me] == JOINING && follow[_me] == NOBODY && rank[_me] == 0 &&
                !SOME(is_known_survivor, _me) ->
                convene(_me) }
    :: d_step { up(_me) && state[_me] == CONVENING && gen[_me] == 0 && SOME(is_known_survivor, _me) -> seek(_me) }
#if WINDOW < TASKS - 1
#ifndef NO_WIDENING
    :: d_step { up(_me) && leads_itself(_me) && may_widen(_me, next_rank(_me)) ->
                wide[_me] = wide[_me] | BIT(next_rank(_me)) }
#endif
#ifndef NO_HINT
    EACH(HINT)
#endif
#endif
    :: d_step { up(_me) && (state[_me] == SEEKING || state[_me] == CONVENING) && fenced(_me) ->
                say(HelloReply, NOBODY, _me); seek(_me); state[_me] = FENCED }
    EACH(FOLLOW)
    EACH(FORGET)
    :: d_step { up(_me) && state[_me] == CONVENING && may[_me] && proposals + 1 < MOST && !SOME(left_unseen, _me) ->
                propose(_me) }
    /* FORMING, READY */
#ifndef NOT_FURTHEST
    :: d_step { up(_me) && forms(_me) && convenes(_me) && SOME(holds_more, _me) -> hear_again(_me) }
#endif
    :: d_step { up(_me) && !over(_me) && takes_propose(_me) -> num[_me] = last[follow[_me]]; form(_me) }
    :: d_step { up(_me) && state[_me] == FORMING && position[_me] < start[num[_me]] && SOME(gives_state, _me) ->
                copy(_me) }
#ifdef NOT_FURTHEST
    :: d_step { up(_me) && state[_me] == FORMING && position[_me] > start[num[_me]] && SOME(gives_state, _me) ->
                copy(_me) }
#endif
    :: d_step { up(_me) && state[_me] == READY && convenes(_me) && accepted[num[_me]] == roster[num[_me]] ->
                begin(_me) }
    :: d_step { up(_me) && state[_me] == READY && !convenes(_me) && IN(begun[num[_me]], _me) -> enter(_me) }
    :: d_step { up(_me) && !over(_me) && follow[_me] != NOBODY && !convenes(_me) && convener_gone(_me, follow[_me]) ->
                seek(_me) }
    /* FENCED */
    :: d_step { up(_me) && state[_me] == FENCED ->
                if
                :: SOME(has_task, _me) || used == SLOTS
                :: else -> /* the same process under a new incarnation */
                    rank[used] = rank[_me]; state[used] = JOINING; alive = alive | BIT(used); used++
                fi;
                alive = alive & ~BIT(_me);
                wide[_me] = 0;
                state[_me] = ENDED }
    od
}

#define CRASH(s)  :: d_step { crashes < CRASHES && IN(WHO_CRASHES, s) && !over(s) -> \
    crashes++; wide[s] = 0; alive = alive & ~BIT(s); frozen = frozen & ~BIT(s); crashed = crashed | BIT(s); \
    missing = (SOME(has_task, s) -> missing : missing | BIT(rank[s])) }
#define FREEZE(s) :: d_step { freezes < FREEZES && IN(WHO_FREEZES, s) && up(s) && !over(s) -> \
    freezes++; frozen = frozen | BIT(s) }
#define WAKE(s)   :: d_step { IN(frozen, s) -> frozen = frozen & ~BIT(s); say(Beat, s, NOBODY) }
#define REBORN(s) :: d_step { IN(frozen, s) && !reborn && used < SLOTS -> \
    reborn = true; rank[used] = rank[s]; state[used] = JOINING; alive = alive | BIT(used); used++ }

/* {0, s} is cut off from the rest. */
#define CUT(s) :: d_step { !cut_before && IN(WHO_CUT, s) && proposals >= CUT_FROM -> \
    cut = true; cut_before = true; side = BIT(0) | BIT(s) }
/* A stream between the two sides that nobody has missed yet. */
#define straddles(s, x) (IN(alive, s) && !over(s) && !IN(frozen, s) && \
    ((state[s] == MEMBER && ANY(in_roster_across, s)) || (follow[s] != NOBODY && !together(follow[s], s)) || \
     (heard[s] & (IN(side, s) -> ~side : side))))
#define waits(s) (IN(alive, s) && (state[s] == JOINING || state[s] == SEEKING || state[s] == CONVENING || forms(s)))
#define is_waiting(s, x)   waits(s)
#define is_not_over(s, x)  (s < used && !over(s))
#define is_through(q, x)   (state[q] == LEAVING)
#define EXPIRE(s) :: atomic { timeout && waits(s) -> i = can_end(s); must(ENDS, i); \
    alive = alive & ~BIT(s); wide[s] = 0; state[s] = ENDED }
#ifdef ELASTIC
#define goes_on_without(a, s) ((is_left_out(s, a) || comes_in(s, a)) && state[a] == MEMBER && up(a))
#define can_end(s) (!SOME(goes_on_without, s))
#ifdef QUORUM
#define GOES_ON SOME(is_through, 0)
#endif
#else
/* Where every task is started anew, only one comes too late: its place is taken, or all is done. */
#define is_through_without(q, s) (state[q] == LEAVING && gen[q] != gen[s])
#define can_end(s) (SOME(has_task, s) || SOME(is_through_without, s))
#endif

#ifndef GOES_ON
#define GOES_ON true
#endif

proctype World() {
end:
    do
    EACH(CRASH)
    EACH(FREEZE)
    EACH(WAKE)
#ifdef REPLACE
    EACH(REBORN)
#endif
#if !defined(ELASTIC) || defined(RESTART)
    :: d_step { missing && used < SLOTS -> /* the lowest missing rank is started anew */
                i = 0;
                do
                :: !IN(missing, i) -> i++
                :: else -> break
                od;
                rank[used] = i; state[used] = JOINING; alive = alive | BIT(used); used++;
                missing = missing & ~BIT(i) }
#endif
#if CUTS
    EACH(CUT)
    :: d_step { cut && !SOME(straddles, 0) -> cut = false }
#endif
    EACH(EXPIRE)
    :: atomic { timeout && !SOME(is_waiting, 0) ->
                /* nobody is stuck, and where there is a quorum somebody is through */
                must(ENDS, !SOME(is_not_over, 0) && GOES_ON);
                break }
    od
}

init {
    d_step {
        do
        :: i < SLOTS -> follow[i] = NOBODY; rank[i] = i; state[i] = ENDED; i++
        :: else -> break
        od;
        i = 0;
        do
        :: i <= STEPS -> effect[i] = -1; i++
        :: else -> break
        od;
        effect[0] = 0;
        i = 0;
        do
        :: i < TASKS ->
            alive = alive | BIT(i);
#ifdef START
            state[i] = JOINING;
#else
            state[i] = MEMBER; gen[i] = 1; position[i] = FIRST; ledger[i] = BIT(1);
            roster[1] = roster[1] | BIT(i);
#endif
            i++
        :: else -> break
        od;
#ifdef START
        proposals = 0;
#else
        number[1] = TASKS + COORDINATOR; start[1] = FIRST; formed = BIT(1); entered = BIT(1); agreed[1] = roster[1];
#ifdef LONG
        ranks[1] = roster[1];
#endif
#endif
        i = 0
    }
    atomic {
        do
        :: i < SLOTS -> run Worker(i); i++
        :: else -> i = 0; break
        od;
        run World()
    }
}
