"""Where a training can be hurt, as a run of it tells: every point (src/base/point.h) that its workers and servers reach, and how
often; and which of them they reach in the recovery from a loss, where what a step has begun is undone."""
import functools
from collections import Counter, namedtuple

from job import LIMIT, Job
from modes import MODES
from servers import WATCHED, Servers

# times: {rank: {point: how often it is reached}} without a loss; recovery: {rank: {point: which time of it is the first after a
# loss}} of those who stay, None: of who is started anew; servers: {point: how often} of the first server
Learned = namedtuple("Learned", "times recovery servers")


def play(mode, workers, at=None):
    """Returns the finished job, and its servers, of which none is lost."""
    servers = Servers(mode.servers, 0, loses=False, command=WATCHED)
    job = Job(workers, mode.options, at=at, servers=mode.servers, environment=mode.environment_of(workers),
              program=mode.program, elastic=mode.elastic)
    job.start_all().finish([servers] if mode.servers else [], 2 * LIMIT)
    return job, servers


def _recovery(mode, workers, times):
    """The last one is lost in the middle. What is reached in each step is left out: how often, differs from run to run."""
    lost = workers - 1
    job, _ = play(mode, workers, {lost: ["%s:%d:KILL" % (mode.committed, (times[lost][mode.committed] + 1) // 2)]})
    found = {None: {point: 1 for point in job.lives[lost][-1].reached()}}
    for rank in range(lost):
        reached = Counter(job.lives[rank][-1].reached())
        found[rank] = {point: times[rank][point] + 1 for point in reached if times[rank][point] < 2 and
                       reached[point] > times[rank][point]}
        found[rank]["undo"] = times[rank]["undo"] + 1  # there was perhaps nothing to undo this time
    job.folder.cleanup()
    return {**found, lost: found[lost - 1]}


@functools.lru_cache
def learn(name, workers):
    mode = MODES[name]
    job, servers = play(mode, workers)
    times = {rank: Counter(lives[-1].reached()) for rank, lives in job.lives.items()}
    of_server = Counter(servers.reached(0)) if mode.servers else {}
    job.folder.cleanup()
    return Learned(times, _recovery(mode, workers, times), of_server)
