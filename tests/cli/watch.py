"""evaluate --watch measures each checkpoint as it appears; train does so as TF_CONFIG's evaluator."""
import json
import os
import shutil
import signal
import tempfile

from cli import LOCKSTEP, contains, environment, equal, finish, lockstep, main, start

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


main([each_checkpoint_is_measured, a_folder_that_cannot_be_read_is_tried_again, an_evaluator_does_so, it_ends_after_a_time_without_a_new_one, it_ends_on_a_signal,
      options_that_do_not_fit_are_refused])
