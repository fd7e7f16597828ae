"""Positions are the paper's sinusoids for any length, or a learned table with an end."""

import math

import pytest
import torch
from torch.testing import assert_close
from transformers import DynamicCache, EncoderDecoderCache

from vanilla_transformer import VanillaTransformerConfig
from vanilla_transformer.position_encodings import (
    POSITION_ENCODINGS,
    LearnedPositions,
    SinusoidalPositions,
)


def sinusoids(positions, d_model=16):
    config = VanillaTransformerConfig(d_model=d_model, d_k=1, d_v=1)
    return SinusoidalPositions(config)(torch.tensor(positions))


def papers_formula(positions, d_model=16):
    """Section 3.5, in Python's own 64-bit numbers."""
    table = torch.empty(len(positions), d_model, dtype=torch.float64)
    for row, position in enumerate(positions):
        for i in range(d_model // 2):
            angle = position / 10000 ** (2 * i / d_model)
            table[row, 2 * i], table[row, 2 * i + 1] = math.sin(angle), math.cos(angle)
    return table.float()


@pytest.mark.parametrize("d_model", [2, 16, 512])
def test_sinusoids_are_the_papers_formula(d_model):
    positions = list(range(64))

    assert_close(
        sinusoids(positions, d_model), papers_formula(positions, d_model), rtol=0, atol=1e-5
    )


@pytest.mark.parametrize("position", [500, 1_000, 100_000])
def test_far_positions_are_as_exact_as_near_ones(position):
    assert_close(sinusoids([position], 512), papers_formula([position], 512), rtol=0, atol=1e-5)


@pytest.mark.parametrize("shift", [1, 7, 30])
def test_a_shift_of_positions_is_a_rotation(shift):
    """3.5: "for any fixed offset k, PE(pos + k) is a linear function of PE(pos)"."""
    rotation = torch.zeros(16, 16, dtype=torch.float64)
    for i in range(8):
        angle = shift / 10000 ** (2 * i / 16)
        turn = [[math.cos(angle), math.sin(angle)], [-math.sin(angle), math.cos(angle)]]
        rotation[2 * i : 2 * i + 2, 2 * i : 2 * i + 2] = torch.tensor(turn)
    positions = list(range(20))

    rotated = sinusoids(positions).double() @ rotation.T
    assert_close(
        sinusoids([position + shift for position in positions]).double(), rotated, rtol=0, atol=1e-5
    )


def test_every_position_can_be_asked_for_alone():
    positions = list(range(12))

    alone = torch.cat([sinusoids([position]) for position in positions])
    assert torch.equal(sinusoids(positions), alone)


def test_sinusoids_store_nothing(build_tiny):
    model = build_tiny(position_encoding="sinusoidal")

    assert not [name for name in model.state_dict() if "position" in name]
    assert not list(model.buffers())


def test_sinusoids_have_no_limit(build_tiny, make_batch):
    model = build_tiny(max_position_embeddings=4)

    assert model(**make_batch([(40, 50)])).loss.isfinite()


def test_learned_positions_are_parameters_of_each_stack(build_tiny):
    model = build_tiny(position_encoding="learned")
    tables = [model.model.encoder.embed_positions, model.model.decoder.embed_positions]

    assert [tuple(table.weight.shape) for table in tables] == [(32, 16), (32, 16)]
    assert not torch.equal(tables[0].weight, tables[1].weight)
    assert_close(tables[0](torch.tensor([0, 31])), tables[0].weight[[0, 31]])


def test_a_learned_table_says_where_it_ends():
    positions = LearnedPositions(VanillaTransformerConfig(max_position_embeddings=8))

    positions(torch.arange(8))
    with pytest.raises(ValueError, match=r"knows 8 positions .* got position 8: shorten the input"):
        positions(torch.arange(9))


@pytest.mark.parametrize("lengths", [(33, 5), (5, 33)], ids=["source", "target"])
@pytest.mark.parametrize("training", [True, False])
def test_a_sentence_beyond_the_learned_table_is_refused(build_tiny, make_batch, lengths, training):
    model = build_tiny(position_encoding="learned").train(training)

    with pytest.raises(ValueError, match="position_encoding='learned' knows 32 positions"):
        model(**make_batch([lengths]))


def test_a_cache_beyond_the_learned_table_is_refused(build_tiny):
    decoder = build_tiny(position_encoding="learned").model.decoder
    cache = EncoderDecoderCache(DynamicCache(), DynamicCache())
    decoder(torch.full((1, 32), 5), past_key_values=cache)

    with pytest.raises(ValueError, match="got position 32"):
        decoder(torch.tensor([[5]]), past_key_values=cache)


@pytest.mark.parametrize("name", POSITION_ENCODINGS)
def test_the_same_word_differs_by_its_position_alone(build_tiny, name):
    encoder = build_tiny(position_encoding=name).model.encoder
    states = encoder(torch.tensor([[5, 5, 5]])).last_hidden_state[0]

    assert (states[0] - states[1]).abs().max() > 1e-3
