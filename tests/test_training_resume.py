"""A run that was stopped, by whatever, ends as if it had never been."""

import json
import logging
import os
import random
import shutil
import signal
from collections import Counter

import pytest
from scripts.fresh_process import REPOSITORY, SCRIPTS, run_fresh
from small_training import lines_in_log, steps_in_log, train, weights_of

from training.checkpoint_files import find_damage
from training.interruption import INTERRUPTED
from training.learner import Learner

logger = logging.getLogger(__name__)

SCRIPT = SCRIPTS / "train_and_die.py"


@pytest.fixture(scope="module")
def uninterrupted(small_training, tmp_path_factory):
    output = tmp_path_factory.mktemp("runs") / "uninterrupted"
    assert train(small_training, output) == 0
    return output


def signal_in(step, number, patch):
    """Let somebody stop the run in the middle of a step: it takes one more."""
    take = Learner.step

    def signal_and_step(learner, step_number, *args, **kwargs):
        if step_number == step:
            signal.raise_signal(number)
        return take(learner, step_number, *args, **kwargs)

    patch.setattr(Learner, "step", signal_and_step)


def die_repeatedly(folder, tmp_path, kills, *changes, processes=1, **options):
    """Train in processes of their own that are killed; returns the run's folder and its deaths."""
    plan = {
        "recipe": str(folder / "recipe.yaml"),
        "output": str(tmp_path / "killed"),
        "changes": list(changes),
        "processes": processes,
        "kills": kills,
        **options,
    }
    (tmp_path / "plan.json").write_text(json.dumps(plan))
    told = json.loads(
        run_fresh(
            SCRIPT, tmp_path / "plan.json", folder=tmp_path, PYTHONPATH=str(REPOSITORY)
        ).splitlines()[-1]
    )
    assert told["codes"] == [0] * processes, told
    return tmp_path / "killed", told["deaths"]


def assert_equal_runs(killed, whole):
    assert weights_of(killed) == weights_of(whole)
    for path in (killed / "checkpoints").iterdir():
        assert path.name.startswith("step-")
        assert not find_damage(path)
    for kind in ("train", "evaluation"):
        assert steps_in_log(killed, kind) == steps_in_log(whole, kind)
    text = (killed / "log.jsonl").read_text(encoding="utf-8")
    lines = [json.loads(line) for line in text.splitlines()]
    once = [(line["kind"], line["step"]) for line in lines if line["kind"] != "start"]
    assert len(once) == len(set(once))
    averaged = [lines_in_log(run, "result")[0]["averaged"] for run in (killed, whole)]
    assert averaged[0] == averaged[1]


def test_killed_at_random_operations_on_files_a_run_ends_the_same(
    small_training, uninterrupted, tmp_path
):
    drawn = random.Random(0)
    kills = [{"signals": 2}, *({"operation": drawn.randrange(600)} for _ in range(8))]

    killed, deaths = die_repeatedly(small_training, tmp_path, kills)

    assert deaths[0] == "saving"  # at the second signal
    assert deaths.count("the end") < 3
    assert {"saving", "rotating"} < set(deaths)
    assert_equal_runs(killed, uninterrupted)


@pytest.mark.parametrize("number", [signal.SIGTERM, signal.SIGINT])
def test_a_signal_saves_and_the_resumed_run_ends_the_same(
    number, small_training, uninterrupted, tmp_path, monkeypatch, caplog
):
    """Saved at steps 11 and 22, of which none may take part in the average."""
    caplog.set_level(logging.INFO)
    for step in (10, 21):
        with monkeypatch.context() as patch:
            signal_in(step, number, patch)
            assert train(small_training, tmp_path, resume=step > 10) == INTERRUPTED
        assert (tmp_path / "checkpoints" / f"step-{step + 1:08d}").exists()
        assert f"saved after step {step + 1}: --resume goes on" in caplog.messages

    assert train(small_training, tmp_path, resume=True) == 0
    assert_equal_runs(tmp_path, uninterrupted)


def truncate(path):
    os.truncate(path, path.stat().st_size // 2)


def flip_a_bit(path):
    content = bytearray(path.read_bytes())
    content[len(content) // 2] ^= 1 << 3
    path.write_bytes(content)


def empty(path):
    os.truncate(path, 0)


def remove(path):
    path.unlink()


def test_looking_telling_and_saving_at_other_steps_changes_nothing_learned(
    small_training, uninterrupted, tmp_path
):
    changes = ["evaluation.every_steps=5", "log.every_steps=7", "checkpoints.every_steps=4"]
    assert train(small_training, tmp_path, *changes, "batching.workers=1") == 0

    whole, other = (
        {name: one for name, one in weights_of(run).items() if name.startswith("checkpoints")}
        for run in (uninterrupted, tmp_path)
    )
    assert other == whole


@pytest.fixture(scope="module")
def interrupted(small_training, tmp_path_factory):
    """A run that was stopped at step 13: it has checkpoints of the steps 9, 12 and 13."""
    output = tmp_path_factory.mktemp("runs") / "interrupted"
    with pytest.MonkeyPatch.context() as patch:
        signal_in(12, signal.SIGTERM, patch)
        assert train(small_training, output) == INTERRUPTED
    return output


@pytest.mark.parametrize(
    ("damage", "name"),
    [
        (truncate, "training/optimizer.safetensors"),
        (flip_a_bit, "model.safetensors"),
        (remove, "training/progress.json"),
        (empty, "manifest.json"),
    ],
)
def test_a_damaged_last_checkpoint_gives_way_to_the_one_before(
    damage, name, small_training, uninterrupted, interrupted, tmp_path, caplog
):
    output = shutil.copytree(interrupted, tmp_path / "run")
    damage(output / "checkpoints" / "step-00000013" / name)

    with caplog.at_level(logging.INFO):
        assert train(small_training, output, resume=True) == 0

    assert f"step-00000013 is damaged: {name}" in caplog.text
    assert "going on after step 12" in caplog.text
    assert_equal_runs(output, uninterrupted)


AT_ONCE = {"starting": 0.3, "learning": 0.05, "saving": 0.1, "rotating": 0.02, "evaluating": 0.1}


def twenty_moments(seed):
    drawn = random.Random(seed)
    phases = [*AT_ONCE, "learning", "saving", "rotating"] * 2
    drawn.shuffle(phases)
    kills = [{"phase": one, "after": drawn.uniform(0, AT_ONCE[one])} for one in phases]
    return [*kills, *({"phase": "averaging", "after": drawn.uniform(0, 0.05)} for _ in range(4))]


@pytest.mark.slow
@pytest.mark.parametrize("workers", [0, 2])
@pytest.mark.parametrize("accumulation", [1, 2])
@pytest.mark.parametrize("processes", [1, 2])
def test_killed_at_20_random_moments_a_run_ends_the_same(
    processes, accumulation, workers, small_training, tmp_path
):
    """Without workers or with: the uninterrupted run has none."""
    changes = [
        "optimization.max_steps=48",
        "optimization.ema_decay=0.9",
        "optimization.bpe_dropout=0.1",
        f"batching.accumulation={accumulation}",
    ]
    whole, _ = die_repeatedly(small_training, tmp_path, [], *changes, processes=processes)
    whole = whole.rename(tmp_path / "whole")
    changes.append(f"batching.workers={workers}")
    way = (processes, accumulation, workers)
    kills = twenty_moments(str(way))

    killed, deaths = die_repeatedly(
        small_training, tmp_path, kills, *changes, processes=processes, syncs=True
    )

    logger.info("%d processes, %d pieces, %d workers: died in %s", *way, Counter(deaths))
    assert deaths.count("the end") < 4
    assert_equal_runs(killed, whole)
