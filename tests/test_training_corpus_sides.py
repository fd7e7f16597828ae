"""Lines shifted against each other and swapped languages are refused; good corpora never are."""

import random
from itertools import islice, pairwise

import pytest

from training.corpus import prepare_training
from training.corpus_sides import FEWEST_PAIRS, FIRST_PAIRS, FirstPairs, words_of_sides
from training.number_words import number_corpus
from training.recipe import CorpusChecks, CorpusSection, TrainingCorpus

WORDS = {"a dog": "ein Hund", "runs": "rennt", "and": "und", "sleeps": "schläft", "on": "auf"}


def draw_pairs(count, seed=0):
    drawn = random.Random(seed)
    lengths = [drawn.randint(1, 12) for _ in range(count)]
    texts = [drawn.choices(list(WORDS), k=length) for length in lengths]
    return [(" ".join(one), " ".join(WORDS[word] for word in one)) for one in texts]


def shift(pairs):
    return [(one, other) for (one, _), (_, other) in pairwise(pairs)]


def swap(pairs):
    return [(target, source) for source, target in pairs]


def checks_hit(pairs, held_out=None):
    first = FirstPairs(words_of_sides(held_out or draw_pairs(50, seed=1)))
    for pair in islice(pairs, FIRST_PAIRS):
        first.add(pair)
    return [check for check, _ in first.faults()]


FAULTS = {"misaligned": shift, "swapped": swap}


@pytest.mark.parametrize("check", FAULTS)
@pytest.mark.parametrize("count", [FEWEST_PAIRS + 1, 3_000])
def test_a_spoilt_corpus_is_told_from_a_good_one(check, count):
    pairs = draw_pairs(count)

    assert checks_hit(pairs) == []
    assert checks_hit(FAULTS[check](pairs)) == [check]


def test_few_pairs_say_nothing():
    pairs = draw_pairs(FEWEST_PAIRS - 1)

    assert checks_hit(swap(shift(pairs))) == []


@pytest.mark.parametrize(
    "pair",
    [
        ("{0:03} a", "b {1:03}"),
        ("{0}", "{0}"),
        ("{0:b}", "{0}"),
        ("日{0}語", "Wort {0}"),
    ],
    ids=["of one length", "copies", "one word each", "without blanks"],
)
def test_odd_corpora_are_none_the_worse(pair):
    drawn = random.Random(0)
    numbers = [(drawn.randrange(1_000), drawn.randrange(1_000)) for _ in range(600)]
    pairs = [(pair[0].format(*both), pair[1].format(*both)) for both in numbers]

    assert checks_hit(pairs[:500], held_out=pairs[500:]) == []


def test_the_numbers_task_is_good():
    train, held_out = ([*number_corpus(f"numbers:{n}", ("en", "de"))] for n in ("train", "test"))

    assert checks_hit(train, held_out) == []


@pytest.fixture
def prepare(tiny_tokenizer, tmp_path):
    def write(name, pairs):
        text = "".join(f"{source}\t{target}\n" for source, target in pairs)
        (tmp_path / f"{name}.tsv").write_text(text, encoding="utf-8")
        return (str(tmp_path / f"{name}.tsv"),)

    def run(*corpora, **policies):
        section = CorpusSection(
            train=tuple(
                TrainingCorpus(write(f"train-{number}", pairs))
                for number, pairs in enumerate(corpora)
            ),
            validation=write("validation", draw_pairs(50, seed=1)),
            max_length_ratio=99.0,
            checks=CorpusChecks(overlap="keep", **policies),
        )
        return prepare_training(section, tiny_tokenizer, tmp_path / "run").report

    return run


@pytest.mark.parametrize("check", FAULTS)
def test_the_corpus_at_fault_is_refused_by_name_with_the_way_out(check, prepare, tmp_path):
    good = draw_pairs(300)

    with pytest.raises(ValueError, match=f"corpus.checks.{check} is 'refuse'") as refusal:
        prepare(good, FAULTS[check](good))

    assert f"{tmp_path.name}/train-1.tsv has " in str(refusal.value)
    assert str(refusal.value).endswith(f"set corpus.checks.{check} to 'keep'.")


@pytest.mark.parametrize("check", FAULTS)
def test_what_is_kept_is_reported_all_the_same(check, prepare):
    spoilt = FAULTS[check](draw_pairs(300))

    report = prepare(spoilt, **{check: "keep"})

    (finding,) = (one for one in report.findings if one.check == check)
    assert (finding.policy, finding.count) == ("keep", len(spoilt))
    assert len(finding.examples) == 5
    assert report.pairs == len(spoilt)


@pytest.mark.parametrize("check", FAULTS)
def test_the_first_pairs_decide_before_the_rest_is_read(check, prepare, monkeypatch):
    monkeypatch.setattr("training.corpus_sides.FIRST_PAIRS", 250)
    spoilt = [*FAULTS[check](draw_pairs(251)), *draw_pairs(2_000, seed=2)]

    with pytest.raises(ValueError, match=check):
        prepare(spoilt)
    findings = prepare(spoilt, **{check: "keep"}).findings
    assert [one.count for one in findings if one.check in FAULTS] == [250]
