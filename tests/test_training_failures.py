"""What goes wrong is told in one line, with a way out, and leaves earlier checkpoints whole."""

import ast
import logging
import math
import multiprocessing
import os
import re
import signal
import socket
import subprocess
import sys
import time

import pytest
import torch
from scripts.fresh_process import REPOSITORY
from small_training import lines_in_log, small_recipe, steps_in_log, train, weights_at

from training.checkpoint_files import find_damage
from training.interruption import INTERRUPTED
from training.learner import Learner
from training.objective import Objective
from training.run_lock import RunLock
from training.schedule import Schedule
from vanilla_transformer import VanillaTransformerForConditionalGeneration

SHORT = ("optimization.max_steps=4", "evaluation.every_steps=4")


@pytest.fixture
def refusal(small_training, tmp_path, capsys):
    """Train, which is refused; gives the one line that was told."""

    def run(*changes, folder=small_training, **options):
        assert train(folder, tmp_path / "run", *changes, **options) == 1
        errors = capsys.readouterr().err
        assert "Traceback" not in errors
        told = errors[errors.index("Error: ") :].removesuffix("\n")
        assert "\n" not in told
        return told

    return run


def are_whole(output, *steps):
    found = {path.name: find_damage(path) for path in (output / "checkpoints").iterdir()}
    return found == {f"step-{step:08d}": [] for step in steps}


def with_lines(folder, name, **texts):
    for suffix, content in texts.items():
        (folder / f"{name}.{suffix}").write_bytes(content)
    return [str(folder / f"{name}.{suffix}") for suffix in texts]


def test_files_of_different_lengths_are_refused(small_training, tmp_path, refusal):
    places = with_lines(tmp_path, "train", en=b"one\ntwo\n", de=b"eins\n")
    folder = small_recipe(small_training, tmp_path, train=[{"places": places}])

    assert "train.de" in refusal(folder=folder)


def test_a_line_that_is_no_text_is_named(small_training, tmp_path, refusal):
    places = with_lines(tmp_path, "train", en=b"one\ntwo\n", de=b"eins\nzw\xffei\n")
    folder = small_recipe(small_training, tmp_path, train=[{"places": places}])

    told = refusal(folder=folder)

    assert "train.de" in told
    assert "byte 7" in told
    assert "UTF-8" in told


def test_a_missing_file_is_named(small_training, tmp_path, refusal):
    folder = small_recipe(small_training, tmp_path, validation=["nowhere.tsv"])

    assert "There is no file 'nowhere.tsv'" in refusal(folder=folder)


@pytest.mark.parametrize(
    ("content", "expected"), [(b"", "at least one line"), (b"\t\n", "hold a pair, got none")]
)
def test_an_empty_validation_set_is_refused(content, expected, small_training, tmp_path, refusal):
    places = with_lines(tmp_path, "validation", tsv=content)
    folder = small_recipe(small_training, tmp_path, validation=places)

    assert expected in refusal(folder=folder)


def test_an_empty_training_set_is_refused(small_training, tmp_path, refusal):
    places = with_lines(tmp_path, "train", tsv=b"")
    folder = small_recipe(small_training, tmp_path, train=[{"places": places}])

    assert "must hold at least one line" in refusal(folder=folder)


def test_a_model_with_fewer_words_than_its_tokenizer_is_refused(refusal):
    told = refusal("model.vocab_size=100")

    assert re.search(r"a row for every token, got vocab_size=100 for the \d+ tokens", told)


def test_special_tokens_of_another_tokenizer_are_refused(refusal):
    told = refusal("model.pad_token_id=3")

    assert "special tokens must be its tokenizer's, got model.pad_token_id=3: leave it out" in told


def test_a_library_that_is_not_there_is_told_in_a_line(refusal, monkeypatch):
    def find(**_):
        raise ImportError("DeepSpeed is not installed => run `pip install deepspeed`.")

    monkeypatch.setattr("training.train.Accelerator", find)

    assert "pip install deepspeed" in refusal()


def test_a_wrong_model_is_refused_before_the_corpus_is_read(refusal, tmp_path):
    told = refusal("model.encoder_layer=1")

    assert "did you mean 'encoder_layers'?" in told
    assert not (tmp_path / "run").exists()


def test_settings_of_accelerate_are_refused(refusal, tmp_path, monkeypatch):
    monkeypatch.setenv("ACCELERATE_MIXED_PRECISION", "fp16")

    told = refusal()

    assert "set optimization.precision" in told
    assert not (tmp_path / "run").exists()


def test_a_run_tells_of_itself_and_no_library_of_its_requests(refusal, monkeypatch):
    monkeypatch.setattr(logging.root, "handlers", [])  # as where no test listens
    monkeypatch.setattr(logging.root, "level", logging.WARNING)

    refusal("model.encoder_layer=1")

    assert logging.getLogger("training.corpus").isEnabledFor(logging.INFO)
    assert not logging.getLogger("httpx2").isEnabledFor(logging.INFO)


def test_a_tokenizer_that_is_not_there_is_named(refusal):
    assert "corpus.tokenizer must be " in refusal("corpus.tokenizer=no/such/folder")


def test_pairs_longer_than_the_model_reads_are_refused(refusal):
    told = refusal("model.position_encoding=learned", "model.max_position_embeddings=4")

    assert "max_position_embeddings" in told


def test_a_folder_in_use_is_refused(small_training, tmp_path, refusal):
    with RunLock(tmp_path / "run"):
        assert "must be used by one run at a time" in refusal()


def test_a_folder_that_cannot_be_written_is_refused(small_training, tmp_path, refusal):
    (tmp_path / "run").touch()

    assert "must be a folder we may write to" in refusal()


def test_a_folder_with_another_run_is_refused(small_training, tmp_path, refusal):
    train(small_training, tmp_path / "run", *SHORT)

    assert "go on with --resume, or name another --output" in refusal(*SHORT)
    assert are_whole(tmp_path / "run", 3, 4)


@pytest.mark.parametrize("r_drop", [0, 1])
def test_a_corpus_smaller_than_its_pieces_is_learned_from(r_drop, small_training, tmp_path):
    places = with_lines(tmp_path, "train", tsv=b"one\teins\ntwo\tzwei\n")
    folder = small_recipe(small_training, tmp_path, train=[{"places": places}])
    changes = [*SHORT, "batching.accumulation=5", f"optimization.r_drop={r_drop}"]

    assert train(folder, tmp_path / "run", *changes) == 0
    assert lines_in_log(tmp_path / "run", "train")[-1]["epoch"] == 3


@pytest.fixture
def in_step(monkeypatch):
    """Let something happen to the loss of some steps; the learner knows which."""

    def set_up(happen):
        take, measure, current = Learner.step, Objective.__call__, []

        def step(one, number, *args, **kwargs):
            current[:] = [number]
            return take(one, number, *args, **kwargs)

        def call(*args):
            return happen(current[0], *measure(*args))

        monkeypatch.setattr(Learner, "step", step)
        monkeypatch.setattr(Objective, "__call__", call)

    return set_up


def test_a_step_without_a_finite_loss_is_skipped_and_its_batch_logged(
    small_training, tmp_path, in_step
):
    in_step(lambda number, *both: [one * math.nan if number == 7 else one for one in both])
    changes = ["checkpoints.every_steps=1", "optimization.max_steps=8", "checkpoints.keep_last=3"]

    assert train(small_training, tmp_path, *changes) == 0

    (skipped,) = lines_in_log(tmp_path, "skipped")
    assert skipped["step"] == 7
    assert skipped["loss"] == "nan"
    assert len(skipped["pairs"]) > 0
    for name, weight in weights_at(tmp_path, 7).items():
        assert torch.equal(weight, weights_at(tmp_path, 6)[name])
    assert any(
        not torch.equal(weight, weights_at(tmp_path, 7)[name])
        for name, weight in weights_at(tmp_path, 8).items()
    )


def test_ten_steps_in_a_row_without_a_finite_gradient_end_the_run(tmp_path, in_step, refusal):
    """The loss itself is finite, so that only the gradients tell."""

    def spoil(number, loss, told):
        return (loss + (loss - loss.detach()) * math.nan if number > 4 else loss), told

    in_step(spoil)

    told = refusal()

    assert "got 10 steps in a row where they were not, the last one step 14" in told
    assert "optimization.peak_learning_rate" in told
    assert are_whole(tmp_path / "run", 6, 8, 9, 12)
    last = weights_at(tmp_path / "run", 12)
    assert all(weight.isfinite().all() for weight in last.values())
    assert steps_in_log(tmp_path / "run", "skipped") == list(range(5, 15))


def test_weights_that_are_no_numbers_are_never_saved(tmp_path, refusal, monkeypatch):
    """A step from finite gradients, but so long that it leads out of float32."""
    monkeypatch.setattr(Schedule, "rate", lambda schedule, step: 1e39 if step == 6 else 1e-3)

    told = refusal()

    assert "finite" in told
    assert "peak_learning_rate" in told
    assert are_whole(tmp_path / "run", 3)


def test_a_batch_that_does_not_fit_into_memory_is_described(tmp_path, refusal, monkeypatch):
    forward = VanillaTransformerForConditionalGeneration.forward
    calls = []

    def run_out(model, *args, **kwargs):
        calls.append(None)
        if len(calls) == 5:
            raise RuntimeError("DefaultCPUAllocator: can't allocate memory: you tried to ...")
        return forward(model, *args, **kwargs)

    monkeypatch.setattr(VanillaTransformerForConditionalGeneration, "forward", run_out)

    told = refusal()

    assert re.search(r"got \d+ pairs of up to \d+ source and \d+ target tokens", told)
    assert "batching.accumulation" in told
    assert are_whole(tmp_path / "run", 3)


def test_an_evaluation_that_does_not_fit_into_memory_is_described(refusal, monkeypatch):
    def run_out(*args, **kwargs):
        raise RuntimeError("DefaultCPUAllocator: can't allocate memory: you tried to ...")

    monkeypatch.setattr(VanillaTransformerForConditionalGeneration, "generate", run_out)

    told = refusal()

    assert "evaluation.batch_tokens" in told


def test_a_worker_that_is_killed_is_named(tmp_path, refusal, in_step):
    def kill_worker(number, *both):
        if number == 5:
            (worker,) = multiprocessing.active_children()
            os.kill(worker.pid, signal.SIGKILL)
            worker.join()
        return both

    in_step(kill_worker)

    told = refusal("batching.workers=1")

    assert re.search(r"DataLoader worker \(pid.* \d+\)", told)
    assert "--resume" in told
    assert "batching.workers=0" in told
    assert are_whole(tmp_path / "run", 3)


def test_a_signal_to_all_processes_of_a_run_lets_it_save(small_training, tmp_path, in_step):
    """`timeout`, systemd and Slurm signal the workers too, and a run without them is torn."""

    def signal_all(number, *both):
        if number == 5:
            (worker,) = multiprocessing.active_children()
            os.kill(worker.pid, signal.SIGTERM)
            worker.join(0.5)
            signal.raise_signal(signal.SIGTERM)
        return both

    in_step(signal_all)

    assert train(small_training, tmp_path, "batching.workers=1") == INTERRUPTED
    assert are_whole(tmp_path, 3, 6)


def test_a_disk_without_room_for_the_log_is_named(tmp_path, refusal, monkeypatch):
    def fail(*args, **kwargs):
        raise OSError(28, "No space left on device")

    monkeypatch.setattr("training.reporter.Reporter._tell_steps", fail)

    told = refusal()

    assert "No space left on device" in told
    assert "--resume" in told


@pytest.fixture
def begun(small_training, tmp_path):
    assert train(small_training, tmp_path / "run", *SHORT) == 0


@pytest.mark.parametrize(
    "change",
    [
        "seed=2",
        "model.encoder_attention_heads=4",
        "batching.target_tokens=200",
        "optimization.ema_decay=0.9",
    ],
)
def test_a_change_that_makes_it_another_run_is_refused(change, begun, refusal):
    told = refusal(*SHORT, change, resume=True)

    name, value = change.split("=")
    assert f"{name}: " in told
    assert f" -> {value}" in told
    assert "another --output" in told


def test_other_changes_are_told_and_hold(begun, small_training, tmp_path, caplog):

    changes = ["optimization.max_steps=6", "optimization.beta2=0.99", "model.dropout=0.3"]

    assert train(small_training, tmp_path / "run", *changes, resume=True) == 0

    assert "optimization.max_steps: 4 -> 6" in caplog.text
    assert "optimization.beta2: 0.98 -> 0.99" in caplog.text
    assert "model.dropout: 0.1 -> 0.3" in caplog.text


@pytest.mark.parametrize("is_resolved", [True, False])
def test_writing_down_a_default_is_no_change(
    is_resolved, small_training, tmp_path, caplog, monkeypatch
):
    """Also where the run began with a version that saved the model's section as written."""
    with monkeypatch.context() as patch:
        if not is_resolved:
            patch.setattr("training.train.resolve", lambda recipe: recipe)
        assert train(small_training, tmp_path / "run", *SHORT) == 0
    saved = tmp_path / "run" / "checkpoints" / "step-00000004" / "recipe.yaml"
    assert ("label_smoothing" in saved.read_text()) == is_resolved
    changes = ["model.label_smoothing=0.1", "model.from_paper=base", "model.hidden_size=16"]

    assert train(small_training, tmp_path / "run", *SHORT, *changes, resume=True) == 0

    assert "model." not in caplog.text


def test_fewer_pairs_than_before_are_refused(begun, refusal):
    assert "training pairs" in refusal(*SHORT, "corpus.max_length=8", resume=True)


@pytest.mark.parametrize(
    "change",
    [
        lambda lines: [*lines, b"one\teins\n"],
        lambda lines: lines[::-1],
        lambda lines: [line.replace(b"thousand", b"hundred") for line in lines],
    ],
    ids=["a pair more", "another order", "other words"],
)
def test_texts_that_changed_since_the_run_began_are_refused(
    change, begun, small_training, tmp_path, refusal
):
    lines = (small_training / "train.tsv").read_bytes().splitlines(keepends=True)
    places = with_lines(tmp_path, "train", tsv=b"".join(change(lines)))
    folder = small_recipe(small_training, tmp_path, train=[{"places": places}])
    found = (tmp_path / "run" / "corpus.txt").read_bytes()

    told = refusal(*SHORT, folder=folder, resume=True)

    assert "training pairs" in told
    assert "another --output" in told
    assert (tmp_path / "run" / "corpus.txt").read_bytes() == found


def launched(folder, output, *changes, **environment):
    """Train in another process, which is not waited for."""
    command = [sys.executable, "-m", "training.train", "--config", str(folder / "recipe.yaml")]
    command += ["--output", str(output), *(part for one in changes for part in ("--set", one))]
    ours = {"PYTHONPATH": str(REPOSITORY), "OMP_NUM_THREADS": "1", "HF_HUB_OFFLINE": "1"}
    return subprocess.Popen(
        command, env={**os.environ, **ours, **environment}, stderr=subprocess.PIPE, text=True
    )


def line_of(errors):
    assert "Traceback" not in errors
    (told,) = [line for line in errors.splitlines() if "Error: " in line]
    return told


@pytest.mark.slow
def test_who_outlives_another_process_of_its_run_says_so(small_training, tmp_path):
    with socket.socket() as found:
        found.bind(("127.0.0.1", 0))
        port = str(found.getsockname()[1])
    shared = {"WORLD_SIZE": "2", "MASTER_ADDR": "127.0.0.1", "MASTER_PORT": port}
    main, other = (
        launched(
            small_training,
            tmp_path / "run",
            "optimization.max_steps=10000",
            **shared,
            RANK=str(rank),
            LOCAL_RANK=str(rank),
            ACCELERATE_USE_CPU="true",
        )
        for rank in range(2)
    )
    while not any((tmp_path / "run" / "checkpoints").glob("step-*")):
        time.sleep(0.05)
    other.kill()
    _, errors = main.communicate(timeout=120)
    other.communicate()

    assert main.returncode == 1
    assert "All processes of a run must live as long as it" in line_of(errors)
    assert "--resume" in line_of(errors)
    folders = list((tmp_path / "run" / "checkpoints").glob("step-*"))
    assert not any(find_damage(folder) for folder in folders)


def on_disk_of_its_own(tmp_path, option, size, folder):
    """Train on a small disk; gives what was told and what there is then."""
    disk = tmp_path / "disk"
    disk.mkdir()
    mount = f"mount -t tmpfs -o size={size} none {disk}"
    if subprocess.run(["unshare", "-rm", "sh", "-c", mount], capture_output=True).returncode:
        pytest.skip("this machine lets us mount nothing")
    (tmp_path / "look.py").write_text(
        "import sys\n"
        "from pathlib import Path\n"
        "from training.checkpoint_files import find_damage\n"
        "found = sorted(Path(sys.argv[1]).glob('run/checkpoints/*'))\n"
        "sys.stdout.write(repr([(path.name, find_damage(path)) for path in found]))\n"
    )
    train = f"{sys.executable} -m training.train --config {folder / 'recipe.yaml'}"
    train += f" --output {disk}/run --set checkpoints.keep_last=8"
    commands = [mount, "true" if not option else f"mount -o remount,{option} {disk}"]
    commands += [f"{train}; code=$?; {sys.executable} {tmp_path}/look.py {disk}; exit $code"]
    ours = {"PYTHONPATH": str(REPOSITORY), "OMP_NUM_THREADS": "1", "HF_HUB_OFFLINE": "1"}
    finished = subprocess.run(
        ["unshare", "-rm", "sh", "-c", " && ".join(commands)],
        env={**os.environ, **ours},
        capture_output=True,
        text=True,
    )
    assert finished.returncode == 1
    return line_of(finished.stderr), finished.stdout


@pytest.mark.slow
@pytest.mark.parametrize("size", ["1500k", "2m", "3m"])
def test_on_a_full_disk_earlier_checkpoints_are_whole(size, small_training, tmp_path):
    told, left = on_disk_of_its_own(tmp_path, "", size, small_training)

    assert "--resume" in told
    assert re.search(r"disk space|No space left", told)
    found = ast.literal_eval(left)
    assert [name for name, damages in found if not damages] == [name for name, _ in found] != []


@pytest.mark.slow
def test_a_disk_that_is_only_read_is_refused(small_training, tmp_path):
    told, _ = on_disk_of_its_own(tmp_path, "ro", "1m", small_training)

    assert "must be a folder we may write to" in told
