"""A log is read while it is written, and survives who writes it."""

import json
import math

import pytest

from training.run_log import RunLog
from vanilla_transformer.run_facts import read_log


@pytest.fixture
def log(tmp_path):
    return RunLog(tmp_path / "log.jsonl")


def steps(log, kind="train"):
    return [line["step"] for line in read_log(log.path) if line["kind"] == kind]


def test_what_is_written_is_read(log):
    values = {"loss": 2.5, "text": 'ein "Satz"\nmit \u2028 und ☃', "many": [1, {"a": None}]}
    log.append("train", 50, **values)
    assert read_log(log.path) == [{"kind": "train", "step": 50, **values}]


def test_a_log_that_is_not_there_has_no_lines(log):
    assert read_log(log.path) == []
    log.forget_after(0)
    assert not log.path.exists()


def test_a_line_is_there_as_soon_as_it_is_appended(log):
    for step in range(5):
        log.append("train", step)
        assert steps(log) == list(range(step + 1))


def test_numbers_that_are_not_finite_are_json_all_the_same(log):
    log.append("skipped", 7, loss=math.nan, norms=[math.inf, -math.inf], scores={"x": math.nan})

    def refuse(constant):
        raise AssertionError(constant)

    line = json.loads(log.path.read_text(encoding="utf-8"), parse_constant=refuse)
    assert (line["loss"], line["norms"]) == ("nan", ["inf", "-inf"])
    assert math.isnan(float(line["scores"]["x"]))


def test_half_of_a_character_pair_is_no_reason_to_stop(log):
    log.append("train", 1, text="\udc80")
    assert read_log(log.path)[0]["text"] == "\udc80"


def test_wherever_a_run_was_killed_its_whole_lines_are_read(log):
    log.append("train", 1, loss=3.0)
    log.append("train", 2, text="größer")
    whole = log.path.read_bytes()
    first = whole.index(b"\n") + 1
    for end in range(len(whole) + 1):
        log.path.write_bytes(whole[:end])
        assert steps(log) == [1] * (end >= first) + [2] * (end == len(whole))


def test_a_line_after_half_a_line_is_whole(log):
    log.append("train", 1)
    log.append("train", 2)
    log.path.write_bytes(log.path.read_bytes()[:-5])
    log.append("train", 3)
    assert steps(log) == [1, 3]


@pytest.mark.parametrize(
    "damage", [b"\0\0\0\n", b"\xff\n", b"[]\n", b"{}\n", b'{"kind": "train"}\n']
)
def test_what_is_no_line_of_a_log_is_passed_over(log, damage):
    log.append("train", 1)
    log.path.write_bytes(damage + log.path.read_bytes() + damage)
    log.append("train", 2)
    assert steps(log) == [1, 2]


def test_later_steps_are_forgotten_and_earlier_ones_stay_to_the_byte(log):
    for step in range(1, 4):
        log.append("train", step, loss=1 / step)
        log.append("evaluation", step, text="ß")
    whole = log.path.read_bytes()
    log.forget_after(2)
    assert log.path.read_bytes() == b"".join(whole.splitlines(keepends=True)[:4])
    assert [file.name for file in log.path.parent.iterdir()] == ["log.jsonl"]
    log.append("train", 3)
    assert steps(log) == [1, 2, 3]


def test_of_a_step_that_was_taken_twice_the_last_line_counts(log):
    for loss in (3.0, 2.0):
        log.append("train", 50, loss=loss)
        log.append("evaluation", 50, loss=loss)
    assert [line["loss"] for line in read_log(log.path)] == [2.0, 2.0]
