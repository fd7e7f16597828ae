"""Word by word gives what the library gives for whole texts, whatever was called before."""

import copy
import pickle
from concurrent.futures import ThreadPoolExecutor

import pytest
from hypothesis import given
from hypothesis import strategies as st
from tokenizers import Regex, normalizers, pre_tokenizers, processors
from transformers import TokenizersBackend

from vanilla_transformer import word_by_word
from vanilla_transformer.word_by_word import LazilyFastEncoding, settings_of

TEXTS = [
    "",
    " ",
    "  two  blanks ",
    "a\n b\t c",
    "</s> <pad>",
    "It's 1,234!",
    "\u00fc" * 100,
    "\x00",
]
SPACED = st.text(st.characters(exclude_categories=["Cs"]) | st.sampled_from("   \n\tab1.,"))


@pytest.fixture(scope="module")
def library(bundle):
    return TokenizersBackend.from_pretrained(bundle)


def is_word_by_word(batch):
    return type(batch) is LazilyFastEncoding


@given(texts=st.lists(SPACED, min_size=1))
def test_ids_are_those_of_the_library(texts, tiny_tokenizer, library):
    ours = tiny_tokenizer(texts)

    assert is_word_by_word(ours)
    assert ours == library(texts)


def test_asking_for_more_than_ids_gives_what_the_library_gives(tiny_tokenizer, library):
    ours, theirs = tiny_tokenizer(TEXTS), library(TEXTS)

    assert ours.is_fast
    assert ours.n_sequences == theirs.n_sequences
    for row in range(len(TEXTS)):
        assert ours.tokens(row) == theirs.tokens(row)
        assert ours.word_ids(row) == theirs.word_ids(row)
    assert pickle.loads(pickle.dumps(ours)).tokens(5) == theirs.tokens(5)


@pytest.mark.parametrize(
    "options",
    [
        {"padding": True},
        {"truncation": True, "max_length": 4},
        {"return_tensors": "pt", "padding": True},
        {"return_offsets_mapping": True},
        {"return_special_tokens_mask": True},
        {"return_attention_mask": False},
        {"return_length": True},
        {"add_special_tokens": False},
        {"split_special_tokens": False},
        {"truncation": True, "max_length": 4, "return_overflowing_tokens": True},
    ],
    ids=str,
)
def test_other_wishes_are_the_library_s_and_leave_no_trace(options, tiny_tokenizer, library):
    ours, theirs = tiny_tokenizer(TEXTS, **options), library(TEXTS, **options)

    assert not is_word_by_word(ours)
    assert ours.keys() == theirs.keys()
    for name in ours:
        assert str(ours[name]) == str(theirs[name])
    assert tiny_tokenizer(["an unseen " + str(options)]) == library(["an unseen " + str(options)])


def test_a_token_added_later_is_found(tiny_tokenizer):
    tokenizer = copy.deepcopy(tiny_tokenizer)
    before = tokenizer(["a [NEW WORD] b"]).input_ids

    tokenizer.add_tokens(["[NEW WORD]"])

    after = tokenizer(["a [NEW WORD] b"])
    assert len(after.input_ids[0]) < len(before[0])
    assert not is_word_by_word(after)


def test_a_special_token_added_later_stays_text(tiny_tokenizer):
    tokenizer = copy.deepcopy(tiny_tokenizer)
    before = tokenizer(["a <x> b"])

    tokenizer.add_special_tokens({"extra_special_tokens": ["<x>"]})

    assert tokenizer(["a <x> b"]) == before


def test_another_template_is_followed(tiny_tokenizer):
    tokenizer = copy.deepcopy(tiny_tokenizer)
    tokenizer(["a"])

    tokenizer.backend_tokenizer.post_processor = processors.TemplateProcessing(
        single="<s> $A </s> </s>", special_tokens=[("<s>", 1), ("</s>", 2)]
    )

    batch = tokenizer(["a b"])
    assert is_word_by_word(batch)
    assert batch.input_ids[0] == tokenizer("a b").input_ids
    assert batch.input_ids[0][0] == 1


@pytest.mark.parametrize(
    "change",
    [
        lambda backend: setattr(backend, "normalizer", normalizers.NFC()),
        lambda backend: setattr(backend, "pre_tokenizer", pre_tokenizers.ByteLevel()),
        lambda backend: setattr(
            backend,
            "pre_tokenizer",
            pre_tokenizers.Sequence(
                [pre_tokenizers.Split(Regex(".+"), "isolated"), pre_tokenizers.ByteLevel()]
            ),
        ),
        lambda backend: setattr(backend.model, "dropout", 0.5),
    ],
)
def test_where_words_depend_on_one_another_nothing_is_remembered(change, tiny_tokenizer):
    backend = copy.deepcopy(tiny_tokenizer.backend_tokenizer)
    assert settings_of(backend) is not None

    change(backend)

    assert settings_of(backend) is None


def test_a_full_memory_forgets_and_stays_right(tiny_tokenizer, library, monkeypatch):
    monkeypatch.setattr(word_by_word, "REMEMBERED_WORDS", 3)
    tokenizer = copy.deepcopy(tiny_tokenizer)
    texts = [f"word{number} other{number}" for number in range(50)]

    assert tokenizer(texts) == library(texts)
    assert tokenizer(texts[::-1]) == library(texts[::-1])


def test_threads_do_not_disturb_each_other(tiny_tokenizer, library):
    texts = [f"sentence number {number}, said </s>" for number in range(200)]
    expected = library(texts).input_ids

    def call(number):
        if number % 3 == 0:
            tiny_tokenizer(texts[:2], truncation=True, max_length=3, padding=True)
        return tiny_tokenizer(texts).input_ids

    with ThreadPoolExecutor(8) as threads:
        assert all(ids == expected for ids in threads.map(call, range(60)))
