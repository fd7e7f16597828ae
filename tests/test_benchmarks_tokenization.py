"""The tokenizer benchmark: everyone learns the same text, and no figure is made up."""

import gzip
import json
import random
import sys
from dataclasses import replace
from pathlib import Path

import pytest

from benchmarks import tokenization, tokenization_splits, tokenization_training
from benchmarks.tokenization_contestants import CONTESTANTS, OURS, REFERENCE
from benchmarks.tokenization_report import Bar
from benchmarks.tokenization_splits import Speeds, time_work
from benchmarks.tokenization_text import CORPORA, prepare_texts
from benchmarks.tokenization_training import LEARNERS, run_learner, run_learner_alone

SYLLABLES = {"en": ["the", "ho", "wat", "er", "sn", "ow"], "de": ["sch", "läu", "ft", "ei", "über"]}


def sentence(drawn, language):
    """Six words of up to three syllables: enough pairs of letters for everyone's vocabulary."""
    words = ["".join(drawn.choices(SYLLABLES[language], k=drawn.randint(1, 3))) for _ in range(6)]
    return " ".join(words) + "."


@pytest.fixture
def data(tmp_path):
    drawn = random.Random(0)
    for name in CORPORA:
        (tmp_path / name).mkdir()
        for split, count in (("train", 80), ("validation", 7)):
            with gzip.open(tmp_path / name / f"{split}.jsonl.gz", "wt", encoding="utf-8") as lines:
                for _ in range(count):
                    pair = {language: sentence(drawn, language) for language in SYLLABLES}
                    lines.write(json.dumps(pair, ensure_ascii=False) + "\n")
    return tmp_path


@pytest.fixture
def one_process(monkeypatch):
    """Nothing is started, and the number of threads is forgotten afterwards."""
    for module in (tokenization, tokenization_training):
        monkeypatch.setattr(module, "run_alone", lambda function, *args: function(*args))
    monkeypatch.setattr(tokenization, "cores", lambda: 1)
    monkeypatch.setenv("RAYON_NUM_THREADS", "1")


def arguments(data):
    rounds = ["--learn-rounds", "1", "--split-rounds", "1", "--seconds", "0.01"]
    return [*rounds, "--vocabulary-size", "272", "--data", str(data), "--output", str(data)]


def rows(report, first):
    """The cells of the table whose header begins with this word."""
    lines = report[report.index(f"| {first} |") :].split("\n\n")[0].splitlines()[2:]
    return [[cell.strip() for cell in line.strip("|").split("|")] for line in lines]


def test_one_command_writes_all_tables_once(data, one_process, monkeypatch, capsys):
    monkeypatch.setattr(tokenization_splits, "SENTENCES_PER_BATCH", 10)
    for _ in range(2):
        tokenization.main(arguments(data))
    results = (data / "RESULTS.md").read_text()
    report = capsys.readouterr().out.strip().split("## Tokenization")[-1].strip()
    assert report in results
    assert results.count("## Tokenization") == 1
    assert str(data) not in results
    for work in ("encode", "decode"):
        speeds = {row[2]: row[3:] for row in rows(report, "work") if row[0] == work}
        assert set(speeds) == set(CONTESTANTS)
        numbers = {name: float(cells[0].replace(",", "")) for name, cells in speeds.items()}
        for name, cells in speeds.items():
            expected = numbers[name] / numbers[REFERENCE]
            assert float(cells[1]) == pytest.approx(expected, abs=0.01, rel=0.01)
    assert [row[0] for row in rows(report, "tokenizer")] == list(LEARNERS)
    assert len(rows(report, "corpus")) == 5
    assert f"| {OURS} | 100.00% | 12 of 12 |" in report


def test_training_files_hold_the_text_of_the_corpora(data):
    texts = prepare_texts(data, data / "text", pairs=3)
    assert texts.num_pairs == 6
    with gzip.open(data / "europarl/train.jsonl.gz", "rt", encoding="utf-8") as lines:
        wanted = [json.loads(next(lines))["de"] for _ in range(3)]
    german = next(place for place in texts.aligned if place.endswith("europarl.de"))
    assert Path(german).read_text(encoding="utf-8").splitlines() == wanted


def test_another_version_of_sentencepiece_is_the_one_that_learns(tmp_path):
    package, folder = tmp_path / "sentencepiece", tmp_path / "sentencepiece-0.0.1.dist-info"
    package.mkdir()
    folder.mkdir()
    (folder / "METADATA").write_text("Metadata-Version: 2.1\nName: sentencepiece\nVersion: 0.0.1\n")
    (package / "__init__.py").write_text(
        "class SentencePieceTrainer:\n"
        "    def train(model_prefix, **options):\n"
        "        open(model_prefix + '.model', 'w').close()\n"
    )
    learner = replace(LEARNERS["sentencepiece"], package=tmp_path)
    run = run_learner_alone(learner, ["unread"], tmp_path, 272)
    assert run.version == "sentencepiece 0.0.1"
    assert (tmp_path / tokenization_training.SENTENCEPIECE_MODEL).stat().st_size == 0
    assert str(tmp_path) not in sys.path


def test_another_version_is_never_taken_for_one_that_did_not_learn(tmp_path):
    learner = replace(LEARNERS["sentencepiece"], package=tmp_path)
    with pytest.raises(RuntimeError, match="must come from"):
        run_learner(learner, ["unread"], tmp_path, 272)


def test_a_ratio_is_the_quotient_of_the_median_speeds():
    speeds = Speeds("encode", 1, [{OURS: ours, REFERENCE: 2.0} for ours in (4.0, 6.0, 100.0)])
    assert speeds.ratio(OURS) == speeds.of(OURS) / speeds.of(REFERENCE) == 3.0


def test_work_is_repeated_until_its_time_is_up():
    times = iter(range(0, 100, 2))
    batches = [["a", "b"], ["c"]]
    assert time_work(len, batches, 5.0, lambda: next(times)) == 3 * 3 / 6.0


@pytest.mark.parametrize(
    ("found", "is_least", "verdict"),
    [
        (5.0, True, "met"),
        (2.5, True, "missed by a factor of 2.00"),
        (5.0, False, "met"),
        (10.0, False, "missed by a factor of 2.00"),
    ],
)
def test_a_bar_is_met_or_missed_by_a_factor(found, is_least, verdict):
    assert Bar("speed", 5.0, found, is_least).verdict == verdict


@pytest.mark.parametrize(
    "change",
    [["--vocabulary-size", "300"], ["--learn-rounds", "0"], ["--other-sentencepiece", "nowhere"]],
)
def test_impossible_options_are_refused(data, change, capsys):
    with pytest.raises(SystemExit) as refusal:
        tokenization.parse_options(arguments(data) + change)
    assert refusal.value.code == 2
    assert change[0] in capsys.readouterr().err


def test_missing_text_is_refused(tmp_path, capsys):
    with pytest.raises(SystemExit):
        tokenization.parse_options(["--data", str(tmp_path)])
    assert "tatoeba" in capsys.readouterr().err


def test_quick_writes_nothing(data):
    options = tokenization.parse_options(["--quick", "--data", str(data)])
    assert (options.output, options.learn_rounds) == (None, 1)
