"""Whatever looks wrong in a corpus is counted, shown with its row, and kept, dropped or refused."""

import random

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from training import corpus_checks
from training.corpus import prepare_training
from training.corpus_checks import RefusedCorpusError, SeenKeys
from training.corpus_report import CorpusReport
from training.recipe import CorpusChecks, CorpusSection, TrainingCorpus

GOOD = [("Two dogs play.", "Zwei Hunde spielen."), ("A cat sleeps.", "Eine Katze schläft.")]
VALIDATION = [("Where is the station?", "Wo ist der Bahnhof?")]
TEST = [("It is late.", "Es ist spät.")]
FAULTS = {  # a row of a file for each check
    "invalid_utf8": b"caf\xe9\tKaffee\n",
    "unreadable": b"no tab\n",
    "empty": b"Nothing.\t \n",
    "untranslated": b"Berlin\tBerlin\n",
    "overlap": b"it  IS late.\tGanz anders.\n",
    "duplicates": b"two dogs  play.\tZwei HUNDE spielen.\n",
    "over_long": b"x x x x x x x x x x x x x x x x x x x x\ty\n",
    "length_ratio": b"x x x x x x x x x x x x\ty\n",
}
KEPT_IF_ASKED = ["untranslated", "overlap", "duplicates", "length_ratio"]


def write(path, pairs, *more):
    lines = ["\t".join(pair).encode() + b"\n" for pair in pairs]
    path.write_bytes(b"".join([*lines, *more]))
    return (str(path),)


@pytest.fixture
def prepare(tiny_tokenizer, tmp_path):
    """Prepares the good pairs and then some more rows under some policies."""

    def prepare(*rows, good=GOOD, **policies):
        section = CorpusSection(
            train=(TrainingCorpus(write(tmp_path / "train.tsv", good, *rows)),),
            validation=write(tmp_path / "validation.tsv", VALIDATION),
            tests={"late": write(tmp_path / "test.tsv", TEST)},
            max_length=30,
            max_length_ratio=4.0,
            checks=CorpusChecks(**policies),
        )
        return prepare_training(section, tiny_tokenizer, tmp_path / "run")

    return prepare


@pytest.mark.parametrize("check", FAULTS)
def test_what_is_dropped_is_counted_and_shown(check, prepare):
    found = prepare(FAULTS[check], **{check: "drop"})

    (finding,) = found.report.findings
    assert len(found) == len(GOOD)
    assert (finding.check, finding.policy, finding.count) == (check, "drop", 1)
    assert finding.examples[0].startswith("row 3 of ")
    assert f"1 row dropped: {finding.fault} (corpus.checks.{check})" in found.report.summary()
    assert finding.examples[0] in found.report.to_text()


@pytest.mark.parametrize("check", KEPT_IF_ASKED)
def test_what_is_kept_is_counted_all_the_same(check, prepare):
    found = prepare(FAULTS[check], **{check: "keep"})

    assert len(found) == len(GOOD) + 1
    assert [(one.check, one.count) for one in found.report.findings] == [(check, 1)]


@pytest.mark.parametrize("check", [name for name in FAULTS if name != "invalid_utf8"])
def test_a_refusal_names_the_row_and_the_way_out(check, prepare, tmp_path):
    with pytest.raises(ValueError, match=f"corpus.checks.{check} is 'refuse'") as refusal:
        prepare(FAULTS[check], **{check: "refuse"})

    message = str(refusal.value)
    assert f"row 3 of {tmp_path.name}/train.tsv" in message
    assert message.endswith(f"set corpus.checks.{check} to 'drop'.")


def test_a_refusal_comes_after_the_last_row_and_reports_them_all(prepare):
    rows = [FAULTS["empty"], FAULTS["unreadable"], FAULTS["empty"]]

    with pytest.raises(RefusedCorpusError, match="got 2 rows refused: an empty side") as refusal:
        prepare(*rows, empty="refuse")

    found = [(one.check, one.policy, one.count) for one in refusal.value.report.findings]
    assert found == [("empty", "refuse", 2), ("unreadable", "drop", 1)]


def test_bytes_that_are_no_utf8_are_refused_with_their_place(prepare):
    with pytest.raises(
        ValueError, match=r"train\.tsv must be UTF-8, got b'\\xe9' at byte"
    ) as refusal:
        prepare(FAULTS["invalid_utf8"])

    assert str(refusal.value).endswith("leave such lines out: corpus.checks.invalid_utf8: drop.")


def test_a_row_with_many_faults_is_dropped_for_the_first(prepare):
    rows = [b"It is late.\tIt is late.\n"] * 2

    found = prepare(*rows, duplicates="drop", untranslated="keep", overlap="drop")

    assert [(one.check, one.count) for one in found.report.findings] == [
        ("untranslated", 2),
        ("overlap", 2),
    ]


def test_either_side_of_a_held_out_pair_counts_in_its_own_language(prepare):
    rows = [b"Wo ist der Bahnhof?\tWhere is the station?\n", "x\tES IST SPÄT.\n".encode()]

    found = prepare(*rows)

    (finding,) = found.report.findings
    assert finding.examples[0].startswith("row 4 of")


def test_of_many_faults_the_first_are_shown_and_all_are_counted(prepare):
    found = prepare(*[b"no tab\n"] * 40)

    (finding,) = found.report.findings
    assert (finding.count, len(finding.examples)) == (40, 5)
    assert "  and 35 more" in found.report.to_text()


def test_what_is_read_again_reports_the_same(prepare, tmp_path):
    report = prepare(*FAULTS.values(), invalid_utf8="drop").report

    (saved,) = (tmp_path / "run").glob("*/report.json")
    assert CorpusReport.load(saved) == report
    assert report.corpora[0].rows == len(GOOD) + len(FAULTS)
    assert report.corpora[0].pairs == report.pairs


def test_counts_of_tokens_are_those_of_the_pairs(prepare):
    found = prepare()

    assert found.report.source_tokens == found.source_lengths.sum()
    assert found.report.target_tokens == found.target_lengths.sum()


def test_a_corpus_of_which_nothing_is_left_is_refused(prepare):
    with pytest.raises(ValueError, match=r"must hold a pair, got none.*2 rows dropped.*overlap"):
        prepare(good=[*VALIDATION, *TEST])


@given(keys=st.lists(st.integers(0, 20) | st.sampled_from([2**63, 2**64 - 1])))
def test_seen_keys_are_a_set(keys):
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(corpus_checks, "RECENT", 4)
        seen, expected = SeenKeys(), set()
        for key in keys:
            assert seen.add(key) == (key in expected)
            expected.add(key)


def test_many_seen_keys_take_eight_bytes_each(monkeypatch):
    monkeypatch.setattr(corpus_checks, "RECENT", 1_000)
    seen = SeenKeys()
    for _ in range(10_000):
        seen.add(random.getrandbits(64))

    assert len(seen._recent) < 1_000
    assert seen._sorted.dtype == np.uint64
