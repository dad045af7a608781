"""How workers are lost in scripts/chaos: each kind draws what happens in a round, and knows what must come of it."""
import random
import signal
from collections import namedtuple
from dataclasses import dataclass, field

import network
from job import Inheritor, Killer, Returner, Waker
from learned import learn
from modes import FIT, IMPATIENT, MODES
from points import WITH_OPTIONS, moment
from slow import Slower, Top

STEPS = 64  # of the training of mode "fit"
LONGEST = 0.3  # seconds after which a worker is killed at a random moment
FROZEN = 2.2  # seconds
MANY = 4  # times that a training reaches a point of each step, at least
MOST_RESTS = 40  # of 50 ms
CUT, LOSSY_STEPS, TIMES_SLOWER = 10, 16, 10

# draw: random numbers; number: how many rounds of this kind there were; points: of the mode, which has a name
Round = namedtuple("Round", "draw workers number points mode")


# ---- what is lost: {rank: [point for each life]}, hooks ----

def again(turn):
    """A point that comes in each step."""
    return turn.draw.choice([name for name, what in turn.points.items() if what.again and name not in WITH_OPTIONS])


def recovering(turn, any_rank=True):
    return [name for name, what in turn.points.items() if what.recovers and not (any_rank and what.only_first)]


def in_a_step(turn, action="KILL"):
    return "%s:%d:%s" % (again(turn), turn.draw.randint(1, STEPS), action)


def draw_point(turn, rank, name=None):
    fits = [point for point, what in turn.points.items() if rank == 0 or not what.only_first]
    return moment(name or turn.draw.choice(fits), turn.draw.randint(1, STEPS), turn.points)


def each_point(turn):
    """In turn all points, and for each all ranks."""
    pairs = [(point, rank) for point, what in turn.points.items()
             for rank in ([0] if what.only_first else range(turn.workers))]
    point, rank = pairs[turn.number % len(pairs)]
    return {rank: [draw_point(turn, rank, point)]}, []


def random_moment(turn):
    return {}, [Killer(turn.draw.randrange(turn.workers), turn.draw.uniform(0, LONGEST))]


def stopped(turn):
    """At a random moment, for less or more than the limit."""
    rank, seconds = turn.draw.randrange(turn.workers), turn.draw.uniform(0, LONGEST)
    return {}, [Killer(rank, seconds, signal.SIGSTOP), Waker(turn.draw.uniform(0.1, FROZEN))]


def at_the_end(turn):
    """While all leave."""
    return {}, [Killer(turn.draw.randrange(turn.workers), turn.draw.uniform(0, 0.003), point="exit")]


def two_at_once(turn):
    first, second = turn.draw.sample(range(turn.workers), 2)
    if turn.number % 2:
        seconds = turn.draw.uniform(0, LONGEST)
        return {}, [Killer(first, seconds), Killer(second, seconds)]
    times = turn.draw.randint(1, STEPS)
    return {rank: ["%s:%d:KILL" % (again(turn), times)] for rank in (first, second)}, []


def several(turn):
    """One to all of them at random moments, some of them again and again."""
    count = turn.draw.randint(1, turn.workers)
    return {}, [Killer(turn.draw.randrange(turn.workers), turn.draw.uniform(0, 2 * LONGEST)) for _ in range(2 * count)]


def in_the_recovery(turn):
    """Of another worker: a survivor, or the one that has come back."""
    first, second = turn.draw.sample(range(turn.workers), 2)
    at = {first: [in_a_step(turn)]}
    point = turn.draw.choice(recovering(turn, any_rank=False))
    if turn.number % 2:
        at[first].append("%s:1:KILL" % turn.draw.choice(recovering(turn)))
    elif turn.points[point].only_first:
        leader = 0 if first else 1  # the lowest survivor convenes
        at[leader] = ["%s:%d:KILL" % (point, 1 if leader else 2)]
    else:
        at[second] = ["%s:2:KILL" % point]
    return at, []


def inherited(turn):
    """Others, once in three times all, are lost when the one that came back has taken the state over and its program has not
    gone on with it, or not far."""
    first, *others = turn.draw.sample(range(turn.workers), turn.workers)
    others = others[:turn.draw.randint(1, 2) if turn.number % 3 else None]
    at = {first: ["sums:%d:KILL" % turn.draw.randint(1, STEPS), "resumed:1:STOP" if turn.number % 2 else ""]}
    return at, [Inheritor(first, others, 0 if turn.number % 2 else turn.draw.uniform(0, LONGEST))]


def frozen(turn):
    """For longer than the limit; every second time another one is lost, before that or meanwhile."""
    first, second = turn.draw.sample(range(turn.workers), 2)
    if turn.number % 2 == 0:
        return {first: [draw_point(turn, first).replace("KILL", "STOP")]}, [Waker(FROZEN)]
    at = {first: [in_a_step(turn)], second: ["%s:2:STOP" % turn.draw.choice(recovering(turn))]}
    return at, [Waker(FROZEN)]


def cut(turn):
    """For longer than the limit; every second time another one is killed first, or meanwhile."""
    first, second = turn.draw.sample(range(turn.workers), 2)
    times = turn.draw.randint(1, STEPS)
    at = {first: ["%s:%d:STOP" % (turn.draw.choice(["bucket", "sums", "commit", "committed"]), times)]}
    if turn.number % 2:
        at[second] = ["sums:%d:KILL" % max(1, times - turn.number // 2 % 2)]
    return at, [network.Cutter(CUT)]


def lossy(turn):
    """Every second time one is lost, too."""
    lost = {turn.draw.randrange(turn.workers): ["sums:%d:KILL" % turn.draw.randint(1, LOSSY_STEPS)]}
    return lost if turn.number % 2 else {}, []


def slow(turn):
    """Once in two times for moments, else for so long that it is nearly silent for the limit."""
    period = turn.draw.uniform(0.02, 0.2) if turn.number % 2 == 0 else turn.draw.uniform(0.5, 2)
    return {}, [Slower(turn.draw.randrange(turn.workers), TIMES_SLOWER, period), Top(1)]


def fenced(turn):
    """Another one, and so all, take their time until they went on without it and, where its task is free, also without its
    replacement: the training must not end before."""
    rank = turn.draw.randrange(turn.workers)
    at = {rank: ["sums:%d:STOP" % turn.draw.randint(1, STEPS)], (rank + 1) % turn.workers: ["committed:1:PACE:3"]}
    return at, [network.Fencer(rank, taken=turn.number % 2 == 1)]


def elastic(turn):
    """The others go on without it; every second time it comes back, and is taken in. Or two are lost, and neither comes."""
    draw, first = turn.draw, turn.draw.randrange(turn.workers)
    name = draw.choice([point for point, what in turn.points.items() if what.again or point in ("evaluate", "verify")])
    at, hooks = {first: [moment(name, draw.randint(1, STEPS))]}, []
    if turn.number % 2 == 0:
        hooks = [Returner(first)]
    elif first:  # the chief is left, so that two of four may go on
        second = draw.choice([rank for rank in range(1, turn.workers) if rank != first])
        in_recovery = "%s:2:KILL" % draw.choice(recovering(turn))
        at[second] = [in_recovery if turn.number % 4 == 1 else "sums:%d:KILL" % draw.randint(1, STEPS)]
    return at, hooks


def slowed(turn, learned, first, point, number):
    """None, one or all of the others rest in each step from the moment on at which one is lost: amid what they must undo.
    Not for ever: who is lost before there is a group leaves them one generation for the whole training."""
    others = [rank for rank in learned.times if rank != first]
    at, many = {}, turn.draw.choice([[], others[:1], others])
    steps = sorted(name for name, times in learned.times[others[0]].items() if times >= MANY)
    name = point if point in steps else turn.draw.choice(steps)
    for rank in many:
        times = max(1, round(number * learned.times[rank][name] / learned.times[first][point]))
        at[rank] = ["%s:%d:PACE:2:%d" % (name, times, MOST_RESTS)]
    return at


def undone(turn):
    """In turn at all points that the training reaches. In half of the rounds one more is lost in the recovery, before, amid or
    after what it undoes, and at times a server."""
    draw, learned = turn.draw, learn(turn.mode, turn.workers)
    points = sorted({point for own in learned.times.values() for point in own})
    point = points[turn.number % len(points)]
    first = draw.choice([rank for rank, own in learned.times.items() if own[point]])
    number = draw.randint(1, learned.times[first][point])
    at = slowed(turn, learned, first, point, number)
    at[first] = ["%s:%d:KILL" % (point, number)]
    second = draw.choice([rank for rank in learned.times if rank not in at] or [None])
    if draw.random() < 0.5:
        name = draw.choice(sorted(learned.recovery[second]))
        at.setdefault(first if second is None else second, []).append("%s:%d:KILL" % (name, learned.recovery[second][name]))
    if learned.servers and draw.random() < 0.3:
        name = draw.choice(sorted(learned.servers))
        at["ps:0"] = ["%s:%d:KILL" % (name, draw.randint(1, learned.servers[name] + 1))]
    return at, []


# ---- what must come of it, beside the outcome of every job ----

def nobody_lost(job, hooks):
    return ["rank %d lost somebody: %s" % (life.rank, line) for life in job.now()
            for line in life.errors().splitlines() if "was lost" in line and "closed" not in line]


def only_the_cut(job, hooks):
    """Who was silent is who was cut off, by those who hear others."""
    who = "worker:%d (" % hooks[0].rank
    faults = ["rank %d: %s" % (life.rank, line) for life in job.now() for line in life.errors().splitlines()
              if "silent" in line and "this one that is cut off" not in line and who not in line]
    return faults if hooks[0].healed else [*faults, "it ended before the link was healed"]


def told_who_is_slow(job, hooks):
    slower, top = hooks
    top.end()
    named = [answer["straggler"] for answer in top.answers]
    right = not slower.stops_often(top.interval) or named.count(slower.rank) > len(named) / 2
    return nobody_lost(job, hooks) + ([] if right else ["rank %d was slow, and named were %s" % (slower.rank, named)])


@dataclass
class Kind:
    draw: object
    environment: dict = field(default_factory=dict)
    options: tuple = ()  # (): those of the mode
    link: object = None  # of the hosts; None: all are on this one
    with_spare: bool = False
    elastic: bool = False  # who is lost is not started anew by itself
    expect: object = None  # (job, hooks) -> faults
    timed: bool = False  # from SIGKILL to the next step
    random_servers: bool = True  # parameter servers are lost at random moments


KINDS = {
    "point": Kind(each_point, timed=True), "moment": Kind(random_moment, timed=True),
    "two": Kind(two_at_once, timed=True), "several": Kind(several, timed=True),
    "recovery": Kind(in_the_recovery, timed=True), "end": Kind(at_the_end, timed=True),
    "inherited": Kind(inherited, options=(*FIT, "--pause", "200")),
    "undo": Kind(undone, random_servers=False), "stopped": Kind(stopped, IMPATIENT), "frozen": Kind(frozen, IMPATIENT),
    "elastic": Kind(elastic, {**IMPATIENT, "LOCKSTEP_ELASTIC": "1", "LOCKSTEP_REJOIN_TIMEOUT": "0"}, ("--epochs", "300"),
                    elastic=True),
    "cut": Kind(cut, link=network.PLAIN, expect=only_the_cut),
    "lossy": Kind(lossy, link=network.LOSSY, options=("--units", "4", "--epochs", "2"), expect=nobody_lost),
    "slow": Kind(slow, options=("--units", "128", "--batch", "960", "--limit", "3840", "--epochs", "12"),
                 expect=told_who_is_slow),
    "fenced": Kind(fenced, IMPATIENT, ("--epochs", "100"), network.PLAIN, True,
                   expect=lambda job, hooks: hooks[0].faults()),
}
EVERYWHERE = ["point", "moment", "undo", "two", "point", "recovery", "undo", "several", "end", "undo", "stopped", "frozen"]
OF_ONE = ["point", "moment", "end", "stopped"]  # who loses one worker only
IN_FIT = ["inherited", "elastic"]  # what it asks for is not what other modes are about
BETWEEN_HOSTS = ["cut", "lossy", "slow", "fenced"]


def draw_round(name, seed, workers, number, mode):
    return KINDS[name].draw(Round(random.Random(seed), workers, number, MODES[mode].points, mode))
