/* Meetings of the workers of a host in shared memory, as src/collective/shm/shm_barrier.c and shared_call.c make them:
 * each call opens with one meeting, whose line of a worker brings its turn, and the data of the call.
 *
 * A processor writes memory later than its program does: stores wait in a buffer, in their order (TSO, Sewell et al.
 * 2010). A fence, and each atomic addition, waits until the own buffer is empty. Each action of a worker and of a
 * buffer is one step here, in any order.
 *
 * A worker looks at the others' lines for any time, and may then sleep: it counts itself, reads the futex, looks once
 * more, and sleeps until the futex changes. The real one sleeps for a slice at most. Where nobody dies the model's
 * sleeps for ever, so a wake that is lost is a run that does not end.
 *
 * RANKS, CALLS; DEATHS: so many workers end, in a wait or behind it; their buffers still reach memory.
 * Broken on purpose: ONE_LINE (one line a worker for all calls), TURN_FIRST (the turn is stored before the data),
 * NO_FENCE (before the sleepers are counted), LAST_WAKES (only who sees all at its first look wakes), NO_RECHECK (a
 * sleeper does not look once more). */
#ifndef RANKS
#define RANKS 2
#endif
#ifndef CALLS
#define CALLS 3
#endif
#ifndef DEATHS
#define DEATHS 0
#endif
#ifdef ONE_LINE
#define LINE(rank, call) ((rank) * 2)
#else
#define LINE(rank, call) ((rank) * 2 + (call) % 2)
#endif

byte READ, ENDS; /* they stay 0, and name what failed in spin's output */
#define must(promise, holds) assert((holds) || promise)

mtype = {TURN, DATA};
byte turn[RANKS * 2], data[RANKS * 2];
byte sleepers, wakes, woken;
byte doing[RANKS]; /* the call that each is in; CALLS + 1: all are over */
byte dead, deaths; /* set of workers; how many */
chan buffer[RANKS] = [4] of {mtype, byte, byte};

#define come(rank) (turn[LINE(rank, call)] >= call)
#define store(kind) buffer[me]!kind(LINE(me, call), call)
#define fence() empty(buffer[me])
#define die() deaths++; dead = dead | (1 << me); goto ends

/* Of those before the first that has not been seen no worker is looked at again. */
inline look() {
    do
    :: atomic { awaited < RANKS && (awaited == me || come(awaited)) -> awaited++ }
    :: else -> break
    od
}

/* A call; it may be the last of a worker that dies. */
proctype worker(byte me) {
    byte call = 1, awaited, seen, other;
    bool first;
    do
    :: call <= CALLS ->
        doing[me] = call;
#ifdef TURN_FIRST
        store(TURN);
        store(DATA);
#else
        store(DATA);
        store(TURN);
#endif
        awaited = 0;
        first = true;
        look();
        first = awaited == RANKS;
        do
        :: awaited == RANKS -> break
        :: atomic { awaited < RANKS && awaited != me && come(awaited) -> look() }
        :: awaited < RANKS && awaited != me && !come(awaited) -> /* it has looked long enough */
            atomic { fence() -> sleepers++ }
            seen = wakes;
#ifndef NO_RECHECK
            look();
#endif
            if
            :: awaited < RANKS ->
end_sleeps:
                if
                :: wakes != seen
                :: DEATHS && come(awaited) /* a slice ends */
                fi
            :: else
            fi;
            atomic { fence() -> sleepers-- }
            look()
        :: atomic { deaths < DEATHS && awaited < RANKS -> die() }
        od;
        if
        :: atomic { deaths < DEATHS -> die() }
        :: true
        fi;
#ifdef LAST_WAKES
        if
        :: !first -> goto reads
        :: else
        fi;
#endif
#ifndef NO_FENCE
        fence();
#endif
        if
        :: sleepers > 0 && woken < call ->
            atomic { fence() -> wakes++ }
            woken = call
        :: else
        fi;
reads:
        other = 0;
        do
        :: other < RANKS -> must(READ, data[LINE(other, call)] == call || other == me); other++
        :: else -> break
        od;
        call++
    :: else -> break
    od;
    doing[me] = CALLS + 1;
ends:
    skip
}

proctype drain(byte me) {
    mtype kind;
    byte line, value;
    end:
    do
    :: atomic {
        buffer[me]?kind(line, value) ->
        if
        :: kind == TURN -> turn[line] = value
        :: kind == DATA -> data[line] = value
        fi
    }
    od
}

/* Nobody can do anything any more: each has made its calls, is dead, or waits for a dead one that has not come. */
proctype watch() {
    byte rank, lost, call;
    timeout;
    do
    :: lost < RANKS && !((dead >> lost) & 1) -> lost++
    :: else -> break
    od;
    do
    :: rank < RANKS ->
        call = doing[rank];
        must(ENDS, call > CALLS || (dead && (rank == lost || !come(lost))));
        rank++
    :: else -> break
    od
}

init {
    byte rank = 0;
    atomic {
        do
        :: rank < RANKS -> run worker(rank); run drain(rank); rank++
        :: else -> break
        od;
        run watch()
    }
}
