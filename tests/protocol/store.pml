/* Parameter servers that keep the variables, as docs/parameter-server.md specifies them, in step.
 *
 * A generation forms at once: recovery.pml is about how. Its members stop one by one after a loss, each at any time.
 * A message is sent and taken in one action: one that comes later, or after its sender was lost, does nothing that
 * could not be so, for the loss can be later as well.
 *
 * An element counts what was done to it: bits 3 (s - 1) to 3 s - 1 hold the sum of the parts that step s added, 1 from
 * the first worker, 3 from the second. Whatever was added twice, or not at all, gives another number.
 *
 * What may happen: CRASHES (how many processes are lost), of them WORKERS_LOST and SERVERS_LOST at most; AWAY (how
 * often a server is left out of a generation, with what it keeps). Who is lost is started anew, with nothing: a worker
 * before the next generation, a server then, later, or never.
 * The cluster: SERVERS (2 workers beside them), COPIES, ELEMENTS (of the blob; element e is on server e k / ELEMENTS
 * of k), STEPS, MOMENTS (the optimizer has some, so that no worker can give what a server kept).
 * Broken on purpose: NO_BEFORE, NO_RETURN, NO_FORGET, NOT_ALL, HALF, LATER_FORGETS, ANY_VERSION, DROP_EARLY,
 * NOT_HEARD. */
#ifndef SERVERS
#define SERVERS 2
#endif
#ifndef COPIES
#define COPIES 1
#endif
#ifndef ELEMENTS
#define ELEMENTS SERVERS
#endif
#ifndef STEPS
#define STEPS 2
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
#ifndef MOMENTS
#define MOMENTS 1
#endif
#define WORKERS 2
#define BOTH    3 /* set of workers */
#define NOTHING 255

#define BIT(i)     (1 << (i))
#define IN(set, i) (((set) >> (i)) & 1)
#define ones(m)    (IN(m, 0) + IN(m, 1) + IN(m, 2))

/* docs/protocol.md, "What parameter servers promise"; they stay 0, and name what failed in spin's output. */
byte ONCE, EQUAL, KEPT, ENDS;
#define must(promise, holds) assert((holds) || promise)

/* The world. */
byte workers = BOTH, servers = BIT(SERVERS) - 1; /* sets: who lives */
byte workers_lost, servers_lost, away;
bool lost; /* moments: the run ends */

/* A generation. */
byte gen = 1, members = BIT(SERVERS) - 1; /* set of servers */
bool broken, awaited;
byte training = BOTH, serving = BIT(SERVERS) - 1; /* sets: who has not stopped */
byte left_out;                                    /* set of servers, of the next one */
byte worker_has = BOTH, server_has = BIT(SERVERS) - 1; /* sets: who has left the handover */

/* Its plan: what every rank computes from what all have told. */
byte version, layout, old;
bool whole, stays;
byte holder[SERVERS]; /* of what each server of the division before owned */
byte returned = BIT(SERVERS) - 1, taken = BIT(SERVERS) - 1; /* sets of servers */

/* A worker: how many steps are in its variables, and these. Of a pull under way: how many elements have changed places
 * with the new ones. */
byte made[WORKERS], exchanged[WORKERS];
short variables[WORKERS * ELEMENTS], others[WORKERS * ELEMENTS];

/* A server: two divisions that it keeps, the newer one first; of each the newest version and the one before. */
#define KEPT_SLOTS (SERVERS * 2)
byte divided[KEPT_SLOTS]; /* the generation in which it was; 0: there is none */
byte among[KEPT_SLOTS], at[KEPT_SLOTS], now[KEPT_SLOTS], before[KEPT_SLOTS];
short content[KEPT_SLOTS * ELEMENTS], content_before[KEPT_SLOTS * ELEMENTS];
/* Of the step under way. */
byte took[SERVERS]; /* set of workers */
bool copied[SERVERS];
byte sum[SERVERS], sum_before[SERVERS]; /* its own, and that of the server before it */

/* Scratch of one action. */
hidden byte i, j, e, q, most;
hidden short good;

#define owner(e, k)         ((e) * (k) / ELEMENTS)
#define copies_of(k)        (COPIES < (k) -> COPIES : (k))
#define previous(a, k)      (((a) + (k) - 1) % (k))
#define holds(a, e, k)      (owner(e, k) == (a) || (copies_of(k) == 2 && owner(e, k) == previous(a, k)))
#define owns_some(a, k)     (((a) * ELEMENTS + (k) - 1) / (k) * (k) < ((a) + 1) * ELEMENTS)
#define place(s)            ones(members & (BIT(s) - 1)) /* among the servers of the generation */
#define count               ones(members)
#define first_kept(s)       (2 * (s))
#define second_kept(s)      (2 * (s) + 1)
#define own(s)              (divided[first_kept(s)] == layout -> first_kept(s) : second_kept(s))
#define has_own(s)          (layout && (divided[first_kept(s)] == layout || divided[second_kept(s)] == layout))
#ifdef ANY_VERSION
#define has_version(q)      divided[q]
#else
#define has_version(q)      (divided[q] && (now[q] == version || before[q] == version))
#endif
#define served(s)           (IN(serving, s) && IN(server_has, s))
#define trained(w)          (IN(training, w) && IN(worker_has, w))

inline find_good(steps) { /* what an element is after so many */
    good = 0;
    i = 0;
    do
    :: i < steps -> good = good + (4 << (3 * i)); i++
    :: else -> break
    od
}

/* ---- a generation ends, and the next one forms ---- */

inline forget_step(s) {
#ifndef NO_FORGET
    sum[s] = 0;
    sum_before[s] = 0;
#endif
    took[s] = 0;
    copied[s] = false
}

inline copy_slot(from, to) {
    divided[to] = divided[from]; among[to] = among[from]; at[to] = at[from];
    now[to] = now[from]; before[to] = before[from];
    e = 0;
    do
    :: e < ELEMENTS ->
        content[(to) * ELEMENTS + e] = content[(from) * ELEMENTS + e];
        content_before[(to) * ELEMENTS + e] = content_before[(from) * ELEMENTS + e];
        e++
    :: else -> break
    od
}

inline drop_slot(to) {
    divided[to] = 0; among[to] = 0; at[to] = 0; now[to] = 0; before[to] = NOTHING;
    e = 0;
    do
    :: e < ELEMENTS -> content[(to) * ELEMENTS + e] = 0; content_before[(to) * ELEMENTS + e] = 0; e++
    :: else -> break
    od
}

/* Whoever lacks the furthest worker's state copies it; recovery.pml is about how. */
inline copy_furthest() {
    j = ((IN(workers, 0) && (!IN(workers, 1) || made[0] >= made[1])) -> 0 : 1);
    made[1 - j] = made[j];
    e = 0;
    do
    :: e < ELEMENTS -> variables[(1 - j) * ELEMENTS + e] = variables[j * ELEMENTS + e]; e++
    :: else -> break
    od;
    workers = BOTH;
    version = made[j]
}

/* The newest division before most that somebody has. */
inline find_newest() {
    layout = 0;
    q = 0;
    do
    :: q < KEPT_SLOTS ->
        if
        :: IN(members, q / 2) && has_version(q) && divided[q] < most && divided[q] > layout ->
            layout = divided[q];
            old = among[q]
        :: else
        fi;
        q++
    :: else -> break
    od
}

/* The owner itself holds what it owned, or else the server behind it. */
inline look_at() {
    whole = true;
    stays = (old == count);
    i = 0;
    do
    :: i < old ->
        holder[i] = NOTHING;
        q = 0;
        do
        :: q < KEPT_SLOTS ->
            if
            :: IN(members, q / 2) && has_version(q) && divided[q] == layout &&
               (at[q] == i || (copies_of(old) == 2 && previous(at[q], old) == i)) ->
                holder[i] = ((at[q] == i || holder[i] == NOTHING) -> q / 2 : holder[i])
            :: else
            fi;
            q++
        :: else -> break
        od;
        whole = whole && holder[i] != NOTHING;
        i++
    :: else -> break
    od;
    i = 0;
    do
    :: i < SERVERS ->
        if
        :: IN(members, i) && !(has_own(i) && has_version(own(i)) && at[own(i)] == place(i)) -> stays = false
        :: else
        fi;
        i++
    :: else -> break
    od;
    stays = stays && whole
}

inline find_division() {
    whole = false;
    stays = false;
    most = NOTHING;
    do
    :: !whole && most ->
        find_newest();
        if
        :: layout -> look_at()
        :: else
        fi;
        most = layout
    :: else -> break
    od;
    layout = (whole -> layout : 0)
}

/* A server that is not here may have what none here has: the group then forms once more, and waits for it. */
inline check_moments() {
    if
    :: MOMENTS && !whole && !awaited && count < SERVERS ->
        awaited = true;
        broken = true;
        training = 0;
        serving = 0
    :: MOMENTS && !whole && (awaited || count == SERVERS) ->
        must(KEPT, servers_lost + away >= COPIES);
        lost = true;
        training = 0;
        serving = 0
    :: else
    fi
}

inline check(w) {
    find_good(made[w]);
    e = 0;
    do
    :: e < ELEMENTS -> must(EQUAL, variables[w * ELEMENTS + e] == good); e++
    :: else -> break
    od
}
inline form() {
    gen++;
    members = servers & (BIT(SERVERS) - 1 - left_out);
    left_out = 0;
    broken = false;
    training = BOTH;
    serving = members;
    worker_has = 0;
    server_has = 0;
    returned = 0;
    taken = 0;
    i = 0;
    do
    :: i < SERVERS -> forget_step(i); i++
    :: else -> break
    od;
    copy_furthest();
    check(0);
    check(1);
    find_division();
    check_moments()
}

/* ---- the handover ---- */

#ifdef NO_RETURN
#define returns false
#else
#define returns true
#endif

inline go_back(s) {
    q = own(s);
    if
#ifndef NO_RETURN
    :: has_own(s) && now[q] != version && before[q] == version ->
        e = 0;
        do
        :: e < ELEMENTS ->
            content[q * ELEMENTS + e] = content_before[q * ELEMENTS + e];
            content_before[q * ELEMENTS + e] = 0;
            e++
        :: else -> break
        od;
        now[q] = version;
        before[q] = NOTHING
#endif
    :: has_own(s) && (now[q] == version || before[q] != version || !returns) -> now[q] = version
    :: else
    fi;
    returned = returned | BIT(s);
    if
    :: stays -> /* it has all */
        if
        :: q == second_kept(s) -> copy_slot(q, first_kept(s))
        :: else
        fi;
        drop_slot(second_kept(s));
        taken = taken | BIT(s)
    :: else
    fi
}

#define all_returned ((returned & members) == members) /* then what they send can be on its way */

/* From the servers that hold it; without moments from a worker. */
inline take_all(s) {
    if
    :: has_own(s) && own(s) == second_kept(s) -> copy_slot(second_kept(s), first_kept(s))
    :: else
    fi;
    if
    :: has_own(s) -> copy_slot(first_kept(s), second_kept(s))
    :: else -> drop_slot(second_kept(s))
    fi;
    drop_slot(first_kept(s));
    divided[first_kept(s)] = gen; among[first_kept(s)] = count; at[first_kept(s)] = place(s);
    now[first_kept(s)] = version;
    before[first_kept(s)] = NOTHING;
    taken = taken | BIT(s)
}
/* All servers have gone back, and none has lost what it held since: a division that was taken keeps the one before. */
inline take_element(s) {
    if
    :: !holds(place(s), e, count) -> skip
    :: holds(place(s), e, count) && !whole ->
        content[first_kept(s) * ELEMENTS + e] = variables[e]
    :: else ->
        j = holder[owner(e, old)];
        q = (divided[first_kept(j)] == layout -> first_kept(j) : second_kept(j));
        content[first_kept(s) * ELEMENTS + e] = content[q * ELEMENTS + e]
    fi
}
inline take(s) {
    take_all(s);
    e = 0;
    do
    :: e < ELEMENTS -> take_element(s); e++
    :: else -> break
    od;
#ifdef DROP_EARLY
    drop_slot(second_kept(s))
#endif
}

#define all_have (taken == members)

/* ---- a step ---- */

#define part_is_due(w, s) (trained(w) && served(s) && made[w] < STEPS && now[first_kept(s)] == made[w] && \
    !IN(took[s], w) && owns_some(place(s), count))
inline push(w, s) {
    took[s] = took[s] | BIT(w);
    sum[s] = sum[s] + 1 + 2 * w
}

/* The server before s: its sums are s's copies. */
#define before_is(p, s) (IN(members, p) && place(p) == previous(place(s), count))
#define copy_is_due(p, s) (copies_of(count) == 2 && served(s) && before_is(p, s) && served(p) && \
    owns_some(place(p), count) && !copied[s] && took[p] == BOTH && now[first_kept(p)] == now[first_kept(s)])
inline copy_sum(p, s) {
    sum_before[s] = sum[p];
    copied[s] = true
}

#define lacks_copy(p, s) (before_is(p, s) && owns_some(place(p), count) && !copied[s])
#if SERVERS == 2
#define SOME(P, a) (P(0, a) || P(1, a))
#else
#define SOME(P, a) (P(0, a) || P(1, a) || P(2, a))
#endif
/* Rank 0 tells the numbers when its pushes have gone to all. */
#define lacks_push(p, w) \
    (IN(members, p) && owns_some(place(p), count) && now[first_kept(p)] == made[w] && !IN(took[p], w))
#define has_numbers(s) (IN(worker_has, 0) && made[0] < STEPS && now[first_kept(s)] == made[0] && !SOME(lacks_push, 0))
#ifdef NOT_ALL
#define has_sums(s) true
#else
#define has_sums(s) ((took[s] == BOTH || !owns_some(place(s), count)) && \
    (copies_of(count) < 2 || !SOME(lacks_copy, s)))
#endif
/* A server sends its copies before it makes the step. */
#define copy_waits(p, s) (IN(serving, p) && copies_of(count) == 2 && before_is(s, p) && owns_some(place(s), count) && \
    !copied[p] && now[first_kept(p)] == now[first_kept(s)])
#define step_is_due(s) (served(s) && IN(training, 0) && has_numbers(s) && has_sums(s) && !SOME(copy_waits, s))
inline apply(s) {
    q = first_kept(s);
    e = 0;
    do
    :: e < ELEMENTS ->
#ifndef NO_BEFORE
        content_before[q * ELEMENTS + e] = content[q * ELEMENTS + e];
#endif
        if
        :: owner(e, count) == place(s) ->
            content[q * ELEMENTS + e] = content[q * ELEMENTS + e] + (sum[s] << (3 * now[q]))
        :: owner(e, count) != place(s) && holds(place(s), e, count) ->
            content[q * ELEMENTS + e] = content[q * ELEMENTS + e] + (sum_before[s] << (3 * now[q]))
        :: else
        fi;
        e++
    :: else -> break
    od;
#ifndef NO_BEFORE
    before[q] = now[q];
#endif
    now[q]++;
    took[s] = 0; copied[s] = false; sum[s] = 0; sum_before[s] = 0;
    find_good(now[q]);
    e = 0;
    do
    :: e < ELEMENTS -> must(ONCE, !holds(place(s), e, count) || content[q * ELEMENTS + e] == good); e++
    :: else -> break
    od
}

/* A worker takes the new variables when all of them have come, and every server has told that it has made the step. */
#ifdef NOT_HEARD
#define lacks_step(s, w) (IN(members, s) && owns_some(place(s), count) && now[first_kept(s)] <= made[w])
#else
#define lacks_step(s, w) (IN(members, s) && now[first_kept(s)] <= made[w])
#endif
#define pull_is_due(w) (trained(w) && made[w] < STEPS && !SOME(lacks_step, w))
#define owner_is(s, e) (IN(members, s) && place(s) == owner(e, count))
inline pull_element(w) {
    i = 0;
    do
    :: i < SERVERS && !owner_is(i, e) -> i++
    :: else -> break
    od;
    others[w * ELEMENTS + e] = variables[w * ELEMENTS + e];
    variables[w * ELEMENTS + e] = content[first_kept(i) * ELEMENTS + e];
    exchanged[w]++
}
inline forget_others(w) {
    e = 0;
    do
    :: e < ELEMENTS -> others[w * ELEMENTS + e] = 0; e++
    :: else -> break
    od;
    exchanged[w] = 0
}
inline pull(w) {
    e = exchanged[w];
    do
    :: e < ELEMENTS -> pull_element(w); e++
    :: else -> break
    od;
    made[w]++;
    forget_others(w);
    check(w)
}

/* The next step begins with the sums of this one, beside the pull, and fails with it after a loss. The elements that
 * have changed places go back when the worker stops. */
#define gives(s, w) (IN(members, s) && place(s) == owner(exchanged[w], count) && now[first_kept(s)] == made[w] + 1)
#define part_of_pull_is_due(w) (trained(w) && made[w] < STEPS && exchanged[w] + 1 < ELEMENTS && SOME(gives, w))
#ifdef LATER_FORGETS
#define LATER_STEP(w) :: d_step { broken && IN(training, w) && exchanged[w] -> forget_others(w); i = 0 }
#else
#define LATER_STEP(w)
#endif
inline put_back(w) {
    e = 0;
    do
#ifndef HALF
    :: e < exchanged[w] -> variables[w * ELEMENTS + e] = others[w * ELEMENTS + e]; e++
#endif
    :: else -> break
    od;
    forget_others(w)
}

/* ---- losses ---- */

#define may_lose (workers_lost + servers_lost < CRASHES && !over)
/* One worker stays: when all are lost, training begins again at a checkpoint. */
#define may_lose_worker(w) (may_lose && workers_lost < WORKERS_LOST && workers == BOTH)
inline lose_worker(w) {
    workers = workers & (BOTH - BIT(w));
    forget_others(w);
    training = training & (BOTH - BIT(w));
    workers_lost++;
    broken = true
}
#define may_lose_server(s) (may_lose && servers_lost < SERVERS_LOST && IN(servers, s))
inline lose_server(s) {
    servers = servers - BIT(s);
    serving = serving & (BIT(SERVERS) - 1 - BIT(s));
    servers_lost++;
    broken = broken || IN(members, s)
}
/* A server that is not in the generation stops it when it comes. */
inline revive(s) {
    drop_slot(first_kept(s));
    drop_slot(second_kept(s));
    servers = servers | BIT(s)
}
#define knocks(s) (IN(servers, s) && !IN(members, s))
#define stopped   (broken && !training && !serving)
/* It was silent. It comes back with what it keeps, for the generation after the next at the earliest. */
#define may_leave_out(s) (!awaited && !over && away < AWAY && IN(servers, s) && IN(members, s) && !IN(left_out, s))
#define may_form  (stopped && (servers & (BIT(SERVERS) - 1 - left_out)))
#define is_done(w) (trained(w) && made[w] == STEPS)
#define over      (lost || (is_done(0) && is_done(1)))

#define WORKER(w) \
    :: d_step { may_lose_worker(w) -> lose_worker(w); i = 0 } \
    LATER_STEP(w) \
    :: d_step { broken && IN(training, w) -> put_back(w); training = training - BIT(w); i = 0 } \
    :: d_step { IN(training, w) && !IN(worker_has, w) && all_have -> worker_has = worker_has | BIT(w); i = 0 } \
    :: d_step { part_of_pull_is_due(w) -> e = exchanged[w]; pull_element(w); i = 0 } \
    :: d_step { pull_is_due(w) -> pull(w); i = 0 }

#define SERVER(s) \
    :: d_step { may_lose_server(s) -> lose_server(s); i = 0 } \
    :: d_step { !IN(servers, s) && !over && (!IN(members, s) || stopped) -> revive(s); i = 0 } \
    :: d_step { knocks(s) && !broken && !over -> broken = true; i = 0 } \
    :: d_step { may_leave_out(s) -> left_out = left_out | BIT(s); away++; broken = true; i = 0 } \
    :: d_step { broken && IN(serving, s) -> serving = serving - BIT(s); i = 0 } \
    :: d_step { IN(serving, s) && !IN(returned, s) -> go_back(s); i = 0 } \
    :: d_step { IN(serving, s) && all_returned && !IN(taken, s) -> take(s); i = 0 } \
    :: d_step { IN(serving, s) && !IN(server_has, s) && all_have -> drop_slot(second_kept(s)); \
                server_has = server_has | BIT(s); i = 0 } \
    :: d_step { part_is_due(0, s) -> push(0, s); i = 0 } \
    :: d_step { part_is_due(1, s) -> push(1, s); i = 0 } \
    :: d_step { step_is_due(s) -> apply(s); i = 0 }

#define COPY(p, s) \
    :: d_step { copy_is_due(p, s) -> copy_sum(p, s); i = 0 }

init {
    d_step {
        i = 0;
        do
        :: i < SERVERS ->
            divided[first_kept(i)] = 1; among[first_kept(i)] = SERVERS; at[first_kept(i)] = i;
            before[first_kept(i)] = NOTHING; before[second_kept(i)] = NOTHING;
            i++
        :: else -> break
        od;
        i = 0
    }
    do
    WORKER(0) WORKER(1)
    SERVER(0) SERVER(1)
    COPY(0, 1) COPY(1, 0)
#if SERVERS == 3
    SERVER(2)
    COPY(0, 2) COPY(1, 2) COPY(2, 0) COPY(2, 1)
#endif
    :: d_step { may_form -> form(); i = 0 }
    :: else -> break
    od;
    must(ENDS, over)
}
