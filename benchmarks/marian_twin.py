"""The same weights as a `MarianMTModel`: an independent, padded implementation to compare with.

Both models are the paper's up to the order of the features in d_model. The paper's positions
interleave sines and cosines, Marian's put all sines first: feature 2i moves to place i, feature
2i + 1 to place d_model / 2 + i, in every weight that reads or writes the residual stream.
"""

import torch
from torch import Tensor
from transformers import MarianConfig, MarianMTModel, PreTrainedConfig, PreTrainedModel

COLUMNS_ARE_FEATURES = (
    *("shared.weight", "embed_tokens.weight", "embed_positions.weight", "lm_head.weight"),
    *("q_proj.weight", "k_proj.weight", "v_proj.weight", "fc1.weight"),
)
ROWS_ARE_FEATURES = (
    *("out_proj.weight", "out_proj.bias", "fc2.weight", "fc2.bias"),
    *("layer_norm.weight", "layer_norm.bias"),
)

SHARED_FIELDS = (
    *("vocab_size", "d_model", "encoder_layers", "decoder_layers"),
    *("encoder_attention_heads", "decoder_attention_heads", "encoder_ffn_dim", "decoder_ffn_dim"),
    *("dropout", "attention_dropout", "activation_dropout", "activation_function"),
    *("max_position_embeddings", "scale_embedding"),
    *("pad_token_id", "bos_token_id", "eos_token_id", "decoder_start_token_id"),
)
# Marian computes these itself, or ties them to `model.shared`.
DERIVED = ("embed_positions.weight", "embed_tokens.weight", "lm_head.weight", "final_logits_bias")


def twin_config(config: PreTrainedConfig) -> MarianConfig:
    """Copy the fields that both configurations have."""
    fields = {name: getattr(config, name) for name in SHARED_FIELDS}
    return MarianConfig(
        **fields, decoder_vocab_size=config.vocab_size, forced_eos_token_id=None, num_beams=1
    )


def to_marian_order(weights: dict[str, Tensor]) -> dict[str, Tensor]:
    """Reorder d_model in named weights, or in the gradients of these weights."""
    d_model = weights["model.shared.weight"].shape[1]
    order = torch.cat([torch.arange(0, d_model, 2), torch.arange(1, d_model, 2)])
    reordered = {}
    for name, weight in weights.items():
        if name.endswith(COLUMNS_ARE_FEATURES):
            reordered[name] = weight[:, order]
        else:
            reordered[name] = weight[order] if name.endswith(ROWS_ARE_FEATURES) else weight
    return reordered


def marian_twin(model: PreTrainedModel, attn_implementation: str = "sdpa") -> MarianMTModel:
    """Build a MarianMTModel that computes what `model` computes, in the same mode and precision."""
    config = twin_config(model.config)
    config._attn_implementation = attn_implementation
    twin = MarianMTModel(config).to(model.dtype)
    loaded = twin.load_state_dict(to_marian_order(model.state_dict()), strict=False)
    missing = [name for name in loaded.missing_keys if not name.endswith(DERIVED)]
    if missing or loaded.unexpected_keys:
        raise ValueError(
            "marian_twin needs shared embeddings, sinusoidal positions and scaled dot products: "
            f"Marian misses {missing} and does not know {loaded.unexpected_keys}."
        )
    return twin.train(model.training)
