"""Every token belongs to a word of the text itself, whatever its tokenizer makes of that text."""

from types import SimpleNamespace

import pytest

from vanilla_transformer.token_words import words_of_tokens

TEXTS = {
    "an unknown word": "the cat 日本 sees the dog",
    "two unknown words": "日本 中国, a house",
    "nothing but unknown words": "кот сидит тут",
    "words that are cut": "It isn't a dog.",
    "accents": "a café the cat",
    "many blanks": "the  cat\t sees   a dog",
}
FAMILIES = ("marian", "nllb", "mbart", "mbart50", "t5", "bert", "byt5", "ours")
pytestmark = pytest.mark.filterwarnings("ignore:Recommended. pip install sacremoses")


def words_of(tokenizer, ids, text):
    def decode(some):
        return tokenizer.decode(some, skip_special_tokens=True, clean_up_tokenization_spaces=False)

    return words_of_tokens(tokenizer, ids, text, decode)


def without_offsets(tokenizer):
    """The same tokenizer as one that does not know where its tokens stand."""
    roles = ("unk_token_id", "bos_token_id", "eos_token_id", "pad_token_id", "all_special_ids")
    known = {role: getattr(tokenizer, role) for role in roles}
    return SimpleNamespace(is_fast=False, decode=tokenizer.decode, **known)


@pytest.mark.parametrize("text", TEXTS.values(), ids=TEXTS)
@pytest.mark.parametrize("family", FAMILIES)
def test_tokens_of_a_text_are_tokens_of_its_words_alone(family, text, tokenizers):
    tokenizer = tokenizers[family]
    special = set(tokenizer.all_special_ids) - {tokenizer.unk_token_id}
    ids = tokenizer(text)["input_ids"]

    words = words_of(tokenizer, ids, text)

    assert [word is None for word in words] == [token in special for token in ids]
    own = [word for word in words if word is not None]
    assert own == sorted(own)
    assert set(own) == set(range(len(text.split())))


@pytest.mark.parametrize("text", TEXTS.values(), ids=TEXTS)
@pytest.mark.parametrize("family", ["t5", "mbart", "ours"])
def test_letters_say_what_offsets_say(family, text, tokenizers):
    tokenizer = tokenizers[family]
    ids = tokenizer(text)["input_ids"]

    assert words_of(without_offsets(tokenizer), ids, text) == words_of(tokenizer, ids, text)


@pytest.mark.parametrize("family", ["t5", "marian", "ours"])
def test_words_cut_as_the_tokenizer_never_would_are_found(family, tokenizers):
    tokenizer = tokenizers[family]
    letters = [tokenizer(letter, add_special_tokens=False)["input_ids"] for letter in "the"]
    blank_cat = tokenizer("a cat", add_special_tokens=False)["input_ids"][1:]
    ids = [*(token for letter in letters for token in letter[-1:]), *blank_cat]

    assert words_of(tokenizer, ids, "the cat") == [0, 0, 0, *(1 for _ in blank_cat)]


def test_an_unknown_token_that_stands_for_nothing_has_no_word(tokenizers):
    tokenizer = tokenizers["marian"]
    cat, dog = (tokenizer(word)["input_ids"][0] for word in ("cat", "dog"))

    words = words_of(tokenizer, [cat, tokenizer.unk_token_id, dog], "cat dog")

    assert words == [0, None, 1]


def test_a_cut_text_has_the_words_that_are_left(tokenizers):
    tokenizer = tokenizers["t5"]
    whole = tokenizer("the cat 日本 sees the dog")["input_ids"]
    cut = tokenizer("the cat 日本 sees the dog", truncation=True, max_length=7)["input_ids"]

    words = words_of(tokenizer, cut, "the cat 日本 sees the dog")

    assert words == [*words_of(tokenizer, whole, "the cat 日本 sees the dog")[:6], None]


def test_a_blank_alone_belongs_to_the_word_behind_it_or_the_last(tokenizers):
    tokenizer = tokenizers["byt5"]

    assert words_of(tokenizer, tokenizer("a  ж ")["input_ids"], "a  ж ") == [0, 1, 1, 1, 1, 1, None]


def test_an_end_token_that_stands_for_the_unknown_too_has_no_word(tokenizers):
    tokenizer = without_offsets(tokenizers["byt5"])
    tokenizer.unk_token_id = tokenizer.eos_token_id

    assert words_of(tokenizer, tokenizers["byt5"]("a")["input_ids"], "a") == [0, None]
