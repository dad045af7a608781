"""The command line: help, version, and one clear error for what is wrong."""
import json
import os
import re
import subprocess

import cli


def no_arguments_print_help_to_stderr():
    done = cli.lockstep()
    cli.equal((done.returncode, done.stdout), (2, b""))
    cli.contains(done.stderr, b"usage: lockstep COMMAND")


def help_goes_to_stdout():
    for arguments in (["--help"], ["-h"], ["help"]):
        done = cli.lockstep(*arguments)
        cli.equal((done.returncode, done.stderr), (0, b""), arguments)
        cli.contains(done.stdout, b"commands:")
    for command in ("run", "train", "check", "settings", "info"):
        one, two = cli.lockstep("help", command), cli.lockstep(command, "--help")
        cli.equal((one.returncode, two.returncode), (0, 0), command)
        cli.equal(one.stdout, two.stdout)
        cli.contains(one.stdout, b"usage: lockstep " + command.encode())


def help_has_a_paragraph_for_each_option():
    for command in cli.lockstep("--list-commands").stdout.decode().split():
        if command == "help":
            continue
        shown = options_in(cli.lockstep(command, "--help", "all").stdout)
        listed = cli.lockstep(command, "--list-options").stdout.decode().split()
        cli.equal(sorted(shown), sorted(listed), command)


def options_in(text):
    return ["--" + name for name in re.findall(r"^  (?:-\w \S+, )?--?([\w-]+)", text.decode(), re.M)]


def help_of_many_options_is_a_screen_with_sections():
    for command in ("train", "plan"):
        text = cli.lockstep(command, "--help").stdout.decode()
        listed = set(cli.lockstep(command, "--list-options").stdout.decode().split())
        cli.equal(listed - set(re.findall(r" (--[\w-]+)", text.replace(" -np", " --np"))), set(), command)
        assert text.count("\n") <= 50 and max(map(len, text.splitlines())) <= 120, command
        sections = cli.lockstep(command, "--list-options", "--help").stdout.decode().split()
        parts = [one for section in sections for one in options_in(cli.lockstep(command, "--help", section).stdout)]
        cli.equal(sorted(parts), sorted(listed - {"--help"}), command)
    cli.equal(options_in(cli.lockstep("train", "--help", "momentum").stdout), ["--momentum"])
    cli.contains(cli.lockstep("evaluate", "--help", "data").stdout, b"model and data:\n")
    cli.equal(cli.lockstep("help", "train", "optimizer").stdout, cli.lockstep("train", "-h", "optimizer").stdout)
    for command in ("train", "info"):
        done = cli.lockstep(command, "--help", "nothing")
        cli.equal((done.returncode, done.stdout), (2, b""))
        cli.contains(done.stderr, b"--help 'nothing' is no section and no option")


def version():
    done = cli.lockstep("--version")
    cli.equal(done.returncode, 0)
    assert done.stdout.startswith(b"lockstep ") and done.stdout.count(b".") == 2, done.stdout


def info_counts_the_processors_that_it_may_use():
    one = {min(os.sched_getaffinity(0))}
    done = cli.lockstep("info", preexec_fn=lambda: os.sched_setaffinity(0, one))
    cli.contains(done.stdout, b", 1 processor, ")


def errors_name_what_is_wrong():
    cases = [
        (["frobnicate"], b"lockstep: unknown command 'frobnicate'"),
        (["--frobnicate"], b"lockstep: unknown option '--frobnicate'"),
        (["help", "frobnicate"], b"unknown command 'frobnicate'"),
        (["run", "--frobnicate"], b"lockstep run: unknown option '--frobnicate'"),
        (["run", "-np"], b"option '-np' needs a value"),
        (["run", "true"], b"Give -np N"),
        (["run", "-np", "2"], b"no command to start"),
        (["run", "-np", "0", "true"], b"from 1 to 1024, not '0'"),
        (["run", "-np", "1025", "true"], b"not '1025'"),
        (["run", "-np", "two", "true"], b"not 'two'"),
        (["run", "-np", "2", "--devices", "65", "true"], b"'--devices' needs a number from 1 to 64"),
        (["run", "-np", "2", "--devices", "cpu:0,", "true"], b"not 'cpu:0,'"),
        (["run", "-np", "2", "--devices", "", "true"], b"not ''"),
        (["run", "-np", "2", "--grace", "-1", "true"], b"'--grace' needs a number"),
        (["run", "-np", "2", "--restart", "-1", "true"], b"'--restart' needs a whole number"),
        (["run", "-np", "2", "--elastic", "0", "true"], b"'--elastic' needs a whole number"),
        (["run", "-np", "2", "--elastic", "3", "true"], b"'--elastic' needs a number up to -np 2, not 3"),
        (["run", "-np", "2", "--prefix=3", "true"], b"'--prefix' takes no value"),
        (["train", "--checkpoint-keep", "3"], b"option '--checkpoint-keep' needs '--checkpoint FOLDER'"),
        (["train", "--epoch", "3"], b"unknown option '--epoch'; is --epochs meant?"),
        (["train", "--epoch=3"], b"unknown option '--epoch'; is --epochs meant?"),
        (["train", "-epoch", "3"], b"unknown option '-epoch'; is --epochs meant?"),
        (["train", "--batch_size", "3"], b"unknown option '--batch_size'; is --batch-size meant?"),
        (["train", "--lr=0.1"], b"unknown option '--lr'; is --learning-rate meant?"),
        (["train", "--learningrate=0.1"], b"unknown option '--learningrate'; is --learning-rate meant?"),
        (["train", "digits"], b"unexpected argument 'digits'; is --dataset digits meant?"),
        (["run", "--nnodes", "2"], b"unknown option '--nnodes'; is --hosts meant?"),
        (["run", "--nproc_per_node", "2"], b"unknown option '--nproc_per_node'; is -np meant?"),
        (["train", "--metrics", "top_k=2,accuracy"], b"--metrics 'top_k=2,accuracy': accuracy is measured anyway"),
        (["evaluate", "--metrics", "auc"], b"'auc' comes with 'lockstep evaluate --report'"),
        (["train", "--loss", "rmse"], b"--loss 'rmse' is none of sparse_categorical_crossentropy"),
        (["train", "--momen", "0.5"], b"unknown option '--momen'; is --momentum or --momentum-correction meant?"),
        (["train", "--beta", "0.5"], b"unknown option '--beta'; is --beta-1 or --beta-2 meant?"),
        (["run", "-np", "2", "--elas", "1", "true"], b"unknown option '--elas'; is --elastic or --elastic-timeout meant?"),
        (["train", "-hiden", "3"], b"unknown option '-hiden'"),
        (["train", "--json=3"], b"option '--json' takes no value"),
        (["train", "--csv-append"], b"option '--csv-append' needs '--csv FILE'"),
        (["train", "--skip-mismatch"], b"option '--skip-mismatch' needs '--weights FILE'"),
        (["train", "--restore-best"], b"option '--restore-best' needs '--early-stopping N'"),
        (["train", "--csv-append", "--trace", "--csv"], b"option '--csv-append' needs '--csv FILE'"),
        (["train", "--seed", "9223372036854775808"], b"'--seed' needs a whole number from 0 to 9223372036854775807, not"),
        (["evaluate", "--weights", "w", "--watch-timeout", "1"], b"option '--watch-timeout' needs '--watch'"),
        (["convert", "--to", "gif"], b"--to 'gif' is none that there is"),
        (["run", "-n4", "--elastic", "5", "true"], b"'--elastic' needs a number up to -np 4, not 5"),
        (["run", "-nx", "true"], b"option '-np' needs a whole number from 1 to 1024, not 'x'"),
        (["train", "--hidden", "32,,8"], b"'--hidden' needs a whole number from 1 to 16777216, not ''"),
        (["train", "--hidden", "32,"], b"'--hidden' needs a whole number from 1 to 16777216, not ''"),
        (["train", "--hidden", ""], b"--hidden is empty; say 'none' for a linear model"),
        (["train", "--metrics", "mean_loss,,top_k=3"], b"'' is none of sparse_categorical_accuracy"),
        (["train", "--metrics", ""], b"'' is none of sparse_categorical_accuracy"),
        (["train", "--augment", "flip,"], b"'' is none of flip, crop=PADDING"),
        *((["train", "--augment", bad], f"'{bad}' is none of flip, crop=PADDING".encode()) for bad in (
            "rotation", "rotation=", "rotation=x", "rotation=0.1:", "rotation=0.1:sideways", "rotation=0.1/0.2", "zoom=0.1/",
            "hue=0.1:wrap", "shift=0.1:0.2:", "cutout=0.5:constant:", "mixup=-1", "mixup=0.2x", "brightness=")),
        (["train", "--augment", "flip," * 200], b"--augment has more than 511 characters"),
        (["train", "--schedule", "piecewise", "--pieces", "10:0.1,"], b"--pieces '10:0.1,' is no list of STEP:RATE"),
        (["train", "--schedule", "piecewise", "--pieces", "10:0.1,9:0.2"], b"step 9 must be above the one before, 10"),
        (["train", "--schedule", "piecewise"], b"--schedule piecewise needs '--pieces STEP:RATE,...'"),
        (["train", "--schedule", "cosine"], b"--schedule cosine needs '--decay-steps N'"),
        (["train", "--schedule", "exponential", "--decay-steps", "9"], b"--schedule exponential needs '--decay-rate X'"),
        (["train", "--clip-value", "1", "--clip-norm", "1"], b"only one of '--clip-value', '--clip-norm' and '--global-clip-norm'"),
        (["train", "--beta-1", "0.5"], b"--optimizer sgd has no '--beta-1'"),
        (["train", "--nesterov"], b"option '--nesterov' needs '--momentum X'"),
        (["train", "--momentum", "0.5", "--momentum-correction", "--schedule", "Constant"], b"--momentum-correction is of a rate that changes"),
        (["train", "--decay-steps", "3", "--schedule", "piecewise"], b"option '--decay-steps' needs '--schedule exponential|cosine', not 'piecewise'"),
        (["train", "--hidden", "8", "--model", "lenet"], b"option '--hidden' needs '--model mlp|embedding|lstm|gru', not 'lenet'"),
        (["plan", "--alpha", "0.5"], b"option '--alpha' needs '--model mobilenet_v2'"),
        (["train", "--auto-shard", "off"], b"option '--auto-shard' needs '--division tensorflow'"),
        (["train", "--shuffle", "never", "--shuffle-buffer", "9"], b"'--shuffle-buffer' needs '--shuffle each-epoch|once', not 'never'"),
        (["convert", "--to", "npz", "--block-length", "9"], b"option '--block-length' needs '--interleave N'"),
        (["train", "--image-size", "32"], b"--image-size: 'digits' are drawn in one size"),
        (["convert", "--dataset", "digits", "--to", "png", "--output", "o", "--image-size", "32"], b"--image-size: 'digits' are drawn"),
        (["train", "--dataset", "shapes", "--image-channels", "1"], b"--image-channels: 'shapes' are drawn as they are"),
        (["train", "--min-delta", "1"], b"'--min-delta' needs '--early-stopping N' or '--reduce-on-plateau N'"),
        (["train", "--log-errors", "warn"], b"'--log-errors' needs '--tensorboard', '--csv', '--save-best' or '--save-each'"),
        (["train", "--optimizer", "adam", "--centered"], b"--optimizer adam has no '--centered'"),
        (["train", "--exclude-from-weight-decay", "bias"], b"'--exclude-from-weight-decay' needs '--weight-decay X'"),
        (["train", "--dataset", "nope.npz"], b"--dataset 'nope.npz' is neither digits nor shapes nor words, and as a path: No such file"),
        (["train", "--weights", "nope.npz"], b"--weights 'nope.npz': No such file"),
        (["plan", "--weights", "nope.npz", "-np", "2"], b"--weights 'nope.npz': No such file"),
        (["evaluate", "--weights", "nope/w.npz"], b"--weights 'nope/w.npz': No such file"),
        (["predict", "--weights", "nope.npz", "--output", "o.npy"], b"--weights 'nope.npz': No such file"),
        (["evaluate", "--weights", "w", "--dataset", "/nope"], b"as a path: No such file or directory"),
        (["convert", "--dataset", "/nope", "--to", "npz", "--output", "o"], b"as a path: No such file or directory"),
        (["train", "--checkpoint", "f", "--checkpoint-keep", "0"], b"option '--checkpoint-keep' needs a whole number from 1"),
        (["train", "--checkpoint-steps", "few"], b"'--checkpoint-steps' needs a whole number"),
        (["train", "--checkpoint-errors", "maybe"], b"--checkpoint-errors 'maybe' is none of fail, warn"),
        (["train", "--model", "embedding", "--embedding", "10x"], b"--embedding '10x' is no ROWSxWIDTH such as 10000x16"),
        (["train", "--sparse", "always"], b"'--sparse' needs '--strategy parameter-server'"),
        (["train", "--optimizer", "adamx"], b"--optimizer 'adamx' is none of sgd, adam, adamw, rmsprop, lamb"),
        (["train", "--schedule", "step"], b"--schedule 'step' is none of constant, exponential, cosine, piecewise"),
        (["train", "--schedule", "piecewise", "--pieces", "10:0.1,x"], b"--pieces '10:0.1,x' is no list of STEP:RATE"),
        (["train", "--loss", "hinge"], b"--loss 'hinge' is none of sparse_categorical_crossentropy,"),
        (["train", "--label-smoothing", "1"], b"'--label-smoothing' needs a number from 0 to 0.999, not '1'"),
        (["train", "--metrics", "top_k=0"], b"--metrics 'top_k=0': 'top_k=0' is none of"),
        (["train", "--optimizer", "adam", "--beta-1", "1"], b"'--beta-1' needs a number from 1e-06 to 0.999999, not '1'"),
        (["train", "--optimizer", "adam", "--beta-2", "-0.5"], b"'--beta-2' needs a number"),
        (["train", "--optimizer", "rmsprop", "--rho", "much"], b"'--rho' needs a number from 1e-06 to 0.999999, not 'much'"),
        (["train", "--optimizer", "lamb", "--epsilon", "0"], b"'--epsilon' needs a number from 1e-30"),
        (["train", "--kernel-l1", "-1"], b"'--kernel-l1' needs a number from 0"),
        (["train", "--kernel-l2", "nan"], b"'--kernel-l2' needs a number from 0"),
        (["train", "--precision", "half"], b"--precision 'half' is none of float32, tf32, mixed_bfloat16, mixed_float16"),
        (["train", "--accumulate", "0"], b"'--accumulate' needs a whole number from 1"),
        (["check", "--frobnicate"], b"lockstep check: unknown option '--frobnicate'"),
        (["check", "extra"], b"unexpected argument 'extra'"),
        (["info", "file", "extra"], b"unexpected argument 'extra'"),
        (["settings", "extra"], b"unexpected argument 'extra'"),
    ]
    for arguments, message in cases:
        done = cli.lockstep(*arguments)
        cli.equal((done.returncode, done.stdout), (2, b""), arguments)
        cli.contains(done.stderr, message)
        cli.equal(done.stderr.count(b"\n"), 1, arguments)


def words_may_be_in_any_case():
    done = cli.lockstep("train", "--limit", "20", "--epochs", "1", "--communication", "RING", "--optimizer", "Adam", "--hidden",
                        "None", "--metrics", "Mean_Loss", "--verbose", "-1", "--json", "--no-validation")
    cli.equal(done.returncode, 0, done.stderr)
    cli.contains(done.stderr, b"; RING")


def what_is_given_twice_is_warned_of():
    few = ("--limit", "20", "--no-validation", "--verbose", "-1", "--json")
    done = cli.lockstep("train", *few, "--epochs", "2", "--epochs=1", env=cli.environment(LOCKSTEP_LOG="error"))
    cli.equal((done.returncode, done.stderr.splitlines()),
              (0, [b"lockstep train: warning: option '--epochs' is given more than once; the last one counts"]))
    cli.equal(json.loads(done.stdout)["steps"], 1)
    cli.equal(cli.lockstep("train", *few, "--epochs", "1", env=cli.environment(LOCKSTEP_LOG="error")).stderr, b"")


def what_is_not_there_is_a_bad_command_line():
    for options in (["--devices", "gpu:99"], ["--precision", "mixed_float16", "--devices", "cpu:0"]):
        done = cli.lockstep("train", "--limit", "20", "--epochs", "1", *options)
        cli.equal(done.returncode, 2, done.stderr)


def link_of(path):
    """None where it is not there, or no more."""
    try:
        return os.readlink(path)
    except FileNotFoundError:
        return None


def closed_streams_stay_empty():
    """A socket or a counter that took standard output's number would receive what is printed."""
    for streams in ("<&- >&-", "<&- >&- 2>&-"):
        script = 'exec "$0" train --limit 100 --epochs 100000 --no-validation --verbose 2 ' + streams
        process = subprocess.Popen(["sh", "-c", script, cli.LOCKSTEP], stderr=subprocess.DEVNULL, env=cli.environment())
        try:
            cli.wait_until(lambda: link_of("/proc/%d/fd/1" % process.pid) == "/dev/null", streams)
        finally:
            process.kill()
            process.wait()


def lost_output_is_a_failure():
    for arguments in (["--version"], ["help"], ["check"], ["train", "--limit", "100", "--epochs", "1", "--json"]):
        with open("/dev/full", "wb") as full:
            done = subprocess.run([cli.LOCKSTEP, *arguments], env=cli.environment(), stdout=full,
                                  stderr=subprocess.PIPE, timeout=cli.LIMIT)
        cli.equal(done.returncode, 1, arguments)
        cli.contains(done.stderr, b"cannot write output")


def check_tells_who_this_is():
    config = {"cluster": {"worker": ["a:1", "b:2"]}, "task": {"type": "worker", "index": 1}}
    done = cli.lockstep("check", "--json", env=cli.environment(TF_CONFIG=json.dumps(config)))
    answer = json.loads(done.stdout)
    cli.equal((done.returncode, done.stderr), (0, b""))
    cli.equal((answer["valid"], answer["mode"], answer["id_in_cluster"], answer["num_workers"], answer["is_chief"]),
              (True, "cluster", 1, 2, False))
    text = cli.lockstep("check", "--tf-config", json.dumps(config))
    cli.equal(text.returncode, 0)
    cli.contains(text.stdout, b"worker")


def check_refuses():
    done = cli.lockstep("check", "--json", "--tf-config", '{"cluster":')
    answer = json.loads(done.stdout)
    cli.equal((done.returncode, answer["valid"]), (2, False))
    cli.equal(sorted(answer["error"]), ["code", "message"])
    text = cli.lockstep("check", "--tf-config", '{"cluster":')
    cli.equal((text.returncode, text.stdout), (2, b""))
    cli.contains(text.stderr, b"INVALID_ARGUMENT")


def check_without_a_cluster():
    for env in (cli.environment(), cli.environment(TF_CONFIG="{}")):
        done = cli.lockstep("check", "--json", env=env)
        answer = json.loads(done.stdout)
        cli.equal((done.returncode, answer["mode"]), (0, "local"))


def info_lists_devices_and_settings():
    done = cli.lockstep("info", env=cli.environment(LOCKSTEP_BUCKET="2M"))
    cli.equal((done.returncode, done.stderr), (0, b""))
    for part in (b"lockstep 0.", b"gRPC", b"cpu ", b"oneDNN", b"RING", b"NCCL", b"GPU plugin", b"LOCKSTEP_BUCKET", b"2097152"):
        cli.contains(done.stdout, part)


def info_names_a_bad_setting():
    done = cli.lockstep("info", env=cli.environment(LOCKSTEP_BUCKET="much"))
    cli.equal(done.returncode, 2)
    cli.contains(done.stderr, b"LOCKSTEP_BUCKET='much'")



def settings_lists_values_and_deadlines():
    env = cli.environment(LOCKSTEP_BUCKET="2M", LOCKSTEP_TRACE='a "b".json', LOCKSTEP_EXIT_TIMEOUT="7.5", LOCKSTEP_LOG="")
    done, text, info = (cli.lockstep(*command, env=env) for command in (["settings", "--json"], ["settings"], ["info"]))
    cli.equal([(each.returncode, each.stderr) for each in (done, text, info)], [(0, b"")] * 3)
    answer = json.loads(done.stdout)
    settings = {row["name"]: row for row in answer["settings"]}
    row = lambda name: [settings["LOCKSTEP_" + name][key] for key in ("value", "unit", "from")]
    cli.equal(row("BUCKET"), ["2097152", "bytes", "environment"])
    cli.equal(row("TRACE"), ['a "b".json', "", "environment"])
    cli.equal(row("LOG"), ["info", "", "default"])
    cli.equal(row("HEARTBEAT_LIMIT"), ["3", "s", "default"])
    deadlines = {row["name"]: row for row in answer["deadlines"]}
    cli.equal([deadlines["exit"][key] for key in ("setting", "seconds")], ["LOCKSTEP_EXIT_TIMEOUT", 7.5])
    cli.equal([deadlines["connect"][key] for key in ("setting", "seconds")], [None, 5])
    cli.equal([row["setting"] for row in answer["deadlines"]
               if row["setting"] and row["setting"] not in settings], ["--grace", "--stop-grace", "--start-timeout", "--elastic-timeout", "--timeout"])
    for name, timeout in settings.items():
        if timeout["unit"] == "s" and (name.endswith("_TIMEOUT") or name.endswith("_LIMIT")):
            assert name in [row["setting"] for row in answer["deadlines"]], name
    for row in (*answer["settings"], *answer["deadlines"]):
        assert all(value != "" for key, value in row.items() if key in ("name", "waits", "then", "help")), row
        cli.contains(text.stdout, b"  " + row["name"].encode() + b" ")
    table = text.stdout.split(b"\n\n")[0]
    cli.contains(info.stdout, table)


def settings_names_a_bad_one():
    done = cli.lockstep("settings", env=cli.environment(LOCKSTEP_HEARTBEAT_LIMIT="0.3"))
    cli.equal((done.returncode, done.stdout), (2, b""))
    cli.contains(done.stderr, b"LOCKSTEP_HEARTBEAT_LIMIT='0.3' is not more than twice LOCKSTEP_HEARTBEAT_INTERVAL='0.2'")


cli.main([no_arguments_print_help_to_stderr, help_goes_to_stdout, help_has_a_paragraph_for_each_option,
          help_of_many_options_is_a_screen_with_sections, version, errors_name_what_is_wrong,
          words_may_be_in_any_case, what_is_given_twice_is_warned_of, what_is_not_there_is_a_bad_command_line,
          closed_streams_stay_empty, lost_output_is_a_failure, check_tells_who_this_is, check_refuses,
          check_without_a_cluster, info_lists_devices_and_settings, info_counts_the_processors_that_it_may_use, info_names_a_bad_setting,
          settings_lists_values_and_deadlines, settings_names_a_bad_one])
