"""Dropout splits words as the paper's algorithm does, and alike in every process."""

import copy
import pickle
import random
from collections import Counter
from itertools import groupby

import pytest
from hypothesis import given
from hypothesis import strategies as st
from subword_nmt import apply_bpe
from transformers import AutoTokenizer

from training import bpe_dropout
from training.bpe_dropout import WordDropout

DRAWS = 6_000
NEAR = 0.03  # four standard deviations of the difference


def encode(tokenizer, text):
    encoding = tokenizer(text)
    sizes = [len(list(group)) for _, group in groupby(encoding.word_ids())]
    return encoding["input_ids"], sizes


def distribution(tokenizer, word, probability):
    ids, sizes = encode(tokenizer, word)
    dropout = WordDropout(tokenizer, probability, seed=3)
    found = (dropout.split(ids, sizes, dropout.draw(0, pair)) for pair in range(DRAWS))
    return Counter(tuple(tokenizer.convert_ids_to_tokens(one)[:-1]) for one in found)


def distance(one, other):
    """The largest difference between the frequencies of a split."""
    return max(abs(one[split] - other[split]) for split in one | other) / DRAWS


@pytest.mark.parametrize("probability", [0.1, 0.5])
@pytest.mark.parametrize("word", ["Hund", "understanding", "Bahnhof", "ñandú"])
def test_words_split_as_often_as_the_authors_say(word, probability, en_de, monkeypatch):
    """Their algorithm is that of subword-nmt, which marks the last letter of a word."""
    state = random.Random(5)
    monkeypatch.setattr(apply_bpe.random, "random", state.random)
    vocabulary, codes = en_de.get_vocab(), {}
    dropout = WordDropout(en_de, probability, seed=0)
    tokens = {index: token for token, index in vocabulary.items()}
    for rank, ((left, right), _) in enumerate(
        sorted(dropout.merges.items(), key=lambda item: item[1][0])
    ):
        codes[tokens[left], tokens[right]] = rank
        codes[tokens[left], tokens[right] + "</w>"] = rank
    letters = "".join(en_de.convert_ids_to_tokens(en_de(word)["input_ids"])[:-1])
    splits = (
        apply_bpe.encode(letters, codes, {}, None, "@@", (0, 2), {}, dropout=probability)
        for _ in range(DRAWS)
    )

    theirs = Counter(tuple(splits))

    assert distance(distribution(en_de, word, probability), theirs) < NEAR


@pytest.mark.parametrize("word", ["in", "Hun", "!?"])
def test_short_words_split_as_often_as_in_the_library(word, en_de):
    """In longer ones it gives merges that were left out another chance where ours does not."""
    backend = copy.deepcopy(en_de).backend_tokenizer
    backend.model.dropout = 0.3
    encodings = backend.encode_batch([word] * DRAWS, add_special_tokens=False)

    theirs = Counter(tuple(encoding.tokens) for encoding in encodings)

    assert distance(distribution(en_de, word, 0.3), theirs) < NEAR


@given(text=st.text(), pair=st.integers(0, 2**40))
def test_without_dropout_nothing_changes(text, pair, tiny_tokenizer):
    ids, sizes = encode(tiny_tokenizer, text)
    dropout = WordDropout(tiny_tokenizer, 0.0, seed=1)

    assert dropout.split(ids, sizes, dropout.draw(0, pair)) == ids


@given(text=st.text(), probability=st.floats(0, 1), pair=st.integers(0, 2**40))
def test_every_split_is_the_same_text(text, probability, pair, tiny_tokenizer):
    ids, sizes = encode(tiny_tokenizer, text)
    dropout = WordDropout(tiny_tokenizer, probability, seed=1)

    split = dropout.split(ids, sizes, dropout.draw(0, pair))

    assert split[-1] == tiny_tokenizer.eos_token_id
    assert tiny_tokenizer.decode(split, skip_special_tokens=True) == text


def test_with_all_merges_left_out_bytes_remain(en_de):
    ids, sizes = encode(en_de, "Ein schöner Hund!")
    dropout = WordDropout(en_de, 1.0, seed=1)

    split = dropout.split(ids, sizes, dropout.draw(0, 0))

    assert len(split) == len("Ein schöner Hund!".encode()) + 1


def splits_of(dropout, tokenizer, pairs):
    ids, sizes = encode(tokenizer, "Understanding neighbourhoods, internationally.")
    return {
        (epoch, pair): dropout.split(ids, sizes, dropout.draw(epoch, pair))
        for epoch in range(2)
        for pair in pairs
    }


def test_a_split_depends_on_seed_epoch_and_pair_alone(en_de, monkeypatch):
    pairs = range(200)
    first = WordDropout(en_de, 0.3, seed=1)
    expected = splits_of(first, en_de, pairs)

    assert splits_of(pickle.loads(pickle.dumps(first)), en_de, pairs[::-1]) == expected
    monkeypatch.setattr(bpe_dropout, "REMEMBERED_OUTCOMES", 3)
    monkeypatch.setattr(bpe_dropout, "REMEMBERED_MERGES", 3)
    assert splits_of(WordDropout(en_de, 0.3, seed=1), en_de, pairs) == expected
    assert splits_of(WordDropout(en_de, 0.3, seed=2), en_de, pairs) != expected
    assert len(set(map(tuple, expected.values()))) > 200


def test_what_is_remembered_is_bounded_and_stays_behind(en_de, monkeypatch):
    monkeypatch.setattr(bpe_dropout, "REMEMBERED_OUTCOMES", 50)
    dropout = WordDropout(en_de, 0.3, seed=1)
    size = len(pickle.dumps(dropout))
    splits_of(dropout, en_de, range(200))

    assert len(dropout._known) + sum(len(one.lows) for one in dropout._known.values()) <= 50
    assert len(pickle.dumps(dropout)) <= size + 100


def test_special_tokens_are_never_split(en_de):
    dropout = WordDropout(en_de, 1.0, seed=1)

    assert dropout.split([1, 2, 0], [1, 1, 1], dropout.draw(0, 0)) == [1, 2, 0]


@pytest.mark.parametrize("probability", [-0.1, 1.1, float("nan")])
def test_what_is_no_probability_is_refused(probability, tiny_tokenizer):
    with pytest.raises(ValueError, match="probability must be between 0 and 1"):
        WordDropout(tiny_tokenizer, probability, seed=1)


def test_other_kinds_of_tokenizers_are_refused(toy_tokenizer):
    with pytest.raises(ValueError, match="needs a plain BPE tokenizer, got WordLevel"):
        WordDropout(toy_tokenizer, 0.1, seed=1)


def test_words_that_no_merges_make_are_refused(bundle):
    tokenizer = AutoTokenizer.from_pretrained(bundle)
    ids = tokenizer("dog")["input_ids"][:-1]
    dropout = WordDropout(tokenizer, 0.1, seed=1)
    spelled = [letter for index in ids for letter in dropout.letters[index]]

    with pytest.raises(ValueError, match="words as the tokenizer's merges make them"):
        dropout.split(spelled, [len(spelled)], dropout.draw(0, 0))
