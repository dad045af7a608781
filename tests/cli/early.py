"""What cannot be written is found before anything is trained, read or predicted, with the user's path and the cause; what is
written is there whole or not at all."""
import os
import resource
import signal
import tempfile

from arrays import dots
from cli import contains, equal, lockstep, main

FOLDER = tempfile.TemporaryDirectory()
DATA = dots(os.path.join(FOLDER.name, "data.npz"))
TRAIN = ("train", "--dataset", DATA, "--hidden", "8", "--verbose", "-1")


def at(name):
    return os.path.join(FOLDER.name, name)


def fails(status, message, *arguments, **kwargs):
    done = lockstep(*arguments, **kwargs)
    equal((done.returncode, done.stdout), (status, b""), done.stderr.decode())
    contains(done.stderr.decode(), message)
    return done.stderr.decode()


def succeeds(*arguments):
    done = lockstep(*arguments)
    equal(done.returncode, 0, done.stderr.decode())
    return done.stderr.decode()


def full(size):
    """As a disk that has room for no larger file."""
    signal.signal(signal.SIGXFSZ, signal.SIG_IGN)
    resource.setrlimit(resource.RLIMIT_FSIZE, (size, size))


def saved_weights():
    path = at("weights.safetensors")
    if not os.path.exists(path):
        succeeds(*TRAIN, "--epochs", "1", "--save-each", path)
    return path


def a_training_tries_its_files_first():
    nowhere = at("nowhere/x.npz")
    for option in ("--save-best", "--save-each"):
        fails(1, f"NOT_FOUND: at the beginning: model_checkpoint: cannot write '{nowhere}': No such file", *TRAIN, option, nowhere)
        fails(2, f"'{at('x.h5')}' ends in neither .safetensors nor .npz", *TRAIN, option, at("x.h5"))
        fails(1, f"cannot write '{at('')[:-1]}.npz/x{{epoch}}.npz'", *TRAIN, option, at("")[:-1] + ".npz/x{epoch}.npz")
    os.mkdir(at("a.npz"))
    fails(1, f"FAILED_PRECONDITION: at the beginning: model_checkpoint: cannot write '{at('a.npz')}': Is a directory", *TRAIN,
          "--save-best", at("a.npz"))
    fails(1, f"FAILED_PRECONDITION: at the beginning: csv_logger: cannot open '{at('a.npz')}': Is a directory", *TRAIN, "--csv",
          at("a.npz"))
    fails(1, f"NOT_FOUND: cannot write the timeline '{nowhere}'", *TRAIN, "--trace", nowhere)
    equal(sorted(os.listdir(FOLDER.name)), ["a.npz", "data.npz"], "nothing is left behind")
    os.rmdir(at("a.npz"))


def names_that_epochs_give_are_tried_too():
    path = at("each-{epoch:02}-{val_loss:.2f}.npz")
    succeeds(*TRAIN, "--epochs", "2", "--save-each", path)
    equal(len([name for name in os.listdir(FOLDER.name) if name.startswith("each-0")]), 2)
    err = succeeds(*TRAIN, "--epochs", "1", "--save-best", at("nowhere/x.npz"), "--log-errors", "warn")
    contains(err, "training goes on without it")


def a_read_only_place_is_named():
    fails(1, "tensorboard: cannot make folder '/proc/lockstep': No such file", *TRAIN, "--tensorboard", "/proc/lockstep")
    fails(1, "checkpoint folder '/proc/lockstep': No such file", *TRAIN, "--checkpoint", "/proc/lockstep")


def a_checkpoint_folder_is_made():
    succeeds(*TRAIN, "--epochs", "1", "--checkpoint", at("made"), "--checkpoint-retain")
    equal([name[:11] for name in os.listdir(at("made")) if name[0] != "."], ["checkpoint-"])
    fails(1, f"cannot make checkpoint folder '{at('no/made')}': No such file or directory", *TRAIN, "--checkpoint", at("no/made"))


def predict_tries_its_file_first():
    output = at("nowhere/p.npy")
    fails(1, f"NOT_FOUND: '--output': cannot write '{output}': No such file", "predict", "--weights", saved_weights(), "--dataset",
          DATA, "--hidden", "8", "--output", output)


def predict_writes_all_or_nothing():
    weights, output = saved_weights(), at("p.csv")
    options = ("predict", "--weights", weights, "--dataset", DATA, "--hidden", "8", "--output", output)
    err = fails(1, "RESOURCE_EXHAUSTED: '--output': cannot write '%s': File too large" % output, *options,
                preexec_fn=lambda: full(1000))
    equal(os.path.exists(output), False, err)
    succeeds(*options)
    before = os.stat(output).st_size
    fails(1, "RESOURCE_EXHAUSTED", *options, preexec_fn=lambda: full(1000))
    equal(os.stat(output).st_size, before)
    equal([name for name in os.listdir(FOLDER.name) if name.startswith(".p.csv")], [])


def convert_writes_all_or_nothing():
    for format in ("npz", "npy", "tfrecord", "png"):
        folder = at("converted-" + format)
        source = DATA if format != "png" else "shapes"
        options = ("convert", "--dataset", source, "--limit", "90", "--to", format, "--output", folder)
        fails(1, "RESOURCE_EXHAUSTED", *options, preexec_fn=lambda: full(600))
        equal(os.listdir(folder), [])
        succeeds(*options)
        succeeds("train", "--dataset", folder, "--epochs", "1", "--hidden", "4", "--verbose", "-1")
    fails(1, "has something in it", "convert", "--dataset", "shapes", "--limit", "9", "--to", "png", "--output", at("converted-png"))


def weights_are_written_whole():
    weights, output = saved_weights(), at("copy.npz")
    for ending in (".npz", ".safetensors"):
        output = at("copy" + ending)
        fails(1, f"RESOURCE_EXHAUSTED: cannot write '{output}': File too large", "convert", weights, output,
              preexec_fn=lambda: full(300))
        equal(os.path.exists(output), False)
    fails(1, f"cannot write '{at('nowhere/x.npz')}': No such file", "convert", weights, at("nowhere/x.npz"))


def a_full_disk_has_one_status():
    path = at("best.npz")
    fails(1, f"RESOURCE_EXHAUSTED: at the end of epoch 1: model_checkpoint: cannot write '{path}': File too large", *TRAIN,
          "--save-best", path, preexec_fn=lambda: full(300))
    equal(os.path.exists(path), False)


main([a_training_tries_its_files_first, names_that_epochs_give_are_tried_too, a_read_only_place_is_named,
      a_checkpoint_folder_is_made, predict_tries_its_file_first, predict_writes_all_or_nothing, convert_writes_all_or_nothing,
      weights_are_written_whole, a_full_disk_has_one_status])
