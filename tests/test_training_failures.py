"""What goes wrong is told in one line, with a way out, and leaves earlier checkpoints whole."""

import os

import pytest
from small_training import train


@pytest.fixture(autouse=True)
def no_waiting_for_the_disk(monkeypatch):
    monkeypatch.setattr(os, "fsync", lambda descriptor: None)


@pytest.fixture
def refused(small_training, tmp_path, capsys):
    """Train with changes, which is refused; gives what was told."""

    def run(*changes, **options):
        assert train(small_training, tmp_path / "run", *changes, **options) == 1
        lines = [line for line in capsys.readouterr().err.splitlines() if "Error" in line]
        assert len(lines) == 1
        return lines[0]

    return run


def test_greedy_evaluation_is_no_failure(small_training, tmp_path):
    assert (
        train(small_training, tmp_path, "evaluation.num_beams=1", "optimization.max_steps=3") == 0
    )
