"""Scores are sacrebleu's, and a difference is significant only if it is one."""

import random
import re
import sys
from dataclasses import replace

import pytest
import sacrebleu
from sacrebleu.metrics import BLEU, CHRF
from scripts.fresh_process import run_fresh

from vanilla_transformer.significance import (
    LARGEST_RESAMPLING,
    build_metrics,
    check_sizes,
    compare_systems,
)

WORDS = [f"word{number}" for number in range(50)]
NUM_SENTENCES, RESAMPLES = 120, 200


def spoil(sentences, rate, seed):
    """Replace some words by others."""
    dice = random.Random(seed)
    return [
        " ".join(dice.choice(WORDS) if dice.random() < rate else word for word in line.split())
        for line in sentences
    ]


REFERENCES = spoil([" ".join(["word0"] * 9)] * NUM_SENTENCES, rate=1, seed=0)
GOOD, ALIKE, BAD = (spoil(REFERENCES, rate, seed) for rate, seed in [(0.2, 1), (0.2, 2), (0.4, 3)])
SYSTEMS = [GOOD, ALIKE, BAD]


def compare(systems, **changes):
    metrics = changes.pop("metrics", None) or build_metrics()
    named = [(str(number), lines) for number, lines in enumerate(systems)]
    return compare_systems(named, REFERENCES, metrics, RESAMPLES, **changes)


def test_scores_are_those_of_sacrebleu():
    found = compare(SYSTEMS).scores

    assert [score.score for score in found["BLEU"]] == [
        sacrebleu.corpus_bleu(system, [REFERENCES]).score for system in SYSTEMS
    ]
    assert [score.score for score in found["chrF2"]] == [
        sacrebleu.corpus_chrf(system, [REFERENCES]).score for system in SYSTEMS
    ]


def test_the_report_of_the_sacrebleu_command_is_the_same(tmp_path):
    for name, lines in zip(("reference", "0", "1", "2"), (REFERENCES, *SYSTEMS), strict=True):
        (tmp_path / name).write_text("".join(f"{line}\n" for line in lines))
    printed = run_fresh(
        "-m", "sacrebleu", "reference", "-i", "0", "1", "2", "-m", "bleu", "chrf", "-w", "4",
        "--paired-bs", "--paired-bs-n", RESAMPLES, "--format", "text", folder=tmp_path,
    )  # fmt: skip
    ours = [score for row in zip(*compare(SYSTEMS).scores.values(), strict=True) for score in row]

    number = r"(\d+\.\d{4})"
    scores = re.findall(rf"{number} \({number} ± {number}\)", printed)
    assert [tuple(map(float, score)) for score in scores] == [
        pytest.approx((score.score, score.mean, score.confidence), abs=1e-4) for score in ours
    ]
    assert [float(p) for p in re.findall(rf"\(p = {number}\)", printed)] == [
        pytest.approx(score.p_value, abs=1e-4) for score in ours if score.p_value is not None
    ]


@pytest.mark.parametrize("system", SYSTEMS, ids=["good", "alike", "bad"])
def test_confidence_is_that_of_sacrebleu_s_single_system_bootstrap(system):
    found = compare([system]).scores

    for name, metric in (("BLEU", BLEU()), ("chrF2", CHRF())):
        expected = metric.corpus_score(system, [REFERENCES], n_bootstrap=RESAMPLES)
        [score] = found[name]
        assert (score.mean, score.confidence) == pytest.approx((expected._mean, expected._ci))
        assert score.p_value is None


def test_a_system_is_resampled_alike_wherever_it_stands():
    first, second = (compare(order).scores["BLEU"] for order in ([GOOD, BAD], [BAD, GOOD]))

    assert first[0] == replace(second[1], p_value=None)
    assert second[0] == replace(first[1], p_value=None)
    assert first[1].p_value == second[1].p_value


@pytest.mark.parametrize("name", ["BLEU", "chrF2"])
def test_only_a_real_difference_is_significant(name):
    _, alike, bad = compare(SYSTEMS).scores[name]

    assert bad.p_value == pytest.approx(1 / (RESAMPLES + 1))
    assert alike.p_value > 0.05


@pytest.mark.parametrize("system", [GOOD, [line.upper() for line in GOOD]], ids=["same", "case"])
def test_a_system_against_itself_is_not_significant(system):
    found = compare([GOOD, system], metrics=build_metrics(lowercase=True)).scores

    assert all(scores[1].p_value == 1.0 for scores in found.values())
    assert all(scores[1].score == scores[0].score for scores in found.values())


def test_perfect_translations_have_100_and_no_doubt():
    found = compare([REFERENCES]).scores

    assert found["BLEU"][0].score == pytest.approx(100)
    assert found["chrF2"][0].score == pytest.approx(100)
    assert found["BLEU"][0].confidence == pytest.approx(0, abs=1e-9)


def test_signatures_tell_of_the_resampling():
    signatures = compare([GOOD]).signatures

    assert signatures.keys() == {"BLEU", "chrF2"}
    assert all(f"bs:{RESAMPLES}|seed:" in signature for signature in signatures.values())


@pytest.mark.parametrize(
    ("sizes", "reason"),
    [
        (([], 3, 10), "needs systems"),
        (([0], 0, 10), "needs systems"),
        (([3, 2], 3, 10), "got 2 translations and 3 references"),
        (([3], 3, 0), "got 0"),
        (([2], 2, LARGEST_RESAMPLING), "1 to 50,000,000 resamples"),
    ],
)
def test_what_cannot_be_compared_is_refused(sizes, reason):
    with pytest.raises(ValueError, match=reason):
        check_sizes(*sizes)


def test_a_tokenize_without_its_package_is_refused_with_the_way_out(monkeypatch):
    monkeypatch.delitem(sys.modules, "sacrebleu.tokenizers.tokenizer_ja_mecab", raising=False)
    monkeypatch.setitem(sys.modules, "MeCab", None)

    with pytest.raises(ValueError, match=r"(?s)'ja-mecab' cannot be used here: .*pip install"):
        build_metrics("ja-mecab")
