"""Our merges are those of the textbook algorithm, and those the library learns from plain text."""

import json
from collections import Counter

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from reference_bpe import learn_merges, merge
from tokenizers import Tokenizer, pre_tokenizers
from tokenizers.models import BPE
from tokenizers.trainers import BpeTrainer

from tokenizer.byte_pairs import (
    ALPHABET,
    END,
    PAD,
    SMALLEST_VOCABULARY,
    START,
    byte_level_pieces,
    count_pieces,
    learn_tokenizer,
)
from tokenizer.word_counts import WordCounts

TEXTS = [
    "The quick brown fox, the quicker fox.",
    "Der schnelle braune Fuchs; 1999 und 2000!",
    "aaaa aaa aa a abab ababab",
    "  zwei  Blanks\tund\n\nZeilen ",
    "\u0939\u093f\u0928\u094d\u0926\u0940 \u4f60\u597d \U0001f469\u200d\U0001f469 cafe\u0301",
]


def counted(texts):
    counts = WordCounts()
    counts.add(texts)
    return counts


def merges_of(tokenizer):
    model = json.loads(tokenizer.backend_tokenizer.to_str())["model"]
    return [tuple(pair) for pair in model["merges"]]


@settings(max_examples=200)
@given(
    texts=st.lists(st.text(alphabet="ab \u00e4\n1.", max_size=30), min_size=1, max_size=20),
    min_frequency=st.integers(1, 3),
)
def test_the_merges_are_those_of_the_textbook_ties_included(texts, min_frequency):
    pieces = count_pieces(counted(texts))

    learned = learn_tokenizer(counted(texts), 304, min_frequency)

    assert merges_of(learned) == learn_merges(pieces, ALPHABET, 304, min_frequency)


def test_the_merges_of_real_sentences_are_those_of_the_textbook():
    texts = TEXTS * 2 + [f"{word} {word}s" for word in ["lower", "lowest", "newer", "widest"]]

    learned = learn_tokenizer(counted(texts), 400, 2)

    assert merges_of(learned) == learn_merges(count_pieces(counted(texts)), ALPHABET, 400, 2)


def test_a_word_is_split_as_its_merges_in_order_say():
    learned = learn_tokenizer(counted(TEXTS * 3), 320)
    expected = tuple("aaaab")
    for pair in merges_of(learned):
        expected = merge(expected, pair)

    assert tuple(learned.tokenize("aaaab")) == expected


@given(texts=st.lists(st.text(max_size=40), min_size=1, max_size=10))
def test_counting_words_first_gives_the_pieces_of_the_whole_text(texts):
    whole = Counter(
        piece for text in texts for piece, _ in byte_level_pieces().pre_tokenize_str(text)
    )

    assert count_pieces(counted(texts)) == whole


def test_the_library_learns_the_same_from_the_text_itself():
    backend = Tokenizer(BPE())
    backend.pre_tokenizer = byte_level_pieces()
    trainer = BpeTrainer(
        vocab_size=400,
        min_frequency=2,
        special_tokens=[PAD, START, END],
        initial_alphabet=pre_tokenizers.ByteLevel.alphabet(),
        show_progress=False,
    )
    backend.train_from_iterator(TEXTS * 2, trainer)

    learned = learn_tokenizer(counted(TEXTS * 2), 400, 2)

    assert learned.get_vocab().items() >= backend.get_vocab().items()


@pytest.mark.parametrize(
    ("text", "pieces"),
    [
        ("Hello world", ["Hello", " world"]),
        ("don't (stop)!?", ["don", "'", "t", " (", "stop", ")!?"]),
        ("in 1999", ["in", " 1", "9", "9", "9"]),
        ("a  b", ["a", " ", " b"]),
        ("a\r\n\n b", ["a", "\r\n\n", " b"]),
        ("cafe\u0301s", ["cafe\u0301s"]),
        ("\u0939\u093f\u0928\u094d\u0926\u0940", ["\u0939\u093f\u0928\u094d\u0926\u0940"]),
        ("3\u20ac", ["3", "\u20ac"]),
        ("\x00\u2028", ["\x00", "\u2028"]),
    ],
)
def test_text_is_cut_at_words_digits_and_punctuation(text, pieces):
    cut = byte_level_pieces().pre_tokenize_str(text)

    assert [text[start:end] for _, (start, end) in cut] == pieces


@pytest.mark.parametrize(("asked", "expected"), [(264, 264), (265, 272), (300, 304)])
def test_the_vocabulary_is_rounded_up_to_a_multiple_of_8(asked, expected):
    varied = [f"{left}{right}" for left in "abcdefghij" for right in "klmnopqrst"] * 2

    assert len(learn_tokenizer(counted(varied), asked)) == expected


def test_a_small_corpus_is_filled_up_with_words_that_no_text_contains():
    learned = learn_tokenizer(counted(["ab ab"]), 16_000)

    assert len(learned) == SMALLEST_VOCABULARY
    assert sorted(learned.get_vocab().values()) == list(range(len(learned)))
    assert learned.decode(learned("<unused0>").input_ids, skip_special_tokens=True) == "<unused0>"


def test_special_tokens_have_the_ids_of_the_configuration(tiny_config):
    learned = learn_tokenizer(counted(TEXTS), 264)

    assert (learned.pad_token_id, learned.bos_token_id, learned.eos_token_id) == (
        tiny_config.pad_token_id,
        tiny_config.decoder_start_token_id,
        tiny_config.eos_token_id,
    )


def test_a_word_without_end_is_learned_from_in_part():
    """In full, the library's trainer would not come back."""
    learned = learn_tokenizer(counted(["a" * 2_000_000]), 272)

    assert tuple(learned.tokenize("aaaa")) == ("aaaa",)
