"""The pipeline with the library's own tokenizers: each family has its way to say languages."""

import io
import json

import pytest
import torch
from toy_models import BARTLIKE, COMMON, T5_SIZES, text_of
from transformers import (
    AutoModelForSeq2SeqLM,
    M2M100Config,
    M2M100Tokenizer,
    MarianConfig,
    MarianTokenizer,
    MBart50Tokenizer,
    MBartConfig,
    MBartTokenizer,
    NllbTokenizer,
    T5Config,
    T5Tokenizer,
    pipeline,
)
from transformers.models.mbart import tokenization_mbart
from transformers.models.mbart50 import tokenization_mbart50

LANGUAGES = {
    "m2m100": ("en", "de", "fr"),
    "nllb": ("eng_Latn", "deu_Latn", "fra_Latn"),
    "mbart": ("en_XX", "de_DE", "fr_XX"),
    "mbart50": ("en_XX", "de_DE", "fr_XX"),
}
SENTENCES = ["the cat sees the dog", "a dog and a cat", "where is the house ?"]
TEXTS = ["the cat", "a dog and a cat\nwhere is the house ?", "the dog sees the cat"]
PREFIX = "where is the "
each_multilingual = pytest.mark.parametrize("family", LANGUAGES)
pytestmark = pytest.mark.filterwarnings("ignore:Recommended. pip install sacremoses")


def learn_pieces(folder):
    """A small vocabulary in the order of sentencepiece, and its model file."""
    sentencepiece = pytest.importorskip("sentencepiece")
    learned = io.BytesIO()
    sentencepiece.SentencePieceTrainer.train(
        sentence_iterator=iter(SENTENCES * 4),
        model_writer=learned,
        vocab_size=40,
        hard_vocab_limit=False,
        minloglevel=2,
    )
    (folder / "pieces.model").write_bytes(learned.getvalue())
    model = sentencepiece.SentencePieceProcessor(model_proto=learned.getvalue())
    pieces = [(model.id_to_piece(index), model.get_score(index)) for index in range(len(model))]
    return pieces[3:], str(folder / "pieces.model")


def build_tokenizers(folder):
    pieces, model = learn_pieces(folder)
    fairseq = [(word, 0.0) for word in ("<s>", "<pad>", "</s>", "<unk>")] + pieces

    def write(name, words):
        path = folder / f"{name}.json"
        path.write_text(json.dumps({word: index for index, word in enumerate(words)}))
        return str(path)

    def coded(codes):
        return [*fairseq, *((code, 0.0) for code in codes), ("<mask>", 0.0)]

    words = [word for word, _ in pieces]
    t5 = [(word, 0.0) for word in ("<pad>", "</s>", "<unk>")] + pieces
    extras = [(f"<extra_id_{index}>", 0.0) for index in range(99, -1, -1)]
    letters = dict.fromkeys("▁" + "".join(SENTENCES).replace(" ", ""))
    nllb = [*(word for word, _ in fairseq[:4]), *letters]
    return {
        "marian": MarianTokenizer(
            model, model, write("marian", ["</s>", "<unk>", *words, "<pad>"]), **MARIAN
        ),
        "m2m100": M2M100Tokenizer(write("m2m100", [word for word, _ in fairseq]), model),
        "nllb": NllbTokenizer(vocab={word: index for index, word in enumerate(nllb)}, merges=[]),
        "mbart": MBartTokenizer(vocab=coded(tokenization_mbart.FAIRSEQ_LANGUAGE_CODES)),
        "mbart50": MBart50Tokenizer(vocab=coded(tokenization_mbart50.FAIRSEQ_LANGUAGE_CODES)),
        "t5": T5Tokenizer(vocab=[*t5, *extras]),
    }


MARIAN = {"source_lang": "en", "target_lang": "de"}
CONFIGS = {
    "marian": MarianConfig,
    "m2m100": M2M100Config,
    "nllb": M2M100Config,
    "mbart": MBartConfig,
    "mbart50": MBartConfig,
    "t5": T5Config,
}


@pytest.fixture(scope="module")
def folder(tmp_path_factory):
    """A folder for each family."""
    folder = tmp_path_factory.mktemp("families")
    torch.manual_seed(0)
    for family, tokenizer in build_tokenizers(folder).items():
        sizes = {**COMMON, **T5_SIZES} if family == "t5" else BARTLIKE
        ids = {name: getattr(tokenizer, name) for name in ("pad_token_id", "eos_token_id")}
        start = ids["pad_token_id" if family in ("t5", "marian") else "eos_token_id"]
        vocabulary = len(tokenizer) + (120 if family == "m2m100" else 0)  # languages lie apart
        words = {"vocab_size": vocabulary, "decoder_start_token_id": start, **ids}
        config = CONFIGS[family](**{**sizes, **words})
        if family == "t5":
            task = {"prefix": PREFIX, "num_beams": 2, "max_length": 8}
            config.task_specific_params = {"translation_en_to_de": task}
        AutoModelForSeq2SeqLM.from_config(config).save_pretrained(folder / family)
        tokenizer.save_pretrained(folder / family)
    return folder


def load(folder, family, task="translation", **options):
    options = {"num_beams": 2, "max_new_tokens": 7, **options}
    return pipeline(task, model=str(folder / family), **options)


def by_hand(translate, text, **settings):
    """Tokenize, generate and decode one line."""
    inputs = translate.tokenizer(text, return_tensors="pt")
    settings = {"num_beams": 2, "max_new_tokens": 7, **settings}
    inputs.pop("token_type_ids", None)
    ids = translate.model.generate(**inputs, **settings)[0]
    return ids, translate.tokenizer.decode(ids, skip_special_tokens=True)


@each_multilingual
def test_both_languages_reach_the_model(family, folder):
    translate = load(folder, family)
    source, target, other = LANGUAGES[family]
    [record] = translate(TEXTS[0], src_lang=source, tgt_lang=target, return_tensors=True)
    ids = record["translation_token_ids"]
    translate.tokenizer.src_lang = source
    codes = {
        code: translate.tokenizer._build_translation_inputs(
            ["."], return_tensors=None, src_lang=source, tgt_lang=code
        )["forced_bos_token_id"]
        for code in (target, other)
    }
    expected, text = by_hand(translate, TEXTS[0], forced_bos_token_id=codes[target])

    assert len(set(codes.values())) == 2
    assert ids[1] == codes[target]
    assert ids.tolist() == expected[: len(ids)].tolist()
    assert text_of(translate(TEXTS[0], src_lang=source, tgt_lang=target)) == text
    [record] = translate(TEXTS[0], src_lang=source, tgt_lang=other, return_tensors=True)
    assert record["translation_token_ids"][1] == codes[other]


@each_multilingual
def test_languages_may_be_told_in_three_places(family, folder):
    source, target, other = LANGUAGES[family]
    languages = {"src_lang": source, "tgt_lang": target}
    expected = load(folder, family)(TEXTS, **languages)

    assert load(folder, family, f"translation_{source}_to_{target}")(TEXTS) == expected
    told = load(folder, family, **languages)
    assert told(TEXTS) == expected
    assert told(TEXTS, tgt_lang=other) == load(folder, family)(
        TEXTS, src_lang=source, tgt_lang=other
    )
    assert told(TEXTS) == expected
    assert [told(text)[0] for text in TEXTS] == expected


@each_multilingual
def test_a_language_that_is_not_told_is_refused(family, folder):
    translate = load(folder, family)
    for languages in ({}, {"src_lang": LANGUAGES[family][0]}):
        with pytest.raises(ValueError, match="src_lang"):
            translate(TEXTS[0], **languages)


@each_multilingual
@pytest.mark.parametrize("name", ["src_lang", "tgt_lang"])
def test_a_language_that_the_tokenizer_does_not_know_is_refused(name, family, folder):
    translate = load(folder, family)
    source, target, _ = LANGUAGES[family]
    languages = {"src_lang": source, "tgt_lang": target, name: "klingon"}
    with pytest.raises(ValueError, match=f"{name} must be one of .* got 'klingon'"):
        translate(TEXTS[0], **languages)
    translate(TEXTS[0], src_lang=source, tgt_lang=target)


@pytest.mark.parametrize("family", ["marian", "t5"])
def test_languages_change_nothing_where_there_is_one_pair(family, folder):
    translate = load(folder, family, "translation_en_to_de")

    assert translate(TEXTS, src_lang="en", tgt_lang="fr") == translate(TEXTS)


def test_marian_s_tokenizer_is_followed(folder):
    translate = load(folder, "marian")

    assert text_of(translate(TEXTS[0])) == by_hand(translate, TEXTS[0])[1]
    assert text_of(translate(TEXTS[1])) == "\n".join(
        by_hand(translate, line)[1] for line in TEXTS[1].splitlines()
    )
    [record] = translate(TEXTS[0], return_alignment=True)
    for start, end, _, _ in record["alignment"]:
        assert TEXTS[0][start:end] in TEXTS[0].split()


def test_the_prefix_and_limits_of_t5_are_those_of_its_task(folder):
    path = str(folder / "t5")
    with pytest.warns(UserWarning, match="translation_en_to_de"):
        translate = pipeline("translation", model=path)
    named = pipeline("translation_en_to_de", model=path)
    other = load(folder, "t5", "translation_en_to_fr")

    assert translate.task == "translation_en_to_de"
    lines = [by_hand(translate, PREFIX + line)[1] for line in TEXTS[1].splitlines()]
    assert text_of(named(TEXTS[1])) == text_of(translate(TEXTS[1])) == "\n".join(lines)
    assert text_of(other(TEXTS[0])) == by_hand(translate, TEXTS[0])[1]
