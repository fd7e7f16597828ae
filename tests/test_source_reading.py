"""Texts of any length are read in pieces that the model can take."""

import pytest
from toy_models import LINE, text_of, texts_of
from transformers.utils import logging

from vanilla_transformer.source_reading import SourceReader


@pytest.fixture
def short(translate, monkeypatch):
    """The translator of a toy_tokenizer that takes 8 tokens, the end included."""
    monkeypatch.setattr(translate.tokenizer, "model_max_length", 8)
    return translate


LONG = " ".join(f"source{number}" for number in range(20))


def test_a_line_that_is_too_long_is_translated_in_parts(short):
    parts = [piece.text for piece in short.preprocess(LONG).pieces]

    assert " ".join(parts) == LONG
    assert all(3 < len(part.split()) < 8 for part in parts)
    assert text_of(short(LONG)) == " ".join(text_of(short(part)) for part in parts)


def test_a_word_that_is_too_long_is_cut(short):
    long_word = "x" * 10_000

    assert short(long_word)[0]["translation_text"]


@pytest.mark.parametrize("asked", [{"on_long_input": "truncate"}, {"truncation": True}])
def test_truncation_warns_once_with_counts(asked, short, caplog):
    expected = text_of(short(" ".join(LONG.split()[:7])))
    logger = "vanilla_transformer.translation_call"
    with caplog.at_level("WARNING", logger), propagating():
        results = short([LONG, LINE, f"{LONG}\n{LINE}"], **asked)

    assert texts_of(results)[0] == expected
    [message] = [record.getMessage() for record in caplog.records]
    assert "2 lines in 3 inputs" in message
    assert "21" in message


class propagating:  # noqa: N801  # reads like a function
    """The library's loggers keep their records from pytest."""

    def __enter__(self):
        logging.enable_propagation()

    def __exit__(self, *_):
        logging.disable_propagation()


def test_long_input_can_be_refused(short):
    with pytest.raises(ValueError, match=r"inputs\[1\] must have at most 8 tokens"):
        short([LINE, LONG], on_long_input="error")
    results = short([LINE, LONG], on_long_input="error", on_error="record")

    assert "inputs[1]" in results[1]["error"]
    assert results[0] == short(LINE)[0]


@pytest.mark.parametrize("unit", ["source1 ", "x", "\n", "source1. ", ".", "。"])
def test_a_million_characters_are_read_in_bounded_time(unit, translate):
    text = (unit * (1_000_000 // len(unit) + 1))[:1_000_000]

    passage = translate.preprocess(text)

    assert passage.join([piece.text for piece in passage.pieces]) == text
    assert all(len(piece.ids) <= translate.reader.longest_input for piece in passage.pieces)


def test_many_lines_are_tokenized_in_parts(translate, monkeypatch):
    calls, tokenize = [], SourceReader._tokenize

    def counted(reader, texts, **options):
        calls.append(len(texts))
        return tokenize(reader, texts, **options)

    monkeypatch.setattr(SourceReader, "_tokenize", counted)
    passage = translate.preprocess(f"{LINE}\n" * 5_000)

    assert sum(calls) == len(passage.pieces) == 5_000
    assert max(calls) <= 1024
    assert len({tuple(piece.ids) for piece in passage.pieces}) == 1
