"""Words are aligned by the attention of all their tokens, and special tokens have no say."""

import json
import subprocess
import sys
from pathlib import Path

import pytest
import torch
from linked_numbers import links_of, spaced_corpus

from training.number_words import number_corpus
from vanilla_transformer.translators import load_translator
from vanilla_transformer.word_alignment import align, best_aligning

REPOSITORY = Path(__file__).parents[1]

SOURCE, TARGET = ([0, 1, 1, None], "the cat"), ([0, 1, 1, None], "die Katze")


def words_of(spans, source, target):
    return [(source[start:end], target[first:last]) for start, end, first, last in spans]


def test_a_word_s_tokens_vote_together():
    attention = torch.tensor(
        [
            [0.8, 0.1, 0.1, 0.0],
            [0.4, 0.3, 0.3, 0.0],  # no single token of "cat" has as much as "the"
            [0.4, 0.3, 0.3, 0.0],
            [0.0, 0.0, 0.0, 1.0],
        ]
    )

    spans = align(attention, SOURCE, TARGET)

    assert words_of(spans, "the cat", "die Katze") == [("the", "die"), ("cat", "Katze")]


def test_the_end_token_is_no_word_s_source():
    attention = torch.tensor([[0.1, 0.0, 0.0, 0.9]] * 4)

    spans = align(attention, SOURCE, TARGET)

    assert [source for source, _ in words_of(spans, "the cat", "die Katze")] == ["the", "the"]


def test_a_prefix_is_no_word_s_source():
    attention = torch.tensor([[0.8, 0.1, 0.1, 0.0]] * 4)

    spans = align(attention, SOURCE, TARGET, prefix="the ")

    assert words_of(spans, "cat", "die Katze") == [("cat", "die"), ("cat", "Katze")]


def test_a_prefix_may_run_into_the_text():
    source = [0, 1, 1, None], "de:the cat"
    attention = torch.tensor([[0.8, 0.1, 0.1, 0.0], [0.1, 0.4, 0.5, 0.0]]).repeat(2, 1)

    spans = align(attention, source, ([0, 1, 1, None], "die Katze"), prefix="de:")

    assert words_of(spans, "the cat", "die Katze") == [("the", "die"), ("cat", "Katze")]


def test_without_words_there_is_no_alignment():
    assert align(torch.zeros(1, 4), SOURCE, ([None], "")) == []


def test_the_last_layer_but_one_aligns_where_there_are_three():
    assert [best_aligning(layers) for layers in (1, 2, 3, 6)] == [0, 1, 1, 4]


def test_the_words_of_a_number_have_known_partners():
    english, german = (
        "forty two thousand one hundred seventeen",
        ("zwei und vierzig tausend ein hundert siebzehn"),
    )
    pairs = {(english.split()[i], german.split()[j]) for i, j in links_of(german)}

    assert pairs == {
        ("forty", "vierzig"),
        ("two", "zwei"),
        ("thousand", "tausend"),
        ("one", "ein"),
        ("hundred", "hundert"),
        ("seventeen", "siebzehn"),
    }


def test_spaces_change_nothing_else_in_a_number():
    written = list(number_corpus("numbers:validation", ("en", "de")))

    for (english, german), (spaced, parts) in zip(
        written, spaced_corpus("numbers:validation"), strict=True
    ):
        assert (spaced, parts.replace(" ", "")) == (english.replace("-", " "), german)
        assert sorted(i for i, _ in links_of(parts)) == list(range(len(spaced.split())))


@pytest.fixture(scope="module")
def number_translator(tmp_path_factory):
    """What the recipe of numbers makes of numbers with blanks between their words."""
    folder = tmp_path_factory.mktemp("spaced")
    files = {part: folder / f"{part}.tsv" for part in ("train", "validation", "test")}
    for part, file in files.items():
        lines = ["\t".join(pair) + "\n" for pair in spaced_corpus(f"numbers:{part}")]
        file.write_text("".join(lines), encoding="utf-8")
    command = [sys.executable, "training/train.py", "--output", folder / "run", "--config"]
    command += ["training/recipes/numbers.yaml", "--set", f"corpus.train=[{files['train']}]"]
    command += ["--set", f"corpus.validation=[{files['validation']}]"]
    command += ["--set", f"corpus.tests.numbers=[{files['test']}]"]
    subprocess.run(command, cwd=REPOSITORY, check=True)
    assert json.loads((folder / "run" / "results.json").read_text())["numbers"]["exact"] >= 99.9
    return load_translator(str(folder / "run" / "model"))


@pytest.mark.slow
def test_of_the_words_of_200_numbers_95_of_100_are_aligned(number_translator):
    pairs = spaced_corpus("numbers:test")[:200]
    records = number_translator([english for english, _ in pairs], return_alignment=True)

    wanted = found = 0
    for (english, german), record in zip(pairs, records, strict=True):
        links = links_of(german)
        wanted += len(links)
        if record["translation_text"] == german:
            found += len(links & linked_words(record["alignment"], english, german))
    assert found >= 0.95 * wanted


def linked_words(spans, source, target):
    """Spans of characters as the numbers of words."""
    return {(source[:start].count(" "), target[:first].count(" ")) for start, _, first, _ in spans}
