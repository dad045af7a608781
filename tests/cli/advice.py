"""What is possible and hardly meant is a warning, and what is missing says the way out."""
import os
import shutil
import tempfile

from arrays import dots, npz
from cli import contains, equal, lockstep, main

FOLDER = tempfile.TemporaryDirectory()
DATA = dots(os.path.join(FOLDER.name, "data.npz"))


def train(*options, dataset=DATA, status=0):
    done = lockstep("train", "--dataset", dataset, "--hidden", "4", "--epochs", "1", "--verbose", "-1", *options)
    equal(done.returncode, status, done.stderr.decode())
    return done.stderr.decode()


def top_k_of_all_classes_is_warned_of():
    contains(train("--metrics", "top_k=3"), "metric top_k_categorical_accuracy: k is 3, and there are 3 classes: it is always 1")
    equal(train("--metrics", "top_k=2").count("warning"), 0)


def odd_batches_are_warned_of():
    contains(train("--batch-size", "3", "--devices", "4"),
             "batch_size 3 is less than 4 replicas: 1 of them have no example in any step")
    contains(train("--batch-size", "1000"), "batch_size 1000 is more than the 96 examples of an epoch")
    equal(train("--batch-size", "96").count("warning"), 0)


def a_missing_split_says_the_way_out():
    path = npz(os.path.join(FOLDER.name, "half.npz"), {"x_train": ("<f4", (4, 1), [0, 1, 2, 3]), "y_train": ("<i4", (4,), [0, 1, 0, 1])})
    contains(train(dataset=path, status=1), "--no-validation trains without one")
    train("--no-validation", dataset=path)


def a_damaged_image_says_the_way_out():
    folder = os.path.join(FOLDER.name, "images")
    equal(lockstep("convert", "--dataset", "shapes", "--limit", "12", "--to", "jpeg", "--output", folder).returncode, 0)
    damaged = os.path.join(folder, "train", "circle", sorted(os.listdir(os.path.join(folder, "train", "circle")))[1])
    os.truncate(damaged, 400)
    for name in ("a.gif", "b.webp"):
        shutil.copy(damaged, os.path.join(folder, "train", "triangle", name))
    shutil.copy(damaged, os.path.join(folder, "train", "triangle", "c.txt"))
    err = train(dataset=folder, status=1)
    contains(err, "; LS_DAMAGE_SKIPPED (--skip-damaged) leaves such examples out")
    contains(err, ", 3 other files passed over")
    contains(train("--skip-damaged", dataset=folder), "warning: data: 2 images are passed over, as GIF, WebP")


def pictures_options_of_other_data_are_refused():
    for option, value in (("image-size", ("32",)), ("image-channels", ("3",)), ("symmetric", ())):
        err = train("--no-validation", "--" + option, *value, status=2)
        contains(err, f"--{option}: the examples of '{DATA}' have shape (")
        contains(err, "leave the option out")
    train("--symmetric", "--limit", "64", dataset="digits")


def a_model_is_used_as_it_was_trained():
    folder, weights = os.path.join(FOLDER.name, "trained"), os.path.join(FOLDER.name, "trained.safetensors")
    equal(lockstep("convert", "--dataset", "shapes", "--limit", "12", "--to", "png", "--output", folder).returncode, 0)
    train("--image-size", "16", "--save-best", weights, dataset=folder)

    def evaluate(*options, status=0):
        done = lockstep("evaluate", "--weights", weights, "--dataset", folder, *options)
        equal(done.returncode, status, done.stderr.decode())
        return done.stderr.decode()

    equal(evaluate().count("warning: --image-size"), 0)
    equal(evaluate("--image-size", "16").count("warning: --image-size"), 0)
    contains(evaluate("--symmetric", status=2), f"--symmetric is given, and '{weights}' was trained without: leave the option out")
    contains(evaluate("--image-size", "8", status=2), f"warning: --image-size is 8x8, and '{weights}' was trained with 16x16")


def a_limit_that_leaves_one_class_is_warned_of():
    folder = os.path.join(FOLDER.name, "limited")
    equal(lockstep("convert", "--dataset", "shapes", "--limit", "40", "--to", "png", "--output", folder).returncode, 0)
    contains(train("--no-validation", "--limit", "5", dataset=folder), "are of class 0 ('circle'): --limit takes the first ones")
    equal(train("--no-validation", "--limit", "39", dataset=folder).count("of class"), 0)


def pictures_without_a_folder_each_class_are_counted():
    folder = os.path.join(FOLDER.name, "flat")
    equal(lockstep("convert", "--dataset", "digits", "--limit", "3", "--split", "test", "--to", "jpeg", "--output", folder).returncode, 0)
    for name in os.listdir(os.path.join(folder, "test")):
        for file in os.listdir(os.path.join(folder, "test", name)):
            shutil.move(os.path.join(folder, "test", name, file), folder)
    shutil.rmtree(os.path.join(folder, "test"))
    contains(train(dataset=folder, status=1), f"folder '{folder}' holds 3 images and no folder of a class with images in it: put them into one each class")


def what_nothing_takes_of_a_file_is_said():
    path = npz(os.path.join(FOLDER.name, "head.npz"), {"dense/kernel": ("<f4", (4, 4), [0] * 16), "dense/bias": ("<f4", (4,), [0] * 4),
                                                       "head/kernel": ("<f4", (4, 3), [0] * 12)})
    err = train("--weights", path, "--skip-mismatch", dataset=DATA)
    contains(err, f"'{path}' has no variable 'dense_1/kernel' (4, 3); of this shape is 'head/kernel'")
    contains(err, f"'{path}': no variable of the model takes 'head/kernel' (4, 3)")
    done = lockstep("predict", "--weights", path, "--model", "mlp", "--hidden", "4", "--dataset", DATA, "--output", path + ".csv")
    equal(done.returncode, 2, done.stderr)
    contains(done.stderr.decode(), "(skip_mismatch, lockstep train --skip-mismatch: ")  # predict has no such option


def a_missing_array_says_what_is_there():
    path = npz(os.path.join(FOLDER.name, "names.npz"), {"X_train": ("<f4", (4, 1), [0, 1, 2, 3]), "y_train": ("<i4", (4,), [0, 1, 0, 1])})
    contains(train(dataset=path, status=1), "holds no file 'x_train.npy'; it holds X_train.npy, y_train.npy")


main([pictures_without_a_folder_each_class_are_counted, what_nothing_takes_of_a_file_is_said, pictures_options_of_other_data_are_refused, a_model_is_used_as_it_was_trained, a_limit_that_leaves_one_class_is_warned_of,
      a_missing_array_says_what_is_there, top_k_of_all_classes_is_warned_of, odd_batches_are_warned_of, a_missing_split_says_the_way_out,
      a_damaged_image_says_the_way_out])
