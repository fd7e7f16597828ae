"""What a run knows of itself outlives it."""

import pytest

from training.batching import Place
from training.progress import Progress


def test_progress_is_read_as_it_was_written(tmp_path):
    progress = Progress(step=7, place=Place(1, 3), target_tokens=99, seconds=0.1 + 0.2, best=-1.5)
    progress.write(tmp_path / "progress.json")

    assert Progress.read(tmp_path / "progress.json") == progress


def test_patience_is_counted_from_the_best():
    progress = Progress()
    for quality in (1.0, 3.0, 3.0, 2.0):
        progress.note_quality(quality)

    assert (progress.best, progress.evaluations_since_best) == (3.0, 2)
    progress.note_quality(4.0)
    assert progress.evaluations_since_best == 0


@pytest.mark.parametrize("worse", [float("nan"), float("-inf")])
def test_an_evaluation_that_is_no_number_is_not_the_best(worse):
    progress = Progress()
    for quality in (worse, 1.0, worse):
        progress.note_quality(quality)

    assert progress.best == 1.0
    assert progress.evaluations_since_best == 1


def test_skipped_steps_are_counted_in_all_and_in_a_row():
    progress = Progress()
    for is_finite in (False, False, True, False):
        progress.note_finite(is_finite)

    assert (progress.skipped_steps, progress.skipped_in_a_row) == (3, 1)
