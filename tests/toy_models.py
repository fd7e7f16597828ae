"""Tiny models of four families that translate a toy language, badly but always alike."""

import pytest
import torch
from scripts.toy_translation import make_model
from transformers import AutoModelForSeq2SeqLM, BartConfig, MarianConfig, T5Config

COMMON = {"vocab_size": 52, "pad_token_id": 0, "eos_token_id": 2, "d_model": 16}
LAYERS = {"encoder_layers": 2, "decoder_layers": 2}
HEADS = {"encoder_attention_heads": 2, "decoder_attention_heads": 2}
SIZES = {**LAYERS, **HEADS, "encoder_ffn_dim": 16, "decoder_ffn_dim": 16}
BARTLIKE = {
    **COMMON,
    **SIZES,
    "decoder_start_token_id": 0,
    "forced_eos_token_id": None,
    "max_position_embeddings": 64,
    "init_std": 0.5,
}
T5_SIZES = {"d_kv": 8, "d_ff": 16, "num_layers": 2, "num_heads": 2, "decoder_start_token_id": 0}
FAMILIES = ("ours", "marian", "bart", "t5")
LINE, OTHER = "source1 source2 source3", "source9 source8"
TEXTS = [
    LINE,
    OTHER,
    "source4",
    " ".join(f"source{number}" for number in range(14)),
    "source5 " * 5,
]
DOCUMENT = f"  {LINE}. {OTHER}!\n\n\t{LINE}\r\n \n{OTHER}  "
each_family = pytest.mark.parametrize("family", FAMILIES)


def text_of(result):
    [record] = result
    return record["translation_text"]


def texts_of(results):
    return [record["translation_text"] for record in results]


def build_models():
    torch.manual_seed(0)
    configs = {
        "marian": MarianConfig(**BARTLIKE),
        "bart": BartConfig(**BARTLIKE),
        "t5": T5Config(**COMMON, **T5_SIZES, initializer_factor=3.0),
    }
    built = {
        name: AutoModelForSeq2SeqLM.from_config(config, attn_implementation="eager").eval()
        for name, config in configs.items()
    }
    return {"ours": talkative(make_model(max_position_embeddings=64)).eval(), **built}


@torch.no_grad()
def talkative(model):
    """With larger weights an untrained model says something, and not the same of all sources."""
    for name, weight in model.named_parameters():
        if name.endswith(("_proj.weight", "fc1.weight", "fc2.weight")):
            weight.mul_(2)
    return model
