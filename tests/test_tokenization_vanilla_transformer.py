"""Every text comes back, none becomes a special token, and bad input is told what is wrong."""

import gzip
import itertools
import json
import pickle
import shutil
from pathlib import Path

import numpy as np
import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st
from scripts.fresh_process import run_fresh
from transformers import AutoTokenizer, PreTrainedTokenizerFast, TokenizersBackend

import vanilla_transformer
from vanilla_transformer import VanillaTransformerTokenizer

SHARED_DATA = Path(__file__).resolve().parents[2] / "shared" / "data"
HARD_TEXTS = [
    "",
    " ",
    "\n",
    "\r\n\r",
    "  leading, trailing  ",
    "many     blanks\t\ttabs\n\n\nlines",
    "\x00 \x1b[31m \x7f \x85 \u2028 \u2029 \ufeff \ufffd \ufffe \U0010ffff",
    "e\u0301 \u00e9 \u1112\u1161\u11ab \ud55c \ufb01 \u212b",
    "\U0001f469\u200d\U0001f469\u200d\U0001f467 \U0001f1e9\U0001f1ea",
    "\u2764\ufe0f \U0001f44d\U0001f3fd",
    "\u0645\u0631\u062d\u0628\u0627 \u202eabc\u202c \u05e9\u05dc\u05d5\u05dd",
    "\u0928\u092e\u0938\u094d\u0924\u0947 \u4f60\u597d \u3053\u3093 \U00020000",
    "</s><pad> <s>a</s> <unused0> <|endoftext|>",
    "It's 1,234.50 EUR (3%) \u201eQuote\u201c!?",
]
PLANES = st.characters(exclude_categories=["Cs"])  # every character but halves of characters
PIECES = st.one_of(
    st.text(PLANES, max_size=12),
    st.sampled_from([*HARD_TEXTS, "the ", " der", "\u0308", "\u200d", "12", "'s"]),
)
TEXTS = st.lists(PIECES, max_size=4).map("".join)


def come_back(tokenizer, texts):
    ids = tokenizer(texts, verbose=False).input_ids
    return tokenizer.batch_decode(ids, skip_special_tokens=True)


@pytest.mark.parametrize("text", HARD_TEXTS)
def test_a_hard_text_comes_back(text, tiny_tokenizer):
    assert tiny_tokenizer.decode(tiny_tokenizer.encode(text), skip_special_tokens=True) == text


@settings(max_examples=50)
@given(texts=st.lists(TEXTS, min_size=40, max_size=40))
def test_every_text_comes_back(texts, tiny_tokenizer):
    assert come_back(tiny_tokenizer, texts) == texts


@pytest.mark.slow
@settings(max_examples=400)
@given(texts=st.lists(TEXTS, min_size=500, max_size=500))
def test_200_000_texts_come_back(texts, en_de):
    assert come_back(en_de, texts) == texts


@pytest.mark.parametrize("unit", ["a", " ", "\n", "\u751f", "!?", "e\u0301", "</s>", "Wort ", "1"])
def test_a_million_characters_come_back(unit, tiny_tokenizer):
    text = unit * (1_000_000 // len(unit))

    assert come_back(tiny_tokenizer, [text]) == [text]


@pytest.mark.slow
@pytest.mark.skipif(not SHARED_DATA.exists(), reason="needs the shared corpora")
def test_every_line_of_the_shared_corpora_comes_back(en_de):
    lines = (line for file in sorted(SHARED_DATA.rglob("*.gz")) for line in sentences_of(file))
    while batch := list(itertools.islice(lines, 10_000)):
        assert come_back(en_de, batch) == batch


def sentences_of(file):
    with gzip.open(file, "rt", encoding="utf-8", newline="\n") as stream:
        for line in stream:
            if ".jsonl" in file.name:
                row = json.loads(line)
                yield from (row["en"], row["de"])
            else:
                yield line


@given(text=TEXTS)
def test_no_text_becomes_a_special_token(text, tiny_tokenizer):
    *words, last = tiny_tokenizer.encode(text)

    assert last == tiny_tokenizer.eos_token_id
    assert not set(words) & set(tiny_tokenizer.added_tokens_decoder)


@given(text=TEXTS, data=st.data())
def test_ids_cut_anywhere_decode_to_text(text, data, tiny_tokenizer):
    ids = tiny_tokenizer.encode(text)
    start, end = sorted(data.draw(st.tuples(*[st.integers(0, len(ids))] * 2)))

    (decoded,) = tiny_tokenizer.batch_decode([ids[start:end]], skip_special_tokens=True)

    assert decoded.replace("\ufffd", "") in text or "\ufffd" in decoded


def test_source_and_target_end_with_the_end_token(tiny_tokenizer):
    batch = tiny_tokenizer(["A dog.", "Two"], text_target=["Ein Hund.", "Zwei"])

    assert {ids[-1] for ids in batch["input_ids"] + batch["labels"]} == {2}
    assert batch["labels"] == tiny_tokenizer(["Ein Hund.", "Zwei"])["input_ids"]


def test_a_batch_is_padded_on_the_right(tiny_tokenizer):
    batch = tiny_tokenizer(["A", "A longer sentence"], padding=True, return_tensors="pt")
    alone = tiny_tokenizer("A", return_tensors="pt").input_ids[0]

    assert batch.input_ids[0, : len(alone)].equal(alone)
    assert not batch.input_ids[0, len(alone) :].any()
    assert batch.attention_mask.equal((batch.input_ids != 0).long())


def test_an_added_token_that_would_come_back_garbled_is_refused(bundle):
    tokenizer = AutoTokenizer.from_pretrained(bundle)

    with pytest.raises(ValueError, match="must be ASCII, got 'M\u00fcnchen'"):
        tokenizer.add_tokens(["M\u00fcnchen"])
    tokenizer.add_tokens(["[x]"])
    assert come_back(tokenizer, ["in M\u00fcnchen [x]"]) == ["in M\u00fcnchen [x]"]


def test_an_over_long_text_is_whole_or_truncated_on_request(tiny_tokenizer):
    text = "word " * tiny_tokenizer.model_max_length

    assert len(tiny_tokenizer(text).input_ids) > tiny_tokenizer.model_max_length
    truncated = tiny_tokenizer(text, truncation=True).input_ids
    assert len(truncated) == tiny_tokenizer.model_max_length
    assert truncated[-1] == tiny_tokenizer.eos_token_id


def test_an_empty_batch_gives_an_empty_batch(tiny_tokenizer):
    assert tiny_tokenizer([]) == {"input_ids": [], "attention_mask": []}
    assert len(tiny_tokenizer([], return_tensors="pt").input_ids) == 0


def test_a_sentence_without_its_pair_is_refused(tiny_tokenizer):
    with pytest.raises(ValueError, match="does not match"):
        tiny_tokenizer([], ["x"])


def test_pairs_and_words_are_encoded_as_by_the_library(tiny_tokenizer, bundle):
    library = TokenizersBackend.from_pretrained(bundle)

    for arguments in (("a", "b"), (["a", "c"], ["b", "d"])):
        assert tiny_tokenizer(*arguments) == library(*arguments)
    words = [["Two", " dogs"], []]
    assert tiny_tokenizer(words, is_split_into_words=True) == library(
        words, is_split_into_words=True
    )
    pair = tiny_tokenizer("a", "b").input_ids
    assert pair == tiny_tokenizer("a").input_ids + tiny_tokenizer("b").input_ids


@pytest.mark.parametrize(
    ("text", "complaint"),
    [
        (b"bytes", "got bytes as text: decode"),
        (["fine", b"bytes"], r"got bytes as text\[1\]: decode"),
        ([None], r"got None as text\[0\]: leave the row out"),
        (["fine", None], r"got None as text\[1\]"),
        (["fine", float("nan")], r"got nan as text\[1\]"),
        (7, "got 7 as text"),
        (np.array(["a"]), r"must be a list, got a ndarray as text: list\("),
        ("cut \ud83d", r"lone surrogate '\\ud83d' at character 4 of text,"),
        (["fine", "\ude00 cut"], r"lone surrogate '\\ude00' at character 0 of text\[1\]"),
    ],
)
def test_what_is_no_text_is_refused_with_its_place(text, complaint, tiny_tokenizer):
    for how in ({"text": text}, {"text_target": text}):
        with pytest.raises(ValueError, match=complaint):
            tiny_tokenizer(**how)


def test_nothing_at_all_is_refused(tiny_tokenizer):
    with pytest.raises(ValueError, match="`text` or `text_target`"):
        tiny_tokenizer(None)


@pytest.mark.parametrize("convert", [list, np.array, torch.tensor])
def test_decoding_labels_of_minus_100_says_what_to_do(convert, tiny_tokenizer):
    with pytest.raises(ValueError, match=r"between 0 and \d+, got .*-100.*pad_token_id"):
        tiny_tokenizer.batch_decode([convert([5, -100, -100])])


def test_auto_tokenizer_gives_our_class_and_the_same_ids(tiny_tokenizer, bundle):
    loaded = AutoTokenizer.from_pretrained(bundle)

    assert type(loaded) is VanillaTransformerTokenizer
    assert loaded(HARD_TEXTS) == tiny_tokenizer(HARD_TEXTS)
    assert loaded.model_max_length == 1024
    assert loaded.padding_side == "right"


@pytest.mark.parametrize("library_class", [PreTrainedTokenizerFast, TokenizersBackend])
def test_the_library_s_own_classes_read_a_bundle(library_class, tiny_tokenizer, bundle):
    loaded = library_class.from_pretrained(bundle)

    assert loaded(HARD_TEXTS).input_ids == tiny_tokenizer(HARD_TEXTS).input_ids
    assert come_back(loaded, HARD_TEXTS) == HARD_TEXTS


def test_a_saved_tokenizer_is_the_same_again(tiny_tokenizer, tmp_path):
    tiny_tokenizer.save_pretrained(tmp_path / "once")
    AutoTokenizer.from_pretrained(tmp_path / "once").save_pretrained(tmp_path / "twice")

    for file in (tmp_path / "once").iterdir():
        assert file.read_bytes() == (tmp_path / "twice" / file.name).read_bytes()


def test_a_pickled_tokenizer_is_the_same_again(tiny_tokenizer):
    again = pickle.loads(pickle.dumps(tiny_tokenizer))

    assert again(HARD_TEXTS) == tiny_tokenizer(HARD_TEXTS)


WITHOUT_THE_PACKAGE = """
import json, sys
from scripts import without_package
from transformers import AutoTokenizer
folder, texts, trust = json.loads(sys.argv[1])
tokenizer = AutoTokenizer.from_pretrained(folder, trust_remote_code=trust)
ids = tokenizer(texts).input_ids
decoded = tokenizer.batch_decode(ids, skip_special_tokens=True)
print(json.dumps([type(tokenizer).__name__, ids, decoded]))
"""


@pytest.mark.parametrize(
    ("kind", "class_name"),
    [("bundle", "TokenizersBackend"), ("hub folder", "VanillaTransformerTokenizer")],
)
def test_it_loads_offline_without_the_package(
    kind, class_name, bundle, tiny_tokenizer, build_tiny, tmp_path
):
    folder = bundle
    if kind == "hub folder":
        folder = tmp_path / "hub"
        build_tiny(vocab_size=len(tiny_tokenizer)).save_pretrained(folder)
        tiny_tokenizer.save_pretrained(folder)
    arguments = json.dumps([str(folder), HARD_TEXTS, kind == "hub folder"])

    told = run_fresh(
        "-c", WITHOUT_THE_PACKAGE, arguments, folder=tmp_path, PYTHONPATH=str(Path(__file__).parent)
    )

    assert json.loads(told) == [class_name, tiny_tokenizer(HARD_TEXTS).input_ids, HARD_TEXTS]


def test_with_the_package_a_hub_folder_s_tokenizer_needs_no_trust(
    build_tiny, tiny_tokenizer, tmp_path
):
    build_tiny(vocab_size=len(tiny_tokenizer)).save_pretrained(tmp_path)
    tiny_tokenizer.save_pretrained(tmp_path)

    assert type(AutoTokenizer.from_pretrained(tmp_path)) is VanillaTransformerTokenizer


def test_a_saved_dropout_is_not_active_after_loading(bundle, tmp_path):
    shutil.copytree(bundle, tmp_path, dirs_exist_ok=True)
    saved = json.loads((tmp_path / "tokenizer.json").read_text())
    saved["model"]["dropout"] = 0.9
    (tmp_path / "tokenizer.json").write_text(json.dumps(saved))

    loaded = VanillaTransformerTokenizer.from_pretrained(tmp_path)

    assert loaded(HARD_TEXTS) == AutoTokenizer.from_pretrained(bundle)(HARD_TEXTS)


def test_the_package_names_its_tokenizer():
    assert "VanillaTransformerTokenizer" in vanilla_transformer.__all__
    assert vanilla_transformer.VanillaTransformerTokenizer is VanillaTransformerTokenizer
