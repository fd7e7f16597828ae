"""Tokens belong to words, and every label can be read and does nothing."""

from functools import partial

import pytest
import torch
from transformers import ByT5Tokenizer

from vanilla_transformer.attention_labels import (
    Side,
    label_tokens,
    visible,
    visible_pieces,
)


def test_columns_are_summed_and_rows_averaged():
    side = Side(("two", "one"), (0, 1), (2, 1))
    weights = torch.tensor([[0.1, 0.2, 0.7], [0.3, 0.3, 0.4], [0.0, 1.0, 0.0]])

    columns = side.merge_columns(weights)
    rows = side.merge_rows(weights)

    torch.testing.assert_close(columns, torch.tensor([[0.3, 0.7], [0.6, 0.4], [1.0, 0.0]]))
    torch.testing.assert_close(rows, torch.tensor([[0.2, 0.25, 0.55], [0.0, 1.0, 0.0]]))


def test_a_text_of_special_tokens_alone_has_no_words(tiny_tokenizer):
    empty = label_tokens(tiny_tokenizer, [1, 2], "", lambda ids: "", pieces=False)

    assert empty == Side(("<s>", "</s>"), (None, None), (1, 1))


def test_a_word_in_letters_of_several_bytes_is_a_label_of_its_own():
    tokenizer, text = ByT5Tokenizer(), "кот сидит тут"
    ids = tokenizer(text)["input_ids"]

    side = label_tokens(tokenizer, ids, text, partial(decoded, tokenizer), pieces=False)

    assert side.labels == ("кот", "сидит", "тут", "</s>")


def decoded(tokenizer, ids):
    return tokenizer.decode(ids, skip_special_tokens=True)


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
