"""How a new model begins: half of Glorot's projections, words as large as positions."""

import pytest
import torch
from torch import nn

from vanilla_transformer import VanillaTransformerConfig, VanillaTransformerForConditionalGeneration


@pytest.fixture(scope="module")
def new_model():
    sizes = {"d_model": 64, "encoder_layers": 1, "decoder_layers": 1, "vocab_size": 500}
    return VanillaTransformerForConditionalGeneration(VanillaTransformerConfig(**sizes))


def test_projections_fill_half_of_glorots_range(new_model):
    drawn = {
        name: layer.weight
        for name, layer in new_model.named_modules()
        if isinstance(layer, nn.Linear) and name != "lm_head"  # which is tied to the words
    }
    assert drawn
    for weight in drawn.values():
        glorot = torch.empty_like(weight)
        nn.init.xavier_uniform_(glorot)
        assert (weight.std() / glorot.std()).item() == pytest.approx(0.5, rel=0.05)
        assert weight.abs().max() <= (6 / sum(weight.shape)) ** 0.5 / 2


def test_words_have_the_variance_of_one_after_scaling(new_model):
    words = new_model.get_input_embeddings().weight * new_model.config.d_model**0.5

    assert words.var().item() == pytest.approx(1.0, rel=0.05)


def test_norms_begin_as_identity_and_biases_at_zero(new_model):
    for name, weight in new_model.named_parameters():
        if name.endswith("bias"):
            assert not weight.any()
        elif "layer_norm" in name:
            assert (weight == 1).all()
