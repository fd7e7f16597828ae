"""How a run begins and ends: whose folder it takes, when it heeds a signal, what it leaves."""

import signal

import pytest
import torch
from safetensors.torch import load_file
from small_training import lines_in_log, small_recipe, train, weights_at

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


def test_a_refused_corpus_leaves_its_report(small_training, tmp_path, capsys):
    rows = (small_training / "train.tsv").read_text() + "one\t\ntwo\t\n"
    (tmp_path / "train.tsv").write_text(rows)
    changes = {"train": [str(tmp_path / "train.tsv")], "checks": {"empty": "refuse"}}
    recipe = small_recipe(small_training, tmp_path, **changes)

    assert train(recipe, tmp_path / "run") == 1

    assert "corpus.checks.empty to 'drop'" in capsys.readouterr().err
    report = (tmp_path / "run" / "corpus.txt").read_text()
    assert "2 rows refused: an empty side" in report
    assert report.count("row 251 of") == report.count("row 252 of") == 1


def test_a_missing_test_set_is_found_before_anything_is_learned(small_training, tmp_path, capsys):
    tests = {"late": [str(tmp_path / "absent.en"), str(tmp_path / "absent.de")]}
    recipe = small_recipe(small_training, tmp_path, tokenizer=None, tests=tests)

    assert train(recipe, tmp_path / "run") == 1

    assert "absent.en" in capsys.readouterr().err
    assert not (tmp_path / "run").exists()


def test_one_beam_is_enough(small_training, tmp_path):
    assert train(small_training, tmp_path, *SHORT, "evaluation.num_beams=1") == 0
