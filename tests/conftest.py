"""Two layers, width 16, a handful of short sentences: what every test may ask for.

Seeds are set here and nowhere else: before each test, and by hypothesis before each example.
"""

import time
from contextlib import contextmanager
from pathlib import Path

import pytest
import torch
from hub_stub import running_hub
from huggingface_hub import constants
from hypothesis import HealthCheck, register_random, settings
from scripts.toy_translation import make_tokenizer
from small_training import prepare_training
from torch.nn.utils.rnn import pad_sequence
from toy_models import build_models
from transformers import AutoTokenizer, BertTokenizer, ByT5Tokenizer, pipeline
from transformers.utils import logging

from tokenizer.train import Options, make_bundle
from training.embed import write_model
from vanilla_transformer import (
    VanillaTransformerConfig,
    VanillaTransformerForConditionalGeneration,
    attention_plan,
    embedded_models,
    generation_call,
)

TINY = {
    "vocab_size": 40,
    "d_model": 16,
    "encoder_layers": 2,
    "decoder_layers": 2,
    "encoder_attention_heads": 4,
    "decoder_attention_heads": 2,
    "encoder_ffn_dim": 32,
    "decoder_ffn_dim": 24,
    "max_position_embeddings": 32,
}
WORD_PIECES = "[PAD] [UNK] [CLS] [SEP] [MASK] it isn ' t a dog . the cafe cat"
FIRST_WORD, WORDS = 3, 30  # ids below are padding, start and end; the others fit any vocabulary
LENGTHS = [(5, 7), (3, 3), (9, 4), (6, 6)]  # of source and target, the end included
PLACE_OF_FILES = "{repo_id}/resolve/{revision}/{filename}"
SENTENCES = """\
The quick brown fox jumps over the dog.\tDer schnelle braune Fuchs springt über den Hund.
Where is the train station?\tWo ist der Bahnhof?
Two dogs are playing in the snow.\tZwei Hunde spielen im Schnee.
It's 1,234.50 euros, isn't it?\tDas sind 1.234,50 Euro, nicht wahr?
A man with a red hat is looking at the children.\tEin Mann mit rotem Hut schaut die Kinder an.
"""

# All three compute the same; which one a forward pass takes depends on its lengths.
WAYS = {
    "packed": {},
    "products": {"PACKED_PAIRS": -1},
    "kernel": {"PACKED_PAIRS": -1, "EXPLICIT_PAIRS": -1},
}


class TorchGenerator:
    """The generator of torch, as hypothesis wants to see one."""

    seed = staticmethod(torch.manual_seed)
    getstate = staticmethod(torch.get_rng_state)
    setstate = staticmethod(torch.set_rng_state)


torch_generator = TorchGenerator()  # hypothesis only keeps a weak reference
register_random(torch_generator)
settings.register_profile(
    "vanilla",
    deadline=None,
    derandomize=True,
    max_examples=25,
    suppress_health_check=[HealthCheck.function_scoped_fixture, HealthCheck.too_slow],
)
settings.load_profile("vanilla")
torch.set_num_threads(1)


@pytest.fixture(autouse=True)
def with_progress_bars():
    """Commands that a test runs in this process may have hidden the library's."""
    logging.enable_progress_bar()


@pytest.fixture(autouse=True)
def seeded():
    torch.manual_seed(0)


@pytest.fixture
def tiny_config():
    return VanillaTransformerConfig(**TINY)


@pytest.fixture(scope="session")
def build_tiny():
    """The tiny model with some fields changed; no bias is 0 and no norm 1: none can be left out."""

    def build(**changes):
        model = VanillaTransformerForConditionalGeneration(
            VanillaTransformerConfig(**{**TINY, **changes})
        )
        with torch.no_grad():
            for parameter in model.parameters():
                parameter.add_(torch.randn_like(parameter), alpha=0.1)
        return model.eval()

    return build


@pytest.fixture
def tiny_model(build_tiny):
    return build_tiny()


@pytest.fixture(scope="session")
def make_batch():
    """What a collator makes of random sentences whose lengths are given: padded on the right."""

    def sentence(length):
        return torch.cat([torch.randint(FIRST_WORD, WORDS, (length - 1,)), torch.tensor([2])])

    def make(lengths):
        sources, targets = zip(*([sentence(n) for n in pair] for pair in lengths), strict=True)
        return {
            "input_ids": pad_sequence(sources, batch_first=True, padding_value=0),
            "attention_mask": pad_sequence([torch.ones_like(s) for s in sources], batch_first=True),
            "labels": pad_sequence(targets, batch_first=True, padding_value=-100),
        }

    return make


@pytest.fixture
def sentence_pairs(make_batch):
    return make_batch(LENGTHS)


@pytest.fixture(scope="session")
def bundle(tmp_path_factory):
    """The folder of a small tokenizer."""
    folder = tmp_path_factory.mktemp("bundle")
    corpus = folder / "corpus.tsv"
    corpus.write_text(SENTENCES, encoding="utf-8")
    make_bundle([str(corpus)], folder / "tiny", Options(vocabulary_size=400))
    return folder / "tiny"


@pytest.fixture(scope="session")
def tiny_tokenizer(bundle):
    return AutoTokenizer.from_pretrained(bundle)


@pytest.fixture(scope="session")
def en_de():
    """The tokenizer that ships."""
    return AutoTokenizer.from_pretrained(Path(__file__).parents[1] / "tokenizer" / "en-de")


@pytest.fixture(scope="session")
def stand_in(tmp_path_factory, build_tiny, en_de):
    """A folder of embedded models: en-de-small has learned nothing yet."""
    folder = tmp_path_factory.mktemp("embedded")
    model = build_tiny(vocab_size=len(en_de), max_position_embeddings=256)
    write_model(model, en_de, folder / embedded_models.DEFAULT_MODEL)
    return folder


@pytest.fixture
def with_stand_in(stand_in, monkeypatch):
    """The package embeds the stand-in, and nothing else."""
    monkeypatch.setattr(embedded_models, "EMBEDDED", stand_in)
    return str(stand_in / embedded_models.DEFAULT_MODEL)


@pytest.fixture(params=WAYS)
def way(request, monkeypatch):
    """Run the test once for each way of computing attention."""
    for name, pairs in WAYS[request.param].items():
        monkeypatch.setattr(attention_plan, name, pairs)
    return request.param


@pytest.fixture(scope="session")
def small_training(tmp_path_factory):
    """The folder of a small training run's recipe, texts and tokenizer."""
    folder = tmp_path_factory.mktemp("training")
    prepare_training(folder)
    return folder


@pytest.fixture(scope="session")
def toy_tokenizer():
    return make_tokenizer()


@pytest.fixture(scope="session")
def tokenizers(tmp_path_factory, tiny_tokenizer):
    """Small tokenizers of many families: with and without offsets, unknown words, bytes."""
    from test_pipeline_tokenizers import build_tokenizers

    return {
        **build_tokenizers(tmp_path_factory.mktemp("families")),
        "bert": BertTokenizer({word: index for index, word in enumerate(WORD_PIECES.split())}),
        "byt5": ByT5Tokenizer(),
        "ours": tiny_tokenizer,
    }


@pytest.fixture(scope="session")
def toy_models():
    return build_models()


@pytest.fixture
def translators(toy_models, toy_tokenizer):
    return {
        name: pipeline("translation", model=model, tokenizer=toy_tokenizer, max_new_tokens=12)
        for name, model in toy_models.items()
    }


@pytest.fixture
def translate(translators):
    return translators["ours"]


@pytest.fixture
def attentive_model(build_tiny):
    """Its words depend on its source; with tied embeddings it would say one word for ever."""
    model = build_tiny(tie_word_embeddings=False)
    with torch.no_grad():
        for layer in model.model.decoder.layers:
            layer.encoder_attn.out_proj.weight.mul_(2)
    return model


@pytest.fixture
def is_plain(monkeypatch):
    """What each call was found to be."""
    found, ask = [], generation_call.GenerationCall.is_plain

    def remember(call):
        found.append(ask(call))
        return found[-1]

    monkeypatch.setattr(generation_call.GenerationCall, "is_plain", remember)
    return found


@pytest.fixture
def source(sentence_pairs):
    return {name: sentence_pairs[name] for name in ("input_ids", "attention_mask")}


@pytest.fixture
def at_hub(monkeypatch, tmp_path):
    """Send what is meant for the Hub to a stub of it, and nobody waits; `hub.waits` says how long.

    Others set HF_ENDPOINT, HF_HUB_DISABLE_XET and HF_TOKEN before they start Python.
    """

    @contextmanager
    def go(token="hf_writer", **settings):
        with running_hub(**settings) as hub, monkeypatch.context() as patch:
            hub.waits = []
            patch.setattr(constants, "ENDPOINT", hub.url)
            patch.setattr(constants, "HUGGINGFACE_CO_URL_TEMPLATE", f"{hub.url}/{PLACE_OF_FILES}")
            patch.setattr(
                "transformers.utils.hub._hf_api", None
            )  # it remembers where it went first
            patch.setattr(constants, "HF_HUB_DISABLE_XET", True)
            patch.setattr(constants, "HF_HUB_CACHE", str(tmp_path / "hub-cache"))
            patch.setattr(constants, "HF_TOKEN_PATH", str(tmp_path / "no-token"))
            patch.delenv("HF_TOKEN", raising=False)
            if token:
                patch.setenv("HF_TOKEN", token)
            patch.setattr(time, "sleep", hub.waits.append)
            yield hub

    return go
