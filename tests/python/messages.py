"""One rank: messages that are begun, receives before sends, in every order and beside collective calls."""
import array
import os
import random
import sys
import time
import types

import lockstep
from lockstep import LockstepError, Status, _arrays, _messages
from lockstep._messages import Messages
from watched import first, left, watched

FLAG = sys.argv[1]
lockstep.init(timeout=30 * float(os.environ.get("LOCKSTEP_TEST_PACE") or 1))
group = lockstep.world()
RANK, SIZE = group.rank, group.size
box = group.open_messages()
INT64 = _arrays.INT64


class Silent:
    """A group whose calls take a while."""
    rank = 0

    def direct(self, *arguments):
        time.sleep(0.01)


def send(to, name, values, then=None):
    memory = _arrays.array(array.array("q", values))
    return box.send(name, to, INT64, memory, memory.count, then)


def receive(source, name, count, finish=lambda: None, then=None):
    into = array.array("q", [-1] * count)
    return box.receive(name, source, INT64, _arrays.array(into), count, finish, then), into


def values_of(source, to, name, number, count):
    return [source * 10 ** 6 + to * 10 ** 4 + ord(name) * 10 + number] * count


def receives_first():
    """Every rank, and itself too, with small messages and such as no link holds."""
    for count in (1, 100000):
        waiting = [(other, *receive(other, "r", count)) for other in range(SIZE)]
        sent = [send(other, "r", values_of(RANK, other, "r", 0, count)) for other in range(SIZE)]
        for other, pending, into in reversed(waiting):
            pending.wait(60)
            assert list(into) == values_of(other, RANK, "r", 0, count), (other, into[:3])
        for pending in sent:
            pending.wait(60)


def any_order():
    """Posts in an order of each rank's own, with other calls between them. Messages of one name keep their order."""
    draw = random.Random(f"{RANK}")
    for turn in range(10):
        posts = [(way, other, name, number) for way in "sr" for other in range(SIZE) for name in "ab" for number in range(3)]
        draw.shuffle(posts)
        posts.sort(key=lambda post: post[3])
        found, sent = [], []
        for place, (way, other, name, number) in enumerate(posts):
            if place % 9 == 4:
                lockstep.barrier()
            count = 1 + turn * number * 300
            if way == "s":
                sent.append(send(other, name, values_of(RANK, other, name, number, count)))
            else:
                found.append((other, name, number, count, *receive(other, name, count)))
        draw.shuffle(found)
        for other, name, number, count, pending, into in found:
            pending.wait(60)
            assert list(into) == values_of(other, RANK, name, number, count), (other, name, number, into[:2])
        for pending in sent:
            pending.wait(60)


def waits_for_none():
    """A receive of what comes last holds up neither other receives nor sends nor other calls."""
    ended = []
    late, _ = receive((RANK + 1) % SIZE, "late", 1, lambda: ended.append("finish"), lambda error: ended.append(error))
    receives_first()
    numbers = array.array("q", [1])
    lockstep.all_reduce(numbers)
    assert numbers[0] == SIZE and not late.done() and not ended
    lockstep.barrier()
    send((RANK - 1) % SIZE, "late", [1])
    late.wait(60)
    lockstep.barrier()
    assert ended == ["finish", None], ended


def dropped():
    """What a message is in, and goes to, lives until its end."""
    if SIZE == 1:
        return

    def alone():
        for other in range(1, SIZE):
            for way, begin in (("from", box.receive), ("to", box.send)):
                memory = _arrays.array(watched("q", [7], f"{way} {other}"))
                begin("dropped", other, INT64, memory, 1, *([lambda: None] if way == "from" else []))
        del memory
        assert {f"from {other}" for other in range(1, SIZE)} <= left(), left()
    first(RANK, FLAG, alone)
    if RANK:
        pending, into = receive(0, "dropped", 1)
        pending.wait(60)
        assert into[0] == 7
        send(0, "dropped", [RANK]).wait(60)
    lockstep.barrier()
    if RANK == 0:
        for other in range(1, SIZE):
            again, _ = receive(other, "behind", 1)
            again.wait(60)
        assert not left(), left()
    else:
        send(0, "behind", [0]).wait(60)


def closes():
    """A group is closed while its thread, awake for a send, ends: the bell is rung before that closes it."""
    def late(ring, byte, write=os.write):
        time.sleep(0.02)
        return write(ring, byte)
    for _ in range(5):
        messages = Messages(Silent(), 1)
        _messages.os = types.SimpleNamespace(**{**vars(os), "write": late})
        messages.send("sent", 0, INT64, None, 0)
        messages.end()
        messages.end()  # once more is nothing
        _messages.os = os
        assert not messages._thread.is_alive()


def ends():
    """The end of the group sends what was begun, and is the end of a receive that waits."""
    waiting, _ = receive((RANK + 1) % SIZE, "never", 1)
    lockstep.shutdown()
    for wait in (waiting.wait, lambda: send(0, "after", [1])):
        try:
            wait()
        except LockstepError as error:
            assert error.status == Status.FAILED_PRECONDITION and "the group is closed" in str(error), error
        else:
            raise AssertionError("it has ended well")


for part in (receives_first, any_order, waits_for_none, dropped, closes, ends):
    part()
print("whole")
