"""Models of many languages are looked at in those that they know; nothing changes for others."""

import copy

import pytest
from test_pipeline_tokenizers import LANGUAGES
from toy_models import BARTLIKE, LINE, OTHER
from transformers import AutoModelForSeq2SeqLM, M2M100Config, MBartConfig

from vanilla_transformer.attention_maps import look
from vanilla_transformer.known_languages import check_languages

pytestmark = pytest.mark.filterwarnings("ignore:Recommended. pip install sacremoses")


@pytest.fixture
def of_many_languages(tokenizers):
    def build(family):
        tokenizer = copy.deepcopy(tokenizers[family])
        config = {"m2m100": M2M100Config, "nllb": M2M100Config}.get(family, MBartConfig)
        vocabulary = len(tokenizer) + 120  # M2M100's languages lie apart
        return tokenizer, AutoModelForSeq2SeqLM.from_config(
            config(**{**BARTLIKE, "vocab_size": vocabulary, "eos_token_id": tokenizer.eos_token_id})
        ).eval()

    return build


@pytest.mark.parametrize("family", LANGUAGES)
@pytest.mark.parametrize("name", ["src_lang", "tgt_lang"])
@pytest.mark.parametrize("target", [None, "a dog"])
def test_an_unknown_language_is_refused_and_changes_nothing(
    family, name, target, of_many_languages
):
    tokenizer, model = of_many_languages(family)
    source, goal, _ = LANGUAGES[family]
    before = tokenizer("the cat"), tokenizer.src_lang, tokenizer.tgt_lang

    for code in ("klingon", "</s>"):
        languages = {"src_lang": source, "tgt_lang": goal, name: code}
        with pytest.raises(ValueError, match=f"{name} must be one of the .* got '{code}'"):
            look(model, tokenizer, "the cat", target, **languages)

    assert (tokenizer("the cat"), tokenizer.src_lang, tokenizer.tgt_lang) == before


def test_languages_are_refused_where_there_is_one(toy_models, toy_tokenizer):
    with pytest.raises(ValueError, match=r"src_lang must be left out with .* got 'en'"):
        look(toy_models["marian"], toy_tokenizer, LINE, OTHER, src_lang="en")


@pytest.mark.parametrize("family", LANGUAGES)
def test_a_given_target_is_read_to_its_end_token(family, of_many_languages):
    tokenizer, model = of_many_languages(family)
    source, goal, _ = LANGUAGES[family]

    maps = look(model, tokenizer, "the cat", "a dog", src_lang=source, tgt_lang=goal)

    assert maps.written.labels[-3:] == ("a", "dog", "</s>")


class UnderscoringTokenizer:
    """As those of SeamlessM4T and PLBart: told `eng`, they look for `__eng__`."""

    all_special_tokens = ("<s>", "__eng__", "__deu__")

    def _build_translation_inputs(self):
        pass


def test_languages_may_be_told_without_the_underscores_of_their_tokens():
    check_languages(UnderscoringTokenizer(), {"src_lang": "eng", "tgt_lang": "__deu__"})
    with pytest.raises(ValueError, match="tgt_lang must be one of the 2 languages"):
        check_languages(UnderscoringTokenizer(), {"src_lang": "eng", "tgt_lang": "fra"})
