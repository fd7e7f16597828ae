"""Models of many languages are looked at in those that they know; nothing changes for others."""

import copy

import pytest
from test_pipeline_tokenizers import LANGUAGES
from toy_models import BARTLIKE
from transformers import AutoModelForSeq2SeqLM, M2M100Config, MBartConfig

from vanilla_transformer.attention_maps import look

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
def test_a_given_target_is_read_to_its_end_token(family, of_many_languages):
    tokenizer, model = of_many_languages(family)
    source, goal, _ = LANGUAGES[family]

    maps = look(model, tokenizer, "the cat", "a dog", src_lang=source, tgt_lang=goal)

    assert maps.written.labels[-3:] == ("a", "dog", "</s>")
