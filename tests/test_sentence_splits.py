"""Texts are cut at lines and sentences only, and nothing of them is lost."""

import unicodedata

import pytest
from hypothesis import given
from hypothesis import strategies as st

from vanilla_transformer.sentence_splits import (
    Passage,
    Piece,
    split_at_length,
    split_lines,
    split_sentences,
)

TEXTS = st.text(st.sampled_from("aB1 .!?…。」\"'()\n\r\t\u2028\u3000e\u0301"), max_size=60)
ONE = [
    "Dr. Smith is here.",
    "See Fig. 3 and Nr. 7 there.",
    "Am 3. Oktober 1990 war es soweit.",
    "J. S. Bach wrote it.",
    "Das ist z.B. Wasser.",
    "It costs 3.50 Euro.",
    "He said “Go.” and went.",
    "What is it? an apple",
    "What is it? “an apple” perhaps",
    "Somebody (Dr. Smith) is here.",
]
SEVERAL = [
    ["Wait...", "What?"],
    ["Is it?", "Yes.", "No!"],
    ["He said “Go.”", "She went."],
    ["“Go!”", "“No!”"],
    ["(It is so.)", "It was not."],
    ["Er kam 1990 an.", "Dann ging er."],
    ["これは本です。", "それは「ペンです。」", "はい。"],
    ["यह एक किताब है।", "वह कलम है।"],
]


def texts_of(pieces):
    return [piece.text for piece in pieces]


@given(text=TEXTS, longest=st.integers(0, 9))
def test_the_pieces_and_what_is_between_them_are_the_text(text, longest):
    passage = split_lines(text)
    passage.refine(split_sentences)
    passage.refine(lambda piece: split_at_length(piece, longest))

    assert passage.join(texts_of(passage.pieces)) == text
    for piece, start in zip(passage.pieces, passage.starts(), strict=True):
        assert text[start : start + len(piece.text)] == piece.text
        assert piece.text == piece.text.strip() != ""
        assert not piece.gap.strip()
        assert len(piece.text) <= max(longest, 1)
        assert len(piece.text.splitlines()) == 1


@pytest.mark.parametrize("text", ONE)
def test_a_full_stop_that_ends_no_sentence_does_not_cut(text):
    assert texts_of(split_sentences(Piece("", text))) == [text]


@pytest.mark.parametrize("sentences", SEVERAL, ids=" ".join)
def test_sentences_are_apart(sentences):
    blank = "" if sentences[0].endswith("。") else " "

    pieces = split_sentences(Piece("\n", blank.join(sentences)))

    assert texts_of(pieces) == sentences
    assert [piece.gap for piece in pieces] == ["\n", *[blank] * (len(sentences) - 1)]


def test_a_long_piece_is_halved_at_the_blank_nearest_to_its_middle():
    first, second = Piece("\t", "one two  three four").halves()

    assert (first.gap, first.text) == ("\t", "one two")
    assert (second.gap, second.text) == ("  ", "three four")


def test_a_letter_keeps_its_accent():
    word = unicodedata.normalize("NFD", "é" * 9)

    first, second = Piece("", word).halves()

    assert not unicodedata.combining(second.text[0])
    assert first.text + second.text == word


def test_translations_stand_where_their_sources_stood():
    passage = Passage([Piece("  ", "a"), Piece("\n\n", "b")], rest="\n")

    assert passage.join(["one", "two"]) == "  one\n\ntwo\n"
    assert list(passage.starts(["one", "two"])) == [2, 7]
