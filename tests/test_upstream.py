"""The verdict of `make test-upstream` can go both ways; the run itself is that command."""

import pytest
from upstream.outcomes import Outcomes
from upstream.run import is_accepted

PASSED, SKIPPED, FAILED, ERROR = (
    (outcome, "why") for outcome in ("passed", "skipped", "failed", "error")
)


def test_passing_what_the_library_skips_is_accepted():
    ours = {"test_a": PASSED, "test_b": PASSED}

    assert is_accepted(ours, {"test_a": PASSED, "test_b": SKIPPED})


@pytest.mark.parametrize(
    "ours",
    [
        {"test_a": FAILED, "test_b": SKIPPED},
        {"test_a": ERROR, "test_b": SKIPPED},
        {"test_a": SKIPPED, "test_b": SKIPPED},
        {"test_a": PASSED},
        {},
    ],
    ids=["a failure", "an error", "one skip more", "a missing test", "nothing"],
)
def test_anything_less_than_the_library_is_refused(ours):
    assert not is_accepted(ours, {"test_a": PASSED, "test_b": SKIPPED})


def test_one_bad_subtest_decides_the_whole_test(tmp_path):
    outcomes = Outcomes(tmp_path / "outcomes.json")

    outcomes.note("file.py::Suite::test_a", "passed", "")
    outcomes.note("file.py::Suite::test_a", "skipped", "no kernel")
    outcomes.note("file.py::Suite::test_a", "passed", "")

    assert outcomes.by_test == {"test_a": ("skipped", "no kernel")}
