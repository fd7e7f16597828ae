"""How a run begins and ends: whose folder it takes, when it heeds a signal, what it leaves."""

import signal

import pytest
import torch
from safetensors.torch import load_file
from small_training import lines_in_log, train, weights_at

from training.evaluation import Score
from training.train import Run

SHORT = ("optimization.max_steps=4", "evaluation.every_steps=4")


def test_without_anything_to_save_a_signal_does_what_it_always_did(
    small_training, tmp_path, monkeypatch
):
    """Else a scheduler would wait for a run that tokenizes, or translates its tests."""
    handlers = {}
    for name in ("_prepare_corpus", "_step", "finish"):
        monkeypatch.setattr(Run, name, noting_the_handler(getattr(Run, name), name, handlers))
    ours = signal.getsignal(signal.SIGTERM)

    assert train(small_training, tmp_path, *SHORT) == 0
    assert handlers["_prepare_corpus"] == handlers["finish"] == ours != handlers["_step"]


def noting_the_handler(function, name, handlers):
    def noting(*given):
        handlers[name] = signal.getsignal(signal.SIGTERM)
        return function(*given)

    return noting


def test_what_a_lack_of_patience_leaves_is_the_best(small_training, tmp_path, monkeypatch):
    qualities = iter([1, 1, 3, 3, 2, 2, 1, 1])  # each is asked for twice
    monkeypatch.setattr(Score, "quality", lambda score, by: next(qualities))

    changes = ["evaluation.every_steps=2", "evaluation.patience=2", "checkpoints.every_steps=2"]
    assert train(small_training, tmp_path, *changes) == 0

    assert lines_in_log(tmp_path, "result")[-1]["averaged"] == [4]
    left = load_file(tmp_path / "model" / "model.safetensors")
    torch.testing.assert_close(left, weights_at(tmp_path, 4), rtol=0, atol=0)


@pytest.mark.parametrize("resume", [False, True])
@pytest.mark.parametrize("name", ["model", "results.json"])
def test_results_without_checkpoints_are_never_replaced(
    name, resume, small_training, tmp_path, capsys
):
    (tmp_path / name).mkdir()

    assert train(small_training, tmp_path, *SHORT, resume=resume) == 1
    assert f"with {name} and no checkpoints: name another --output" in capsys.readouterr().err
    assert not (tmp_path / "checkpoints").exists()


def test_one_beam_is_enough(small_training, tmp_path):
    assert train(small_training, tmp_path, *SHORT, "evaluation.num_beams=1") == 0
