"""What scripts/test leaves to its seed, which it prints: without LOCKSTEP_TEST_SEED, as in scripts/test --full, nothing is drawn."""
import os
import random
import unittest

SEED = os.environ.get("LOCKSTEP_TEST_SEED")


def drawn(choices, key, count=1):
    """So many of them, by the seed and a key of the caller's; all of them without a seed."""
    return random.Random("%s %s" % (SEED, key)).sample(list(choices), count) if SEED else list(choices)


def half_of(case):
    """A class of tests of which half run where the seed draws."""
    names = sorted(name for name in dir(case) if name.startswith("test_"))
    chosen = drawn(names, case.__qualname__, (len(names) + 1) // 2)
    for name in set(names) - set(chosen):
        setattr(case, name, unittest.skip("not drawn")(getattr(case, name)))
    return case
