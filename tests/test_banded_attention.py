"""Attention block by block equals attention under a mask, forward and backward."""

import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st
from test_attention_masks import SUPPORTED
from torch.testing import assert_close

from vanilla_transformer import attention_plan
from vanilla_transformer.attention_plan import plan_decoder, plan_encoder
from vanilla_transformer.attention_scores import SCORES
from vanilla_transformer.banded_attention import SMALLEST_BLOCK, Band
from vanilla_transformer.configuration_vanilla_transformer import VanillaTransformerConfig

LONG = 3 * SMALLEST_BLOCK
FAR = 10**9
BANDED = [(score, kernel) for score, kernel in SUPPORTED if SCORES[score].compares_keys]


@pytest.fixture
def without_packing(monkeypatch):
    """Nothing is packed, so that a few hundred words are long."""
    monkeypatch.setattr(attention_plan, "PACKED_PAIRS", -1)


def long_sentences(make_batch):
    return make_batch([(LONG, LONG + 5), (LONG + 40, 20), (3, LONG + 40)])


def outputs_and_gradients(model, pairs, **kwargs):
    """The logits of real words, and the gradients of all weights."""
    model.zero_grad()
    is_real = pairs["labels"] >= 0
    inputs = {name: pairs[name] for name in ("input_ids", "attention_mask")}
    inputs["decoder_input_ids"] = pairs["labels"].clamp(min=3)
    logits = model(**inputs, use_cache=False, **kwargs).logits[is_real]
    logits.sin().sum().backward()
    return [logits.detach(), *(one.grad.clone() for one in model.parameters())]


def ways_of(model, pairs, monkeypatch, **kwargs):
    """What blocks give, and what a mask over all pairs gives."""
    banded = outputs_and_gradients(model, pairs, **kwargs)
    monkeypatch.setattr(attention_plan, "WORTHWHILE", FAR)
    masked = outputs_and_gradients(model, pairs, **kwargs)
    return banded, masked


@pytest.mark.usefixtures("without_packing")
@pytest.mark.parametrize("window", [1, 7])
@pytest.mark.parametrize("training", [True, False])
@pytest.mark.parametrize(("score", "implementation"), BANDED)
def test_blocks_give_what_a_mask_gives(
    build_tiny, make_batch, monkeypatch, score, implementation, window, training
):
    model = build_tiny(
        attention_score=score, attention_window=window, dropout=0.0, max_position_embeddings=200
    ).train(training)
    model.set_attn_implementation(implementation)

    banded, masked = ways_of(model, long_sentences(make_batch), monkeypatch)

    for blocks, mask in zip(banded, masked, strict=True):
        assert_close(blocks, mask, rtol=1e-4, atol=2e-5)


@pytest.mark.usefixtures("without_packing")
def test_eager_blocks_equal_fused_ones(build_tiny, make_batch):
    model, pairs = build_tiny(attention_window=5), long_sentences(make_batch)
    found = []
    for implementation in ("eager", "sdpa"):
        model.set_attn_implementation(implementation)
        found.append(outputs_and_gradients(model, pairs)[0])

    assert_close(*found, rtol=1e-4, atol=1e-5)


def test_blocks_equal_packed_sentences(build_tiny, make_batch, monkeypatch):
    model, pairs = build_tiny(attention_window=5), long_sentences(make_batch)
    packed = outputs_and_gradients(model, pairs)
    monkeypatch.setattr(attention_plan, "PACKED_PAIRS", -1)
    banded = outputs_and_gradients(model, pairs)

    for blocks, whole in zip(banded, packed, strict=True):
        assert_close(blocks, whole, rtol=1e-4, atol=2e-5)


@pytest.mark.usefixtures("without_packing")
@pytest.mark.parametrize("side", [0, 1], ids=["padded at the start", "padded at the end"])
def test_a_padded_sentence_is_read_as_it_is_alone(build_tiny, side):
    fields = {"position_encoding": "learned", "max_position_embeddings": 200}
    encoder = build_tiny(attention_window=3, **fields).model.encoder
    torch.nn.init.zeros_(encoder.embed_positions.weight)  # it has no say in where a word stands
    words, padding = torch.randn(1, LONG, 16), torch.full((1, 50, 16), 9.0)
    parts = [padding, words] if side == 0 else [words, padding]
    is_real = torch.cat([part[..., 0] != 9 for part in parts], dim=1)

    padded = encoder(inputs_embeds=torch.cat(parts, dim=1), attention_mask=is_real.long())
    alone = encoder(inputs_embeds=words)

    assert padded.last_hidden_state.isfinite().all()
    assert_close(padded.last_hidden_state[is_real], alone.last_hidden_state[0])


@pytest.mark.parametrize("is_causal", [True, False])
@given(length=st.integers(1, 150), window=st.integers(1, 50))
def test_a_block_sees_what_its_window_lets_through(length, window, is_causal):
    """Attention whose keys are told apart by their values, against the definition of a window."""
    band, places = Band(window, is_causal), torch.eye(length)

    def attend(module, query, key, value, mask):
        return (mask * 1.0 @ value).transpose(1, 2), None

    states = places.view(1, 1, length, length)
    seen, _ = band.attending(attend)(None, *[states] * 3, band.mask(torch.empty(1, length), None))

    distance = torch.arange(length).unsqueeze(1) - torch.arange(length)
    near = (distance.abs() <= window) & (distance >= (0 if is_causal else -length))
    assert torch.equal(seen[0, :, 0] == 1, near)


@pytest.mark.usefixtures("without_packing")
def test_a_cached_word_equals_one_of_a_block(build_tiny):
    model = build_tiny(attention_window=4)
    source, target = torch.randint(3, 30, (2, 1, LONG + 1))
    with torch.no_grad():
        whole = model(input_ids=source, decoder_input_ids=target, use_cache=False)
        first = model(input_ids=source, decoder_input_ids=target[:, :-1], use_cache=True)
        last = model(
            encoder_outputs=(first.encoder_last_hidden_state,),
            decoder_input_ids=target[:, -1:],
            past_key_values=first.past_key_values,
        )

    assert_close(last.logits, whole.logits[:, -1:], rtol=1e-4, atol=1e-5)


# When


def band_of(length=LONG, mask=None, implementation="sdpa", kwargs=None, **fields):
    config = VanillaTransformerConfig(**{"attention_window": 3, **fields})
    config._attn_implementation = implementation
    template = torch.empty(2, length, 0)
    plans = (
        plan_encoder(config, template, mask, kwargs or {}, may_pack=False),
        plan_decoder(config, template, mask, template, None, None, kwargs or {}, may_pack=False),
    )
    bands = [plan.band for plan in plans]
    assert [band is None for band in bands] in ([True, True], [False, False])
    return bands[0]


@pytest.mark.parametrize(
    "circumstances",
    [
        {},
        {"implementation": "eager"},
        {"mask": torch.ones(2, LONG)},
        {"attention_score": "additive", "implementation": "eager"},
    ],
)
def test_a_narrow_window_over_a_long_sentence_goes_block_by_block(circumstances):
    assert band_of(**circumstances) is not None


@pytest.mark.parametrize(
    "circumstances",
    [
        {"attention_window": None},
        {"attention_window": LONG},
        {"length": SMALLEST_BLOCK},
        {"mask": torch.ones(2, 1, LONG, LONG, dtype=torch.bool)},
        {"implementation": "flex_attention"},
        {"kwargs": {"output_attentions": True}},
        {"attention_score": "location", "implementation": "eager"},
    ],
    ids=["no window", "wide", "short", "pairs", "flex", "attentions", "location"],
)
def test_elsewhere_there_is_a_mask_over_all_pairs(circumstances):
    assert band_of(**circumstances) is None


@pytest.mark.parametrize("recorder", ["torch.compiler.is_compiling", "torch.jit.is_tracing"])
def test_a_graph_that_is_being_recorded_has_a_mask_for_every_length(recorder, monkeypatch):
    monkeypatch.setattr(recorder, lambda: True)
    assert band_of() is None


def test_the_mask_of_blocks_grows_with_the_length_alone():
    band = Band(window=64, is_causal=False)
    sizes = [band.mask(torch.empty(1, length), None).numel() for length in (1024, 2048, 4096)]

    assert sizes[2] == 2 * sizes[1] == 4 * sizes[0]
