"""Words that would repeat an n-gram are those that the library's processor bans."""

import pytest
import torch
from transformers import NoRepeatNGramLogitsProcessor

from vanilla_transformer.repetition import repeating_words

VOCABULARY, ROWS = 3, 500


def test_a_word_after_two_that_stood_before_it_repeats_them():
    rows, words = repeating_words(torch.tensor([[5, 6, 7, 5, 6], [5, 6, 7, 5, 8]]), 3)

    assert (rows.tolist(), words.tolist()) == ([0], [7])


@pytest.mark.parametrize("size", range(1, 5))
@pytest.mark.parametrize("length", range(1, 12))
def test_they_are_the_words_that_the_library_bans(size, length):
    targets = torch.randint(VOCABULARY, (ROWS, length))
    library = NoRepeatNGramLogitsProcessor(size)(targets, torch.zeros(ROWS, VOCABULARY)).isinf()
    ours = torch.zeros(ROWS, VOCABULARY, dtype=torch.bool)
    ours[repeating_words(targets, size)] = True

    assert ours.equal(library)
    assert ours.any() == (length >= size)


def test_no_size_bans_nothing():
    rows, words = repeating_words(torch.zeros(2, 9, dtype=torch.long), 0)

    assert not len(rows)
    assert not len(words)
