"""The same weights as a CTranslate2 model, through the library's own model specification."""

from pathlib import Path
from typing import Any

import torch
from ctranslate2.specs import common_spec, transformer_spec
from torch import Tensor
from transformers import PreTrainedModel

from benchmarks.numbered_words import SPECIAL, vocabulary

POSITIONS = 512


def _array(weight: Tensor) -> Any:
    return weight.detach().float().numpy()


def _set_linear(spec: Any, *projections: Any) -> None:
    """Write one projection, or several of the same input as one."""
    spec.weight = _array(torch.cat([one.weight for one in projections]))
    spec.bias = _array(torch.cat([one.bias for one in projections]))


def _set_norm(spec: Any, norm: Any) -> None:
    spec.gamma, spec.beta = _array(norm.weight), _array(norm.bias)


def _set_layer(spec: Any, layer: Any) -> None:
    own = layer.self_attn
    _set_linear(spec.self_attention.linear[0], own.q_proj, own.k_proj, own.v_proj)
    _set_linear(spec.self_attention.linear[1], own.out_proj)
    _set_norm(spec.self_attention.layer_norm, layer.self_attn_layer_norm)
    if hasattr(layer, "encoder_attn"):
        source = layer.encoder_attn
        _set_linear(spec.attention.linear[0], source.q_proj)
        _set_linear(spec.attention.linear[1], source.k_proj, source.v_proj)
        _set_linear(spec.attention.linear[2], source.out_proj)
        _set_norm(spec.attention.layer_norm, layer.encoder_attn_layer_norm)
    _set_linear(spec.ffn.linear_0, layer.fc1)
    _set_linear(spec.ffn.linear_1, layer.fc2)
    _set_norm(spec.ffn.layer_norm, layer.final_layer_norm)


def _set_stack(spec: Any, embeddings: Any, stack: Any) -> None:
    spec.scale_embeddings = True
    embeddings.weight = _array(stack.embed_tokens.weight)
    spec.position_encodings.encodings = _array(stack.embed_positions(torch.arange(POSITIONS)))
    for layer_spec, layer in zip(spec.layer, stack.layers, strict=True):
        _set_layer(layer_spec, layer)


def save_ctranslate2_twin(model: PreTrainedModel, folder: Path) -> None:
    """Write a CTranslate2 model that computes what `model` computes, in float32."""
    config = model.config
    spec = transformer_spec.TransformerSpec.from_config(
        (config.encoder_layers, config.decoder_layers),
        config.encoder_attention_heads,
        pre_norm=False,
        activation=common_spec.Activation.RELU,
    )
    encoder, decoder = model.model.encoder, model.model.decoder
    _set_stack(spec.encoder, spec.encoder.embeddings[0], encoder)
    _set_stack(spec.decoder, spec.decoder.embeddings, decoder)
    spec.decoder.projection.weight = _array(model.lm_head.weight)
    words = vocabulary(config.vocab_size)
    spec.register_source_vocabulary(words)
    spec.register_target_vocabulary(words)
    spec.config.unk_token, spec.config.bos_token, spec.config.eos_token = SPECIAL
    spec.config.decoder_start_token = spec.config.bos_token
    spec.config.add_source_bos = spec.config.add_source_eos = False
    spec.validate()
    spec.optimize()
    folder.mkdir(parents=True, exist_ok=True)
    spec.save(str(folder))
