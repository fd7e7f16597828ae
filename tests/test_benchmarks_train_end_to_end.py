"""The end-to-end benchmark: the same pairs for all, turns that stop the clock, honest tables."""

import gzip
import json
import sys
from dataclasses import replace

import pytest
import torch

from benchmarks import end_to_end_folder, loop_seq2seq_trainer, train_end_to_end
from benchmarks.contestants import SIZES, Size
from benchmarks.end_to_end_loops import LOOPS, OURS, REFERENCES, python_of
from benchmarks.end_to_end_report import Contest, Findings, bar_table, speed_table, write_report
from benchmarks.end_to_end_task import (
    LANGUAGES,
    MULTI30K,
    Prepared,
    read_pairs,
    request,
    task_for,
)
from benchmarks.loop_seq2seq_trainer import Collator, build_model
from benchmarks.turns import Step, Turn, Turns

MINIATURE = Size(d_model=16, ffn_dim=32, layers=2, heads=4, vocab_size=0)
WORDS = [
    "a",
    "man",
    "is",
    "on",
    "the",
    "red",
    "wall",
    "with",
    "dogs",
    "and",
    "in",
    "some",
    "street",
]
PREPARED = Prepared(300, 4, 30.0, 0.05)


@pytest.fixture(scope="module")
def data(tmp_path_factory):
    """Parallel text where Multi30k would lie: the target is the source backwards."""
    folder = tmp_path_factory.mktemp("data")
    for part, count in (("train", 300), ("val", 5)):
        lines = [
            " ".join(
                WORDS[(start * step + part.count("a")) % len(WORDS)]
                for step in range(1, 4 + start % 6)
            )
            for start in range(count)
        ]
        for language in LANGUAGES:
            path = folder / MULTI30K.format(part=part, language=language)
            path.parent.mkdir(parents=True, exist_ok=True)
            text = "\n".join(line if language == "en" else line[::-1] for line in lines)
            path.write_bytes(gzip.compress(f"{text}\n".encode()))
    return folder


@pytest.fixture(scope="module")
def folder(data, tmp_path_factory):
    """What all loops read."""
    folder = tmp_path_factory.mktemp("folder")
    prepared = end_to_end_folder.prepare(data, folder, 300)
    (folder / "prepared.json").write_text(json.dumps(vars(prepared)))
    return folder


def made_up_contest(**seconds) -> Contest:
    names = {"ours": OURS, "eager": "Trainer, eager", "plain": "Trainer, unsmoothed"}
    turns = {
        names[name]: [
            Turn(2, 1000, 9.0 - index, each, 0.01 * each) for index, each in enumerate(all_)
        ]
        for name, all_ in seconds.items()
    }
    return Contest("tiny", "fp32", turns, flops=1e6, peak=1e9)


def cells(table: str) -> list[list[str]]:
    return [[cell.strip() for cell in line.strip("|").split("|")] for line in table.splitlines()]


def test_every_form_holds_the_same_pairs(folder):
    sources, targets = read_pairs(folder)
    words = (folder / "words.target").read_text().splitlines()
    vocabulary = set((folder / "words.vocabulary").read_text().split())
    recipe = end_to_end_folder.recipe_for(folder, task_for(PREPARED, MINIATURE), "fp32")

    assert len(sources) == len(targets) == len(words)
    assert [len(target) for target in targets] == [len(line.split()) + 1 for line in words]
    assert {word for line in words for word in line.split()} <= vocabulary
    assert recipe.model["d_model"] == MINIATURE.d_model


def test_what_is_prepared_is_what_batches_hold(folder):
    prepared = Prepared(**json.loads((folder / "prepared.json").read_text()))
    _, targets = read_pairs(folder)

    assert prepared.vocab_size % 8 == 0
    assert prepared.sentences_per_batch == pytest.approx(
        len(targets) * prepared.target_tokens_per_batch / sum(map(len, targets)), abs=0.5
    )


def test_a_turn_ends_with_its_tokens_and_waiting_costs_nothing(monkeypatch, tmp_path):
    times = iter([0.0, 3.0, 100.0, 101.0])
    requests = iter(
        ['{"target_tokens": 50}\n', '{"target_tokens": 10}\n', '{"target_tokens": 9}\n']
    )
    answers = (tmp_path / "answers").open("w")
    monkeypatch.setattr("benchmarks.turns.answering", lambda: answers)
    monkeypatch.setattr(sys.stdin, "readline", lambda: next(requests), raising=False)
    turns = Turns(clock=lambda: next(times))

    turns.done(Step(30, loss=5.0))
    turns.done(Step(30, loss=4.0, input_seconds=0.5))

    ready, first = map(json.loads, (tmp_path / "answers").read_text().splitlines())
    assert ready == "ready"
    assert Turn(**first) == Turn(2, 60, 4.5, 3.0, 0.5)


@pytest.mark.parametrize("settings", LOOPS["Trainer, eager"].settings.values())
def test_the_trainer_sees_what_ours_sees(settings):
    model = build_model(task_for(PREPARED, MINIATURE), settings)
    collator = Collator()
    batch = collator(
        [{"input_ids": [5, 6, 2], "labels": [7, 2]}, {"input_ids": [9, 2], "labels": [2]}]
    )

    assert list(collator.target_tokens) == [3]
    assert batch["decoder_input_ids"].tolist() == [[1, 7], [1, 2]]
    assert model.dtype == getattr(torch, settings["weights"])
    assert model.model.encoder.dropout == pytest.approx(0.3)


def test_ratios_are_of_medians_and_bars_of_the_fastest_that_does_the_same():
    contest = made_up_contest(ours=(1.0, 1.0, 4.0), eager=(3.0, 2.0, 9.0), plain=(2.0, 2.0, 2.0))

    assert contest.ratio("Trainer, eager") == pytest.approx(3.0)
    assert contest.references() == ["Trainer, eager"]
    assert contest.input_share() == pytest.approx(0.01)
    assert contest.peak_share(OURS) == pytest.approx(1.0)
    assert cells(bar_table([contest]))[-1][3:] == ["3.00", "2.2: met", "1.0%", "below 3%: met"]


def test_a_missed_bar_is_called_missed():
    contest = made_up_contest(ours=(1.0,), eager=(2.0,))
    slow_input = replace(contest, turns={**contest.turns, OURS: [Turn(1, 1000, 9.0, 1.0, 0.04)]})

    assert cells(bar_table([slow_input]))[-1][4:] == ["2.2: missed", "4.0%", "below 3%: missed"]


def test_every_table_row_has_a_cell_for_every_column():
    contest = made_up_contest(ours=(1.0,), eager=(2.0,))
    for table in (bar_table([contest]), speed_table([contest])):
        assert len({len(row) for row in cells(table)}) == 1


def test_a_loop_without_its_library_is_named_with_the_way_out():
    findings = Findings(
        "m", "c", PREPARED, 10, 5, {"fp32": 1e9}, [made_up_contest(ours=(1.0,))], ["JoeyNMT"]
    )

    assert python_of(LOOPS["JoeyNMT"], {"joeynmt": "/there/python"}) == "/there/python"
    assert python_of(replace(LOOPS["JoeyNMT"], library="no_such_library"), {}) is None
    assert "JoeyNMT: not installed" in write_report(findings)
    assert "--joeynmt-python PATH" in write_report(findings)


def test_arithmetic_is_that_of_all_pairs(folder, monkeypatch):
    monkeypatch.setitem(SIZES, "tiny", MINIATURE)
    few, many = (train_end_to_end.flops_a_target_token(folder, "tiny", size) for size in (100, 300))

    assert many - few == pytest.approx(6 * 200 * MINIATURE.d_model)


@pytest.mark.parametrize(
    "arguments", [["--rounds", "0"], ["--sizes", "huge"], ["--data", "nowhere"]]
)
def test_impossible_options_are_refused(arguments, capsys, data):
    with pytest.raises(SystemExit) as refusal:
        train_end_to_end.parse_options(["--data", str(data), *arguments])
    assert refusal.value.code == 2
    assert arguments[0] in capsys.readouterr().err


def test_references_are_loops_and_all_scripts_exist():
    scripts = {loop.script for loop in LOOPS.values()}

    assert {name for group in REFERENCES for name in group} <= set(LOOPS)
    assert all((train_end_to_end.FOLDER / script).is_file() for script in scripts)


class Listener:
    """In place of `Turns`: hears some steps, and then stops the loop."""

    def __init__(self):
        self.steps = []

    def done(self, step):
        self.steps.append(step)
        if len(self.steps) == 4:
            raise StopIteration


@pytest.mark.parametrize("name", ["Trainer, eager", "Trainer, unsmoothed"])
@pytest.mark.parametrize("precision", ["fp32", "bf16"])
def test_the_trainer_tells_of_each_real_word(name, precision, folder, monkeypatch):
    told, settings = Listener(), LOOPS[name].settings[precision]
    task = replace(task_for(PREPARED, MINIATURE), vocab_size=400)
    sources, targets = read_pairs(folder)
    task = replace(task, sentences_per_batch=-(-len(sources) // 4))  # four batches an epoch
    monkeypatch.setattr(loop_seq2seq_trainer, "Turns", lambda: told)
    monkeypatch.setattr(sys, "argv", ["loop", *request(folder, task, settings)])

    with pytest.raises(StopIteration):
        loop_seq2seq_trainer.main()

    assert sum(step.target_tokens for step in told.steps) == sum(map(len, targets))
    assert all(4 < step.loss < 8 for step in told.steps)


def test_one_command_trains_ours_and_writes_the_tables(data, tmp_path, monkeypatch, capsys):
    monkeypatch.setitem(SIZES, "tiny", MINIATURE)
    monkeypatch.setattr(train_end_to_end, "run_alone", lambda *args: {"fp32": 1e9})
    arguments = ["--quick", "--data", str(data), "--output", str(tmp_path), "--precisions", "fp32"]
    arguments += ["--loops", OURS, "--vocabulary", "300"]
    train_end_to_end.main([*arguments, "--tokens", "500", "--warm-up", "1"])

    printed = capsys.readouterr().out
    (row,) = [row for row in cells(printed) if row[0] == "tiny"]
    assert printed.strip() in (tmp_path / "RESULTS.md").read_text()
    assert row[2] == OURS
    assert 4 < float(row[-1]) < 8
    assert str(tmp_path) not in printed
