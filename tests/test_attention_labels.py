"""Tokens belong to words, and every label can be read and does nothing."""

import pytest
import torch

from vanilla_transformer.attention_labels import (
    Side,
    label_tokens,
    visible,
    visible_pieces,
    words_of_tokens,
)

PIECES = ["", " Caf", "é", " ", "日", "本", " x"]
END = 7


def decode(ids):
    return "".join(PIECES[token] for token in ids if token != END).strip()


def test_a_blank_alone_belongs_to_the_word_behind_it():
    assert words_of_tokens([1, 2, 3, 4, 5, 6, END], decode, {END}) == [0, 0, 1, 1, 1, 2, None]


def test_a_blank_before_the_end_belongs_to_the_word_before_it():
    assert words_of_tokens([1, 3, END], decode, {END}) == [0, 0, None]


def test_columns_are_summed_and_rows_averaged():
    side = Side(("two", "one"), (0, 1), (2, 1))
    weights = torch.tensor([[0.1, 0.2, 0.7], [0.3, 0.3, 0.4], [0.0, 1.0, 0.0]])

    columns = side.merge_columns(weights)
    rows = side.merge_rows(weights)

    torch.testing.assert_close(columns, torch.tensor([[0.3, 0.7], [0.6, 0.4], [1.0, 0.0]]))
    torch.testing.assert_close(rows, torch.tensor([[0.2, 0.25, 0.55], [0.0, 1.0, 0.0]]))


def test_a_text_of_special_tokens_alone_has_no_words(tiny_tokenizer):
    empty = label_tokens(tiny_tokenizer, [1, 2], lambda ids: "", pieces=False)

    assert empty == Side(("<s>", "</s>"), (None, None), (1, 1))


def test_pieces_show_blanks_and_bytes(en_de):
    ids = en_de("Die Straße 日")["input_ids"]

    shown = ["Die", "·Straße", "·", r"\xe6", r"\x97", r"\xa5", "</s>"]
    assert visible_pieces(en_de, ids) == shown


@pytest.mark.parametrize(
    ("text", "shown"),
    [
        ("naïve 日本 שלום", "naïve 日本 שלום"),
        ("a\u202eb", r"a\u202eb"),  # would turn what follows around
        ("a\x07\tb", r"a\x07\tb"),
        ("می\u200cروم 👨\u200d👩", "می\u200cروم 👨\u200d👩"),  # joiners are part of words
    ],
)
def test_letters_that_are_not_seen_are_escaped(text, shown):
    assert visible(text) == shown
