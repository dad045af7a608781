"""How a training runs whose workers are lost: what its program is, over what its workers speak, and who waits for whom."""
import atexit
import os
import shutil
import subprocess
import tempfile
from dataclasses import dataclass, field

from job import LIMIT, WORKER
from cluster import tls_settings
from points import BARE_POINTS, DELAYED_POINTS, LOOP_POINTS, POINTS, SHARDED_POINTS, STAGED_POINTS

LOCKSTEP = os.environ.get("LOCKSTEP", "build/lockstep")
LOOP = os.environ.get("RECOVERY_LOOP", "build/tests/recovery/loop")
FIT = ("--epochs", "8")
IMPATIENT = {"LOCKSTEP_HEARTBEAT_LIMIT": "1", "LOCKSTEP_HEARTBEAT_INTERVAL": "0.1"}


@dataclass
class Mode:
    program: str = WORKER
    options: tuple = FIT
    environment: dict = field(default_factory=dict)
    points: dict = field(default_factory=lambda: POINTS)
    elastic: bool = False  # the others go on without a lost worker, and take it in when it is back
    scaled: bool = False  # the bits depend on who was there: all end with the same ones
    committed: str = "committed"  # the point at which a step is done
    by_rank: bool = False  # what is computed depends on the number of workers, not of replicas alone
    secured: bool = False  # token and mutual TLS
    servers: int = 0  # parameter servers, which are lost too (servers.py)
    pushes: bool = False  # asynchronous: every batch is one push
    one_by_one: bool = False  # two that were lost together have something that nobody else has, or has seen (docs/protocol.md, votes)

    saves: bool = False  # all go back to a checkpoint, where nobody has some of the state any more

    def environment_of(self, workers):
        """LOCKSTEP_ELASTIC says as many workers as there are."""
        elastic = self.environment.get("LOCKSTEP_ELASTIC")
        return {**self.environment, "LOCKSTEP_ELASTIC": elastic % workers} if elastic else self.environment


def _elastic(who):
    return {**IMPATIENT, "LOCKSTEP_ELASTIC": who, "LOCKSTEP_REJOIN_TIMEOUT": "0"}


STAGED = ("--accumulate", "2", "--evaluations", "0", "--predictions", "0")
WINDOW = {"LOCKSTEP_CONTROL_WINDOW": "1"}  # no deputies: two that are not the coordinator have no stream
SERVERS = {"LOCKSTEP_ALGORITHM": "assist", "LOCKSTEP_PS_WAIT": "1"}
# servers that keep the variables, each on two; in several buckets, so that pulls go on while the next step begins
STORE = {"RECOVERY_STORE": "2", "LOCKSTEP_PS_WAIT": "1", "LOCKSTEP_FIRST_BUCKET": "1K", "LOCKSTEP_BUCKET": "1K"}
DIVIDED = {"RECOVERY_SHARD": "2", "RECOVERY_DIVIDE": "1", "LOCKSTEP_FIRST_BUCKET": "8K", "LOCKSTEP_BUCKET": "8K"}

MODES = {
    "fit": Mode(),
    "loop": Mode(LOOP, ("--steps", "8000"), points=LOOP_POINTS, committed="step"),
    "bare": Mode(LOOP, ("--collectives", "--steps", "20000"), points=BARE_POINTS, committed="step",
                 by_rank=True),
    "evaluate": Mode(options=("--epochs", "1", "--evaluations", "300")),
    "predict": Mode(options=("--epochs", "1", "--predictions", "300")),
    "elastic": Mode(options=("--epochs", "100"), environment=_elastic("1:%d"), elastic=True),
    "scaled": Mode(options=("--epochs", "100"), environment=_elastic("1:%d,scaled"), elastic=True, scaled=True),
    "two": Mode(options=("--two", "--fits", "4", "--epochs", "2")),
    "gpt": Mode(options=("--text", "--epochs", "8")),
    "shm": Mode(environment={"LOCKSTEP_TRANSPORT": "shm"}),
    "tcp": Mode(environment={"LOCKSTEP_TRANSPORT": "tcp"}),
    "tls": Mode(secured=True),
    "servers": Mode(options=("--epochs", "150"), servers=2, environment=SERVERS),
    "servers-elastic": Mode(options=("--epochs", "150"), servers=2, environment={**_elastic("1:%d"), **SERVERS}, elastic=True),
    "store": Mode(options=("--epochs", "150"), servers=3, environment=STORE),
    "store-elastic": Mode(options=("--epochs", "150"), servers=3, environment={**_elastic("1:%d"), **STORE}, elastic=True),
    # a server has a stream to the coordinator alone: the next one waits until the servers have dialled it
    "store-window": Mode(options=("--epochs", "150"), servers=3, environment={**_elastic("1:%d"), **STORE, **WINDOW}, elastic=True,
                         one_by_one=True),
    # rows of a table on the servers alone; dense variables there too, or on the workers
    "sparse": Mode(options=("--words", "--epochs", "100"), servers=3, environment={**STORE, "RECOVERY_TABLES": "sparse"}),
    "hybrid": Mode(options=("--words", "--epochs", "100"), servers=3, environment={**STORE, "RECOVERY_TABLES": "hybrid"}),
    "hybrid-elastic": Mode(options=("--words", "--epochs", "100"), servers=3,
                           environment={**_elastic("1:%d"), **STORE, "RECOVERY_TABLES": "hybrid"}, elastic=True),
    "async": Mode(options=("--epochs", "150"), servers=3, environment={**_elastic("1:%d"), **STORE, "RECOVERY_ASYNC": "0"}, elastic=True,
                  scaled=True, pushes=True),
    "async-bounded": Mode(options=("--epochs", "150"), servers=2, environment={**_elastic("1:%d"), **STORE, "RECOVERY_ASYNC": "2"},
                          elastic=True, scaled=True, pushes=True),
    # a transaction is an epoch
    "store-delayed": Mode(options=("--epochs", "100"), servers=3, environment={**STORE, "RECOVERY_DELAY": "2"}, points=DELAYED_POINTS,
                          by_rank=True),
    "local": Mode(options=("--epochs", "100", "--local", "3"), by_rank=True),  # workers meet every third step
    "fragments": Mode(options=("--epochs", "100", "--local", "4", "--fragments", "2"), by_rank=True),  # each used a step later
    "local-elastic": Mode(options=("--epochs", "100", "--local", "3"), environment=_elastic("1:%d"), elastic=True, scaled=True),
    "fragments-elastic": Mode(options=("--epochs", "100", "--local", "4", "--fragments", "2"), environment=_elastic("1:%d"), elastic=True,
                              scaled=True),
    # workers own the moments, each two of them, so that two must not be lost at once; or all of them
    "sharded": Mode(options=("--epochs", "100"), environment={"RECOVERY_SHARD": "2"}, points=SHARDED_POINTS, one_by_one=True),
    "sharded-elastic": Mode(options=("--epochs", "100"), environment={**_elastic("1:%d"), "RECOVERY_SHARD": "2"},
                            points=SHARDED_POINTS, elastic=True, one_by_one=True),
    "sharded-all": Mode(options=("--epochs", "100"), environment={"RECOVERY_SHARD": "16"}, points=SHARDED_POINTS),
    # and divide gradients
    "divided": Mode(options=("--epochs", "100"), environment=DIVIDED, points=SHARDED_POINTS, one_by_one=True),
    "divided-elastic": Mode(options=("--epochs", "100"), environment={**_elastic("1:%d"), **DIVIDED}, points=SHARDED_POINTS, elastic=True,
                            one_by_one=True),
    "divided-all": Mode(options=("--epochs", "100"), environment={**DIVIDED, "RECOVERY_SHARD": "16"}, points=SHARDED_POINTS),
    # each loss, or each of a server, takes the only copy of something with it
    "sharded-one": Mode(options=("--epochs", "100"), environment={"RECOVERY_SHARD": "1"}, points=SHARDED_POINTS, saves=True),
    "sharded-one-elastic": Mode(options=("--epochs", "100"), environment={**_elastic("1:%d"), "RECOVERY_SHARD": "1"},
                                points=SHARDED_POINTS, elastic=True, saves=True),
    "stages": Mode(options=("--epochs", "60", *STAGED), environment={"RECOVERY_STAGES": "2"}, points=STAGED_POINTS, by_rank=True,
                   saves=True),
    "stages-text": Mode(options=("--text", "--epochs", "16", *STAGED), environment={"RECOVERY_STAGES": "4"}, points=STAGED_POINTS,
                        by_rank=True, saves=True),
    "store-one": Mode(options=("--epochs", "150"), servers=2, environment={**STORE, "RECOVERY_STORE": "1"}, saves=True),
    "window": Mode(environment=WINDOW),
    "window-elastic": Mode(options=("--epochs", "100"), environment={**_elastic("1:%d"), **WINDOW}, elastic=True, one_by_one=True),
}


class Security:
    """Certificates and a token for the workers of a cluster, in a folder that is removed at the end."""

    def __init__(self, workers):
        self.folder = tempfile.mkdtemp(prefix="lockstep-recovery-certs-")
        atexit.register(shutil.rmtree, self.folder, ignore_errors=True)
        self.token = os.path.join(self.folder, "token")
        with open(self.token, "w", encoding="ascii") as file:
            file.write("a token that all of them know\n")
        os.chmod(self.token, 0o600)
        subprocess.run([LOCKSTEP, "certs", os.path.join(self.folder, "certs"), "--tasks", "worker:%d" % workers],
                       check=True, capture_output=True, timeout=LIMIT)

    def __call__(self, rank):
        """The settings of that rank."""
        certificates = tls_settings(os.path.join(self.folder, "certs"), "worker-%d" % rank)
        return {**certificates, "LOCKSTEP_TOKEN_FILE": self.token}
