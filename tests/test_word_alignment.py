"""Words are aligned by the attention of all their tokens, and special tokens have no say."""

import torch

from vanilla_transformer.word_alignment import align

PIECES = {0: "", 1: "the ", 2: "ca", 3: "t ", 4: "die ", 5: "Kat", 6: "ze "}
SPECIAL = {0}
SOURCE, TARGET = ([1, 2, 3, 0], "the cat"), ([4, 5, 6, 0], "die Katze")


def decode(ids):
    return "".join(PIECES[token] for token in ids)


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

    spans = align(attention, SOURCE, TARGET, decode, SPECIAL)

    assert words_of(spans, "the cat", "die Katze") == [("the", "die"), ("cat", "Katze")]


def test_the_end_token_is_no_word_s_source():
    attention = torch.tensor([[0.1, 0.0, 0.0, 0.9]] * 4)

    spans = align(attention, SOURCE, TARGET, decode, SPECIAL)

    assert [source for source, _ in words_of(spans, "the cat", "die Katze")] == ["the", "the"]


def test_a_prefix_is_no_word_s_source():
    attention = torch.tensor([[0.8, 0.1, 0.1, 0.0]] * 4)

    spans = align(attention, SOURCE, TARGET, decode, SPECIAL, prefix="the ")

    assert words_of(spans, "cat", "die Katze") == [("cat", "die"), ("cat", "Katze")]


def test_without_words_there_is_no_alignment():
    assert align(torch.zeros(1, 4), SOURCE, ([0], ""), decode, SPECIAL) == []
