"""The quality table: every finished run is told once, and seeds of the same settings together."""

import json
import re
import shutil

import pytest
from small_training import train

from benchmarks.quality import RECORDS, facts_of, main
from benchmarks.quality_report import BARS, RunFacts, write_report
from training.run_record import read_run

BLEU = {1: 40.5, 2: 41.75}


def facts(seed, bleu, **changes):
    scores = {name: {"bleu": bleu, "chrf": 60.0, "exact": 1.0} for name in BARS["multi30k-tiny"]}
    run = {"recipe": "multi30k-tiny", "changes": [], "seed": seed, "time": 0.0, "steps": 9}
    run |= {"seconds": 120.0, "scores": scores, "parameters": 7, "processes": 1}
    return RunFacts(**run | {"machine": "here", "versions": {"torch": "2"}} | changes)


def rows(report, name):
    return [
        re.split(r" *\| *", line)[1:-1] for line in report.splitlines() if f"| {name} |" in line
    ]


def test_seeds_of_the_same_settings_share_a_row():
    runs = [facts(seed, bleu) for seed, bleu in BLEU.items()]
    other = facts(1, 50.0, changes=["model.dropout=0.2"])

    alone, changed = rows(write_report([*runs, other], ""), "flickr2016")

    assert alone[2] == "40.50 / 41.75"
    assert float(alone[3]) == pytest.approx(sum(BLEU.values()) / 2, abs=0.01)
    assert alone[4] == "41.0: met"
    assert changed[0] == "multi30k-tiny --set model.dropout=0.2"
    assert changed[4] == ""  # what other settings reach is no answer to the recipe's bar


def test_a_mean_below_its_bar_is_missed():
    report = write_report([facts(1, 30.0)], "")

    (high,), (low,) = (rows(report, name) for name in ("flickr2016", "mscoco2017"))
    assert high[4] == "41.0: missed"
    assert low[4] == "29.0: met"


@pytest.fixture
def finished(small_training, tmp_path):
    folder = tmp_path / "numbers"
    assert train(small_training, folder, "optimization.max_steps=2") == 0
    return folder


def test_a_run_is_told_from_its_folder_and_replaces_itself(finished, tmp_path, capsys):
    give_command(finished, "training/train.py --config recipes/small.yaml --set seed=1")
    for _ in range(2):
        main([str(finished), "--output", str(tmp_path)])
    main(["--output", str(tmp_path)])

    (line,) = (tmp_path / RECORDS).read_text().splitlines()
    results = json.loads((finished / "results.json").read_text())
    assert json.loads(line)["scores"] == results
    assert f"{results['validation']['bleu']:.2f}" in (tmp_path / "RESULTS.md").read_text()
    assert capsys.readouterr().out.count("## Quality") == 3


def give_command(folder, command):
    log = folder / "log.jsonl"
    lines = [json.loads(line) for line in log.read_text().splitlines()]
    told = [line | {"command": command} if line["kind"] == "start" else line for line in lines]
    log.write_text("".join(json.dumps(line) + "\n" for line in told))


def test_a_run_that_is_not_finished_is_refused(finished, tmp_path):
    cut = tmp_path / "cut"
    shutil.copytree(finished, cut)
    lines = (cut / "log.jsonl").read_text().splitlines(keepends=True)
    (cut / "log.jsonl").write_text("".join(line for line in lines if '"result"' not in line))

    with pytest.raises(ValueError, match=r"must be finished, got cut, which is at step \d+"):
        facts_of(read_run(cut))
