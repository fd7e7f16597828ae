"""What a run tells is what happened, once."""

from types import SimpleNamespace

import pytest
from small_training import train
from tensorboard.backend.event_processing.event_accumulator import EventAccumulator

from training.batching import Place
from training.evaluation import Score
from training.learner import Outcome
from training.progress import Progress
from training.recipe import Recipe, read_as
from training.reporter import PROJECT, Reporter, settings_of
from vanilla_transformer.run_facts import read_log

RECIPE = {
    "corpus": {"train": [{"places": ["a"]}], "validation": ["b"]},
    "log": {"every_steps": 2},
    "optimization": {"max_steps": 6},
}


def make_reporter(folder, is_main=True):
    accelerator = SimpleNamespace(is_main_process=is_main, num_processes=1)
    return Reporter(folder, read_as(Recipe, RECIPE), accelerator)


def take_steps(reporter, losses, first=1):
    reporter.start(Progress(step=first - 1))
    for step, loss in enumerate(losses, start=first):
        is_finite = loss == loss
        outcome = Outcome(loss, 0.5, 0.01 * step, is_finite, must_stop=False)
        reporter.step(Progress(step=step, place=Place(1, step)), outcome, tokens=10, seconds=0.5)
    reporter.close()


def lines(folder, kind):
    return [line for line in read_log(folder / "log.jsonl") if line["kind"] == kind]


def test_a_line_holds_the_mean_of_its_steps(tmp_path):
    take_steps(make_reporter(tmp_path), [4.0, 2.0, 3.0, 1.0])

    found = lines(tmp_path, "train")

    assert [line["step"] for line in found] == [2, 4]
    assert [line["loss"] for line in found] == [3.0, 2.0]
    assert [line["tokens_per_second"] for line in found] == [20.0, 20.0]
    assert found[1]["learning_rate"] == pytest.approx(0.04)
    assert found[1]["epoch"] == 1


def test_steps_that_were_skipped_are_not_in_the_mean(tmp_path):
    take_steps(make_reporter(tmp_path), [float("nan"), 2.0])

    assert lines(tmp_path, "train")[0]["loss"] == 2.0


def test_a_resumed_run_tells_its_steps_once(tmp_path):
    take_steps(make_reporter(tmp_path), [1.0] * 6)
    take_steps(make_reporter(tmp_path), [2.0] * 4, first=3)

    assert [(line["step"], line["loss"]) for line in lines(tmp_path, "train")] == [
        (2, 1.0),
        (4, 2.0),
        (6, 2.0),
    ]


def test_a_warm_up_longer_than_the_run_is_told(tmp_path, caplog):
    make_reporter(tmp_path).start(Progress())

    assert "warmup_steps (4,000) should be below max_steps (6)" in caplog.text


def test_other_processes_keep_silent(tmp_path):
    reporter = make_reporter(tmp_path, is_main=False)
    take_steps(reporter, [1.0, 2.0])
    score = Score(1.0, 2.0, 3.0, 0.0, "", "", [])
    reporter.evaluation(Progress(step=2), score)
    reporter.skipped(Progress(step=2), Outcome(1.0, 1.0, 1.0, False, False), [1])
    reporter.result(Progress(step=2), averaged=[2], scores={})

    assert list(tmp_path.iterdir()) == []


def test_tensorboard_holds_the_figures_of_the_log(small_training, tmp_path):
    changes = ["log.trackers=[tensorboard]", "optimization.max_steps=4", "evaluation.every_steps=4"]

    assert train(small_training, tmp_path, *changes) == 0

    events = EventAccumulator(str(tmp_path / PROJECT)).Reload()
    for kind, steps in (("train", [2, 4]), ("evaluation", [4])):
        logged = lines(tmp_path, kind)
        assert [line["step"] for line in logged] == steps
        for name in ("loss", "seconds" if kind == "train" else "bleu"):
            told = events.Scalars(f"{kind}/{name}")
            assert [one.step for one in told] == steps
            assert [one.value for one in told] == pytest.approx([line[name] for line in logged])


def test_settings_are_flat_for_trackers():
    settings = settings_of(read_as(Recipe, RECIPE))

    assert settings["log.every_steps"] == 2
    assert settings["corpus.validation"] == "('b',)"
    assert all(isinstance(one, int | float | str) for one in settings.values())
