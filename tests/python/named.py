"""One rank: calls that each rank begins in another order, from several threads. Each gets its own values."""
import array
import os
import random
import threading

import lockstep
from lockstep import LockstepError, Status

lockstep.init(timeout=20 * float(os.environ.get("LOCKSTEP_TEST_PACE") or 1))
group = lockstep.world()
RANK, SIZE = group.rank, group.size


def total(value):
    numbers = array.array("q", [value])
    lockstep.all_reduce(numbers)
    return numbers[0]


def any_order():
    """Of one type and shape, and without names of their own: only the name of the begun call tells them apart."""
    for turn in range(8):
        numbers = list(range(12))
        random.Random(f"{turn}/{RANK}").shuffle(numbers)
        begun, threads = {}, []

        def begin(chosen):
            for number in chosen:
                begun[number] = group.named.begin(f"call {number}", lambda number=number: total(100 * number + RANK))
        for part in (numbers[::2], numbers[1::2]):
            threads.append(threading.Thread(target=begin, args=(part,)))
            threads[-1].start()
        for thread in threads:
            thread.join()
        for number in numbers:
            assert begun[number].wait(60) == 100 * number * SIZE + sum(range(SIZE)), (turn, number)
        assert total(1) == SIZE  # between the turns other calls go their own way


def one_name():
    """Calls of one name are matched in their order."""
    begun = [group.named.begin("again", lambda number=number: total(number)) for number in range(5)]
    assert [pending.wait(60) for pending in begun] == [number * SIZE for number in range(5)]


def fails():
    """An error of one call is its own where the group goes on."""
    def broken():
        raise ValueError("of the program")
    begun = [group.named.begin("sound", lambda: total(1)), group.named.begin("broken", broken)]
    assert begun[0].wait(60) == SIZE
    try:
        begun[1].wait(60)
    except ValueError:
        return
    raise AssertionError("the error is lost")


def never_begun():
    """A call that others do not begin is one error on all ranks, which names it and them."""
    group.named._limit = 0.5
    begun = group.named.begin(f"of rank {RANK}", lambda: total(1))
    try:
        begun.wait(60)
    except LockstepError as error:
        assert error.status in (Status.DEADLINE_EXCEEDED, Status.ABORTED), error
        assert "was begun" in str(error) and "not by ranks [" in str(error), error
        return
    raise AssertionError("it was made")


any_order()
one_name()
fails()
if SIZE > 1:
    never_begun()
print("whole")
