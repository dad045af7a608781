"""evaluate --watch measures each checkpoint as it appears; train does so as TF_CONFIG's evaluator."""
import json
import math
import os
import shutil
import signal
import sys
import tempfile

from cli import LOCKSTEP, contains, environment, equal, finish, lockstep, main, start

sys.path.insert(0, os.path.join(os.path.dirname(os.path.abspath(__file__)), "..", "end_to_end"))
from events import scalars  # noqa: E402

FOLDER = tempfile.TemporaryDirectory()
KEPT = os.path.join(FOLDER.name, "kept")
MODEL = ("--hidden", "4")
EVALUATOR = environment(TF_CONFIG=json.dumps({"cluster": {"chief": ["127.0.0.1:1"], "evaluator": ["127.0.0.1:2"]},
                                              "task": {"type": "evaluator", "index": 0}}))
done = lockstep("train", *MODEL, "--limit", "96", "--batch-size", "32", "--epochs", "3", "--verbose", "-1", "--no-validation",
                "--checkpoint", KEPT, "--checkpoint-retain", "--checkpoint-keep", "9")
equal(done.returncode, 0, done.stderr)
FILES = sorted(name for name in os.listdir(KEPT) if name.startswith("checkpoint-"))


def give(folder, name):
    """As a training does: whole at once."""
    hidden = os.path.join(folder, ".hidden")
    shutil.copy(os.path.join(KEPT, name), hidden)
    os.rename(hidden, os.path.join(folder, name))


def measured(name):
    done = lockstep("evaluate", *MODEL, "--weights", os.path.join(KEPT, name), "--json")
    equal(done.returncode, 0, done.stderr)
    return {"step": int(name[11:23]), **json.loads(done.stdout)}


def follow(*command, **kwargs):
    """One checkpoint after the other, none, and the end."""
    folder = tempfile.mkdtemp(dir=FOLDER.name)
    task = start(*command, folder, "--json", **kwargs)
    for name in (FILES[0], FILES[-1]):
        give(folder, name)
        equal(json.loads(task.stdout.readline()), measured(name))
    for name in (FILES[-1], FILES[0]):
        os.remove(os.path.join(folder, name))
    return finish(task)


def each_checkpoint_is_measured():
    status, out, err = follow("evaluate", *MODEL, "--watch", "--weights")
    equal((status, out), (0, b""), err)


def a_folder_that_cannot_be_read_is_tried_again():
    """It leads in a circle for a while."""
    folder, place = tempfile.mkdtemp(dir=FOLDER.name), os.path.join(FOLDER.name, "place")

    def lead(target):
        os.symlink(target, place + "~")
        os.rename(place + "~", place)

    lead(folder)
    task = start("evaluate", *MODEL, "--watch", "--json", "--weights", place)
    give(folder, FILES[0])
    equal(json.loads(task.stdout.readline()), measured(FILES[0]))
    lead(place)
    said = next(line for line in task.stderr if b"cannot read" in line)
    contains(said, b"cannot read '%s': Too many levels of symbolic links; it is tried again" % place.encode())
    give(folder, FILES[-1])
    lead(folder)
    equal(json.loads(task.stdout.readline()), measured(FILES[-1]))
    for name in (FILES[-1], FILES[0]):
        os.remove(os.path.join(folder, name))
    status, out, err = finish(task)
    equal((status, out), (0, b""), err)


def an_evaluator_does_so():
    status, out, err = follow("train", *MODEL, "--checkpoint", env=EVALUATOR)
    equal((status, out), (0, b""), err)
    refused = lockstep("train", *MODEL, env=EVALUATOR)
    equal(refused.returncode, 2, refused.stderr)
    contains(refused.stderr, b"an evaluator measures checkpoints and trains nothing: give it the training's --checkpoint FOLDER")


def it_ends_after_a_time_without_a_new_one():
    done = lockstep("evaluate", *MODEL, "--watch", "--watch-timeout", "0.5", "--weights", KEPT)
    equal(done.returncode, 0, done.stderr)
    contains(done.stdout, b"step 9: 10000 examples - loss: ")
    equal(done.stdout.count(b"\n"), 1)
    contains(done.stderr, b"no new checkpoint in '%s' for 0.5 s (--watch-timeout)" % KEPT.encode())
    done = lockstep("train", *MODEL, "--checkpoint", KEPT, "--watch-timeout", "0.5", env=EVALUATOR)
    equal(done.returncode, 0, done.stderr)
    contains(done.stdout, b"step 9: 10000 examples - loss: ")
    contains(done.stderr, b"no new checkpoint in '%s' for 0.5 s (--watch-timeout)" % KEPT.encode())


def lines_of(task):
    return [json.loads(line)["step"] for line in task.stdout]


def a_training_that_is_stopped_ends_it():
    """Its last checkpoint is measured, and stays."""
    folder, board = (tempfile.mkdtemp(dir=FOLDER.name) for _ in range(2))
    task = start("train", *MODEL, "--checkpoint", folder, "--json", "--tensorboard", board, env=EVALUATOR)
    job = start("train", *MODEL, "--limit", "96", "--batch-size", "32", "--epochs", "1000000", "--verbose", "-1", "--no-validation", "--checkpoint",
                folder)
    first = json.loads(task.stdout.readline())
    job.send_signal(signal.SIGTERM)
    equal(finish(job)[0], 143)
    newest = max(int(name[11:23]) for name in os.listdir(folder) if name.startswith("checkpoint-"))
    measured = [first, *map(json.loads, task.stdout)]
    equal(measured[-1]["step"], newest)
    status, _, err = finish(task)
    equal(status, 0, err)
    contains(err, b"the training that wrote to '%s' has ended" % folder.encode())
    events = scalars(os.path.join(board, "validation"))
    for name in ("loss", "accuracy"):
        got, want = events[f"evaluation_{name}_vs_iterations"], {one["step"]: one[name] for one in measured}
        equal(got.keys(), want.keys())
        assert all(math.isclose(got[step], want[step], rel_tol=1.2e-7) for step in want), (got, want)  # a float, nine digits
    equal(os.listdir(board), ["validation"])


def a_training_that_was_killed():
    """It comes back in time, and then it does not."""
    folder, steps = tempfile.mkdtemp(dir=FOLDER.name), []
    command = ("train", *MODEL, "--limit", "96", "--batch-size", "32", "--epochs", "1000000", "--verbose", "-1", "--no-validation", "--checkpoint", folder)
    task = start("evaluate", *MODEL, "--watch", "--json", "--weights", folder, env=environment(LOCKSTEP_REJOIN_TIMEOUT="5"))
    for _ in range(2):
        job = start(*command)
        for _ in range(3):  # it has seen the lock held
            steps.append(json.loads(task.stdout.readline())["step"])
        job.kill()
        finish(job)
    steps += lines_of(task)
    equal(steps, sorted(set(steps)))
    status, _, err = finish(task)
    equal(status, 138, err)
    contains(err, b"the training that was killed has not come back within 5 s (LOCKSTEP_REJOIN_TIMEOUT)")


def an_evaluator_whose_training_does_not_come():
    folder = tempfile.mkdtemp(dir=FOLDER.name)
    done = lockstep("train", *MODEL, "--checkpoint", folder, env={**EVALUATOR, "LOCKSTEP_JOIN_TIMEOUT": "0.5"})
    equal(done.returncode, 138, done.stderr)
    contains(done.stderr, b"no training has used it within 0.5 s (LOCKSTEP_JOIN_TIMEOUT)")
    give(folder, FILES[0])  # of one that has ended
    done = lockstep("train", *MODEL, "--checkpoint", folder, "--json", env={**EVALUATOR, "LOCKSTEP_JOIN_TIMEOUT": "0.5"})
    equal((done.returncode, json.loads(done.stdout)), (0, measured(FILES[0])), done.stderr)
    contains(done.stderr, b"no training has used '%s' within 0.5 s" % folder.encode())


def event_files_that_cannot_be_written():
    folder = tempfile.mkdtemp(dir=FOLDER.name)
    give(folder, FILES[0])
    evaluator = ("train", *MODEL, "--checkpoint", folder, "--json", "--watch-timeout", "0.5", "--tensorboard", "/proc/none")
    done = lockstep(*evaluator, env=EVALUATOR)
    equal((done.returncode, done.stdout), (1, b""), done.stderr)
    contains(done.stderr, b"cannot make folder '/proc/none'")
    done = lockstep(*evaluator, "--log-errors", "warn", env=EVALUATOR)
    equal((done.returncode, json.loads(done.stdout)), (0, measured(FILES[0])), done.stderr)
    contains(done.stderr, b"warning: cannot make folder '/proc/none'")


def it_ends_on_a_signal():
    task = start("evaluate", *MODEL, "--watch", "--weights", KEPT)
    contains(task.stdout.readline(), b"step 9: ")
    task.send_signal(signal.SIGTERM)
    equal(finish(task)[0], 143)


def options_that_do_not_fit_are_refused():
    done = lockstep("evaluate", "--weights", KEPT, "--watch-timeout", "1")
    equal(done.returncode, 2)
    contains(done.stderr, b"option '--watch-timeout' needs '--watch'")
    done = lockstep("run", "-np", "2", "--no-prefix", "--", LOCKSTEP, "evaluate", *MODEL, "--watch", "--weights", KEPT)
    equal(done.returncode, 2, done.stderr)
    contains(done.stderr, b"--watch is for one process, TF_CONFIG has 2 workers")


main([each_checkpoint_is_measured, a_folder_that_cannot_be_read_is_tried_again, an_evaluator_does_so, it_ends_after_a_time_without_a_new_one,
      a_training_that_is_stopped_ends_it, a_training_that_was_killed, an_evaluator_whose_training_does_not_come, event_files_that_cannot_be_written,
      it_ends_on_a_signal, options_that_do_not_fit_are_refused])
