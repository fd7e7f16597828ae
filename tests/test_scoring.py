"""The metric gives sacrebleu's own numbers, however many processes share the translations."""

import json
import os
import subprocess
import sys
from importlib import import_module

import pytest
import sacrebleu
from conftest import SENTENCES
from scripts.fresh_process import REPOSITORY, SCRIPTS

from vanilla_transformer.scoring import TranslationMetric

REFERENCES = [line.split("\t")[1] for line in SENTENCES.splitlines()]
TRANSLATIONS = [
    "Der schnelle Fuchs springt über den braunen Hund.",
    "Wo ist der Bahnhof?",
    "zwei Hunde spielen im Sand.",
    "",
    "Ein Mann mit Hut schaut die Kinder an.",
]
PAIRS = list(zip(TRANSLATIONS, REFERENCES, strict=True))
SHARES = {
    "alternating": [PAIRS[::2], PAIRS[1::2]],
    "reversed": [PAIRS[:1:-1], PAIRS[1::-1]],
    "all with the other": [[], PAIRS],
    "none with the other": [PAIRS, []],
    "three processes": [PAIRS[3:], PAIRS[:1], PAIRS[1:3]],
}


@pytest.fixture
def score(tmp_path):
    def score(predictions, references, **options):
        metric = TranslationMetric(cache_dir=str(tmp_path), **options)
        return metric.compute(predictions=predictions, references=references)

    return score


@pytest.mark.parametrize("tokenize", ["13a", "none", "char", "intl", "zh"])
@pytest.mark.parametrize("lowercase", [False, True])
def test_scores_are_those_of_sacrebleu(tokenize, lowercase, score):
    found = score(TRANSLATIONS, REFERENCES, tokenize=tokenize, lowercase=lowercase)
    words = sacrebleu.corpus_bleu(
        TRANSLATIONS, [REFERENCES], lowercase=lowercase, tokenize=tokenize
    )
    characters = sacrebleu.CHRF(lowercase=lowercase).corpus_score(TRANSLATIONS, [REFERENCES])

    assert (found["bleu"], found["chrf"]) == (words.score, characters.score)


def test_chrf_is_that_of_sacrebleu_s_function(score):
    expected = sacrebleu.corpus_chrf(TRANSLATIONS, [REFERENCES]).score

    assert score(TRANSLATIONS, REFERENCES)["chrf"] == expected


def test_signatures_say_how_scores_were_computed(score):
    found = score(TRANSLATIONS, REFERENCES, tokenize="char", lowercase=True)

    assert {"case:lc", "tok:char", "nrefs:1"} <= {*found["bleu_signature"].split("|")}
    assert found["chrf_signature"].endswith(f"version:{sacrebleu.__version__}")


def test_perfect_translations_have_100(score):
    found = score(REFERENCES, REFERENCES)

    assert [found["bleu"], found["chrf"]] == pytest.approx([100, 100])


def test_batches_add_up(score, tmp_path):
    metric = TranslationMetric(cache_dir=str(tmp_path))
    for pair in reversed(PAIRS):
        metric.add_batch(predictions=pair[:1], references=pair[1:])

    assert metric.compute() == score(TRANSLATIONS, REFERENCES)


def test_processes_that_share_the_work_score_as_one(score, tmp_path):
    finished = subprocess.run(
        [sys.executable, SCRIPTS / "score_in_parallel.py", tmp_path / "shared"],
        input=json.dumps(list(SHARES.values())),
        env=os.environ | {"PYTHONPATH": str(REPOSITORY), "HF_HUB_OFFLINE": "1"},
        capture_output=True,
        text=True,
        timeout=120,
        check=False,
    )
    assert finished.returncode == 0, finished.stderr[-4000:]
    expected = score(TRANSLATIONS, REFERENCES)

    results = dict(zip(SHARES, json.loads(finished.stdout), strict=True))
    assert results == {
        name: [expected, *[None] * (len(shares) - 1)] for name, shares in SHARES.items()
    }


@pytest.mark.parametrize(
    ("predictions", "references"),
    [([], []), (["a"], ["a", "b"]), ([None], ["a"]), ([1], ["a"]), ([["a"]], ["a"])],
)
def test_what_cannot_be_scored_is_refused(predictions, references, score):
    with pytest.raises(ValueError, match=r"got none|Mismatch|don't match"):
        score(predictions, references)


def test_an_unknown_tokenize_is_refused_with_the_known_ones():
    with pytest.raises(ValueError, match=r"one of none, .*13a.*, got 'words'"):
        TranslationMetric("words")


@pytest.mark.parametrize(
    ("missing", "module"), [("sacrebleu.metrics", "significance"), ("evaluate", "scoring")]
)
def test_a_missing_library_is_an_error_that_names_the_extra(missing, module, monkeypatch):
    monkeypatch.delitem(sys.modules, f"vanilla_transformer.{module}", raising=False)
    monkeypatch.setitem(sys.modules, missing, None)
    library = missing.partition(".")[0]

    with pytest.raises(ImportError, match=rf"{library}: pip install .*\[train\]"):
        import_module(f"vanilla_transformer.{module}")
