"""No checkpoint is ever half there: killed, damaged, out of space, the previous one is whole."""

import logging
import os
import random
import shutil
import subprocess
import sys
import time

import pytest
import torch
from safetensors import SafetensorError
from scripts.fresh_process import REPOSITORY, SCRIPTS, run_fresh
from scripts.save_checkpoints import content_of, is_as_written, write_content
from transformers import AutoModelForSeq2SeqLM

from training import checkpoints as checkpoints_module
from training.checkpoint_files import MANIFEST, CheckpointError, find_damage
from training.checkpoints import Checkpoints

SCRIPT = SCRIPTS / "save_checkpoints.py"
FILES = [*content_of(1), MANIFEST]


@pytest.fixture
def run(tmp_path):
    return Checkpoints(tmp_path / "checkpoints", keep_last=2, keep_best=1)


def save(run, *steps, score=None):
    return [run.save(step, write_content(step), score) for step in steps][-1]


def names(run):
    return {path.name for path in run.folder.iterdir()}


def truncate(path):
    os.truncate(path, path.stat().st_size // 2)


def flip_a_bit(path):
    content = bytearray(path.read_bytes())
    content[random.Random(0).randrange(len(content))] ^= 1 << 3
    path.write_bytes(content)


def empty(path):
    os.truncate(path, 0)


def remove(path):
    path.unlink()


DAMAGES = {truncate: "bytes", flip_a_bit: "altered", empty: "empty", remove: "missing"}


def test_a_checkpoint_is_what_was_written(run):
    saved = save(run, 7, score=1.5)

    assert run.latest() == run.best() == saved
    assert (saved.step, saved.score) == (7, 1.5)
    assert is_as_written(saved)
    assert saved.training.is_dir()


def test_a_checkpoint_is_a_folder_that_loads_like_any_model(run, tiny_model):
    run.save(1, tiny_model.save_pretrained)
    loaded = AutoModelForSeq2SeqLM.from_pretrained(run.latest().folder)

    torch.testing.assert_close(loaded.state_dict(), tiny_model.state_dict(), rtol=0, atol=0)


def test_a_new_run_has_no_checkpoint(run):
    assert run.latest() is None
    assert run.best() is None
    assert run.last(3) == []


@pytest.mark.parametrize("damage", DAMAGES)
@pytest.mark.parametrize("name", FILES)
def test_a_damaged_file_is_named_and_the_previous_checkpoint_used(run, damage, name, caplog):
    save(run, 1, 2)
    damage(run.latest().folder / name)

    latest = run.latest()

    assert latest.step == 1
    assert is_as_written(latest)
    (warning,) = caplog.messages
    assert f"step-00000002 is damaged: {name} " in warning
    assert DAMAGES[damage] in warning or name == MANIFEST


def test_a_bit_of_the_manifest_never_flips_unnoticed(run):
    folder = save(run, 1, score=0.5).folder
    whole = (folder / MANIFEST).read_bytes()

    for place in range(0, len(whole), 5):
        flipped = bytearray(whole)
        flipped[place] ^= 1 << place // 5 % 8
        (folder / MANIFEST).write_bytes(flipped)
        assert find_damage(folder)


def test_all_checkpoints_damaged_is_an_error_not_a_new_beginning(run):
    empty(save(run, 1).folder / MANIFEST)

    with pytest.raises(CheckpointError, match="got damage in all"):
        run.latest()


@pytest.mark.parametrize("name", FILES)
def test_a_damaged_best_gives_way_to_the_second_best(run, name, caplog):
    save(run, 1, score=2.0)
    save(run, 2, score=3.0)
    flip_a_bit(run.best().folder / name)

    assert run.best().step == 1
    assert f"step-00000002 is damaged: {name} " in caplog.text


def test_the_last_and_the_best_stay(tmp_path):
    run = Checkpoints(tmp_path, keep_last=2, keep_best=2)
    for step, score in enumerate([0.1, 0.9, None, 0.8, float("nan"), 0.3, 0.2], start=1):
        save(run, step, score=score)

    assert names(run) == {f"step-0000000{step}" for step in (2, 4, 6, 7)}
    assert run.best().step == 2
    assert [checkpoint.step for checkpoint in run.last(3)] == [4, 6, 7]


def test_rotation_does_not_count_on_damaged_checkpoints(run, caplog):
    save(run, 1, 2, 3)
    flip_a_bit(run.folder / "step-00000003" / "config.json")
    resumed = Checkpoints(run.folder, keep_last=2, keep_best=1)

    save(resumed, 4)

    assert names(run) == {"step-00000002", "step-00000004"}
    assert "step-00000003 is damaged: config.json was altered" in caplog.text


def test_rotation_leaves_alone_what_lies_ahead(run):
    """Whoever begins anew in an old folder does not delete what took days."""
    save(run, 100, 200)
    save(run, 1, 2, 3)

    assert names(run) == {f"step-{step:08d}" for step in (2, 3, 100, 200)}


def test_a_step_is_saved_again_now_with_a_score(run):
    save(run, 1)
    save(run, 1, score=0.5)

    assert run.best().step == 1
    assert names(run) == {"step-00000001"}


def test_a_step_saved_again_without_a_score_keeps_the_one_it_had(run):
    """A run that resumes from its best checkpoint and is stopped at once."""
    save(run, 1, score=0.5)
    save(run, 1)
    save(run, 2, 3, 4)

    assert run.best().step == 1


def test_of_equal_scores_the_later_is_the_best(run):
    save(run, 1, 2, score=0.5)

    assert run.best().step == 2


def test_a_damaged_checkpoint_is_replaced_when_its_step_comes_again(run):
    save(run, 1, 2)
    empty(run.latest().folder / "config.json")
    save(run, 2)

    assert run.latest().step == 2
    assert is_as_written(run.latest())


def test_at_least_one_last_and_one_best_are_kept(tmp_path):
    with pytest.raises(ValueError, match="at least 1"):
        Checkpoints(tmp_path, keep_last=3, keep_best=0)


def test_what_a_killed_run_was_about_to_delete_is_deleted(run):
    save(run, 1, 2)
    shutil.copytree(run.folder / "step-00000001", run.folder / ".removed-step-00000003")
    shutil.copytree(run.folder / "step-00000001", run.folder / ".staged-step-00000003")
    run.keep_last = 1

    run.tidy(2)

    assert names(run) == {"step-00000002"}


@pytest.mark.parametrize(
    "error", [OSError(28, "No space left"), RuntimeError(), KeyboardInterrupt()]
)
def test_a_failed_write_leaves_nothing_behind(run, error):
    save(run, 1)

    def fail(folder):
        write_content(2)(folder)
        raise error

    expected = CheckpointError if isinstance(error, OSError) else type(error)
    with pytest.raises(expected):
        run.save(2, fail)

    assert names(run) == {"step-00000001"}


def test_a_full_disk_is_noticed_before_writing(run, monkeypatch):
    save(run, 1)
    usage = shutil.disk_usage(run.folder)._replace(free=1000)
    monkeypatch.setattr(checkpoints_module.shutil, "disk_usage", lambda folder: usage)

    with pytest.raises(CheckpointError, match=r"needs 0\.\d MiB of disk space, got 0\.0 MiB free"):
        save(run, 2)
    assert names(run) == {"step-00000001"}


def test_a_first_checkpoint_that_will_not_fit_is_refused(run):
    with pytest.raises(CheckpointError, match="MiB free"):
        run.save(1, write_content(1), expected_bytes=2**70)


def on_small_disk(tmp_path, script):
    """Run Python on a disk of 1 MiB of its own, which vanishes with the process."""
    mounted = tmp_path / "disk"
    mounted.mkdir()
    mount = f"mount -t tmpfs -o size=1m none {mounted}"
    tries = ["unshare", "-rm", "sh", "-c", mount]
    if not shutil.which("unshare") or subprocess.run(tries, capture_output=True).returncode:
        pytest.skip("this machine lets us mount nothing")
    program = f"""
import subprocess, sys
from pathlib import Path
sys.path[:0] = [{str(REPOSITORY)!r}, {str(REPOSITORY / "tests")!r}]
from scripts.save_checkpoints import is_as_written, write_content
from training.checkpoint_files import CheckpointError
from training.checkpoints import Checkpoints
mounted = Path({str(mounted)!r})
run = Checkpoints(mounted, keep_last=9, keep_best=1)
def fill(folder):
    (folder / "model.safetensors").write_bytes(bytes(2**21))
run.save(1, write_content(1))
try:
{script}
except CheckpointError as error:
    print(error)
assert is_as_written(run.latest()) and run.latest().step == 1
assert [path.name for path in mounted.iterdir()] == ["step-00000001"]
"""
    finished = subprocess.run(
        ["unshare", "-rm", "sh", "-c", f'{mount}; exec "$@"', "sh", sys.executable, "-c", program],
        capture_output=True,
        text=True,
    )
    assert finished.returncode == 0, finished.stderr
    return finished.stdout


def test_a_disk_that_fills_up_while_writing_leaves_earlier_checkpoints_whole(tmp_path):
    message = on_small_disk(tmp_path, "    run.save(2, fill)")

    assert "checkpoint of step 2 must be writable, got [Errno 28] No space left" in message


def test_a_disk_that_becomes_read_only_leaves_earlier_checkpoints_whole(tmp_path):
    remount = "    subprocess.run(['mount', '-o', 'remount,ro', str(mounted)], check=True)\n"
    message = on_small_disk(tmp_path, f"{remount}    run.save(2, write_content(2))")

    assert "checkpoint of step 2 must be writable, got [Errno 30] Read-only" in message


def test_safetensors_out_of_space_is_told_like_any_other_failure(run):
    def fail(folder):
        raise SafetensorError("I/O error: No space left on device (os error 28)")

    with pytest.raises(CheckpointError, match="must be writable, got I/O error: No space left"):
        run.save(1, fail)


def test_killed_at_20_random_moments_the_latest_checkpoint_is_whole(tmp_path, caplog):
    """What `save` has returned for is never lost either."""
    environment = {**os.environ, "PYTHONPATH": str(REPOSITORY)}
    drawn = random.Random(0)
    reported = 0
    for _ in range(20):
        child = subprocess.Popen(
            [sys.executable, SCRIPT, tmp_path], stdout=subprocess.PIPE, text=True, env=environment
        )
        child.stdout.readline()  # the first of its checkpoints
        time.sleep(drawn.uniform(0, 0.08))
        child.kill()
        lines = child.stdout.read().split()
        child.wait()
        latest = Checkpoints(tmp_path, keep_last=1, keep_best=1).latest()
        reported = max([reported, *map(int, lines)])

        assert latest.step >= reported
        assert is_as_written(latest)
    assert caplog.messages == []  # nothing was ever damaged: no fall-back was needed


def test_killed_at_any_operation_on_files_nothing_is_lost(tmp_path):
    operations = run_fresh(
        SCRIPT, tmp_path, "everywhere", folder=tmp_path, PYTHONPATH=str(REPOSITORY)
    )

    assert int(operations) > 40


def test_looking_for_checkpoints_needs_no_torch(tmp_path):
    check = "import sys, training.checkpoints; sys.exit('torch' in sys.modules)"

    run_fresh("-c", check, folder=tmp_path, PYTHONPATH=str(REPOSITORY))


@pytest.fixture(autouse=True)
def only_warnings(caplog):
    caplog.set_level(logging.WARNING)
