"""Who may look at whom, word by word: padding, the future, and the paper's neighbourhood."""

import itertools

import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st
from torch.testing import assert_close
from transformers import DynamicCache

from vanilla_transformer import VanillaTransformerConfig
from vanilla_transformer.attention_masks import additive, decoder_mask, encoder_mask, source_mask
from vanilla_transformer.attention_scores import SCORES
from vanilla_transformer.packed_attention import packed_masks
from vanilla_transformer.token_layout import packed_layouts

WINDOWS = [None, 1, 2, 30]
IMPLEMENTATIONS = ["eager", "sdpa"]
SUPPORTED = [
    (name, implementation)
    for name, implementation in itertools.product(SCORES, IMPLEMENTATIONS)
    if implementation == "eager" or SCORES[name].is_dot_product
]
LENGTHS = [4, 7, 1]
QUERIES = torch.empty(3, 7, 16)
PADDING = torch.arange(7) < torch.tensor(LENGTHS).unsqueeze(1)


def permitted(is_real, query_len, window, *, is_causal):
    """`[batch, query_len, key_len]` by loops; the queries stand where the keys end."""
    batch, key_len = is_real.shape
    looks = torch.empty(batch, query_len, key_len, dtype=torch.bool)
    for b, i, j in itertools.product(range(batch), range(query_len), range(key_len)):
        distance = i + (key_len - query_len if is_causal else 0) - j
        is_near = window is None or abs(distance) <= window
        looks[b, i, j] = is_real[b, j] and is_near and (distance >= 0 or not is_causal)
    return looks


def looks_of(mask, batch, query_len, key_len, *, is_causal=False):
    """What a mask of the library permits; without one, a kernel is told `is_causal`."""
    if mask is None:
        mask = torch.ones(query_len, key_len, dtype=torch.bool)
        mask = (mask.tril() if is_causal and query_len > 1 else mask)[None, None]
    return additive(mask).expand(batch, 1, query_len, key_len)[:, 0] == 0


def configured(window, implementation):
    return VanillaTransformerConfig(attention_window=window, attn_implementation=implementation)


@pytest.mark.parametrize("implementation", IMPLEMENTATIONS)
@pytest.mark.parametrize("window", WINDOWS)
@pytest.mark.parametrize("is_padded", [True, False])
def test_the_encoder_sees_the_words_around_it(implementation, window, is_padded):
    is_real = PADDING if is_padded else torch.ones_like(PADDING)
    config = configured(window, implementation)

    mask = encoder_mask(config, QUERIES, is_real.long() if is_padded else None)
    assert torch.equal(
        looks_of(mask, 3, 7, 7)[is_real], permitted(is_real, 7, window, is_causal=False)[is_real]
    )


@pytest.mark.parametrize("implementation", IMPLEMENTATIONS)
@pytest.mark.parametrize("window", WINDOWS)
@pytest.mark.parametrize("is_padded", [True, False])
def test_the_decoder_sees_the_words_before_it(implementation, window, is_padded):
    is_real = PADDING if is_padded else torch.ones_like(PADDING)
    config = configured(window, implementation)

    mask = decoder_mask(config, QUERIES, is_real.long() if is_padded else None, None)
    assert torch.equal(
        looks_of(mask, 3, 7, 7, is_causal=True)[is_real],
        permitted(is_real, 7, window, is_causal=True)[is_real],
    )


@pytest.mark.parametrize("implementation", IMPLEMENTATIONS)
@pytest.mark.parametrize("window", WINDOWS)
@pytest.mark.parametrize("new_words", [1, 3])
def test_a_cached_word_is_near_or_not_like_any_other(implementation, window, new_words):
    cache = DynamicCache()
    cache.update(torch.empty(3, 2, 5, 8), torch.empty(3, 2, 5, 8), 0)
    config = configured(window, implementation)

    mask = decoder_mask(config, QUERIES[:, :new_words], None, cache)
    expected = permitted(torch.ones(3, 5 + new_words), new_words, window, is_causal=True)
    assert torch.equal(looks_of(mask, 3, new_words, 5 + new_words, is_causal=True), expected)


@pytest.mark.parametrize("implementation", IMPLEMENTATIONS)
@pytest.mark.parametrize("window", WINDOWS)
def test_no_window_comes_between_target_and_source(implementation, window):
    config = configured(window, implementation)

    mask = source_mask(config, QUERIES[:, :3], PADDING.long(), QUERIES)
    expected = permitted(PADDING, 3, None, is_causal=False)
    assert torch.equal(looks_of(mask, 3, 3, 7), expected)


@pytest.mark.parametrize("window", WINDOWS)
@pytest.mark.parametrize("is_causal", [True, False])
def test_packed_words_see_what_padded_ones_see(window, is_causal):
    (layout,) = packed_layouts((PADDING, QUERIES))
    seen = [mask == 0 for mask in packed_masks(layout, layout, is_causal=is_causal, window=window)]
    expected = permitted(PADDING, 7, window, is_causal=is_causal)

    rows = [sentence for group in seen for sentence in group[:, 0]]
    for row, sentence in zip(rows, sorted(range(3), key=lambda b: -LENGTHS[b]), strict=True):
        length = LENGTHS[sentence]
        assert torch.equal(row[:length, :length], expected[sentence, :length, :length])
        assert not row[:length, length:].any()


def test_an_additive_mask_is_zero_where_a_query_may_look():
    looks = torch.tensor([[True, False], [True, True]])
    lowest = torch.finfo(torch.float32).min

    assert additive(looks).tolist() == [[0, lowest], [0, 0]]
    assert additive(additive(looks)).tolist() == [[0, lowest], [0, 0]]
    assert additive(None) is None


# Through a whole model


@given(place=st.integers(0, 11), window=st.integers(1, 4), training=st.booleans())
def test_a_word_reaches_one_window_further_in_each_encoder_layer(
    build_tiny, way, place, window, training
):
    encoder = build_tiny(attention_window=window, dropout=0.0).model.encoder.train(training)
    words = torch.full((1, 12), 5)
    changed = words.clone()
    changed[0, place] = 6

    states = [encoder(ids).last_hidden_state[0] for ids in (words, changed)]
    moved = (states[0] - states[1]).abs().amax(-1) > 1e-6
    reach = 2 * window  # two layers
    assert moved.tolist() == [abs(position - place) <= reach for position in range(12)]


@given(place=st.integers(0, 11), window=st.integers(1, 4), training=st.booleans())
def test_a_word_reaches_only_forward_in_the_decoder(build_tiny, way, place, window, training):
    decoder = build_tiny(attention_window=window, dropout=0.0).model.decoder.train(training)
    words = torch.full((1, 12), 5)
    changed = words.clone()
    changed[0, place] = 6
    source = {"encoder_hidden_states": torch.randn(1, 3, 16), "use_cache": False}

    states = [decoder(ids, **source).last_hidden_state[0] for ids in (words, changed)]
    moved = (states[0] - states[1]).abs().amax(-1) > 1e-6
    assert moved.tolist() == [0 <= position - place <= 2 * window for position in range(12)]


@pytest.mark.parametrize("training", [True, False])
def test_a_window_wider_than_the_sentence_is_no_window(build_tiny, sentence_pairs, way, training):
    model = build_tiny(dropout=0.0).train(training)
    losses = []
    for window in (None, 9):
        model.config.attention_window = window
        losses.append(model(**sentence_pairs).loss)

    assert_close(*losses)


def test_a_target_word_sees_the_whole_source_through_any_window(build_tiny):
    decoder = build_tiny(attention_window=1).model.decoder
    source = torch.randn(1, 12, 16)
    changed = source.clone()
    changed[0, 11] += 1

    words = torch.full((1, 4), 5)
    states = [
        decoder(words, encoder_hidden_states=read).last_hidden_state for read in (source, changed)
    ]
    assert ((states[0] - states[1]).abs().amax(-1) > 1e-6).all()


# As attentions show it


@pytest.mark.parametrize("training", [True, False])
@pytest.mark.parametrize("window", [None, 2])
@pytest.mark.parametrize(("score", "implementation"), SUPPORTED)
def test_attentions_are_shares_of_what_may_be_looked_at(
    build_tiny, sentence_pairs, training, window, score, implementation
):
    model = build_tiny(attention_score=score, attention_window=window).train(training)
    model.set_attn_implementation(implementation)
    outputs = model(**sentence_pairs, output_attentions=True)

    source, target = sentence_pairs["attention_mask"], sentence_pairs["labels"] != -100
    everything = torch.ones_like(target)
    for found, is_real, looks in (
        (outputs.encoder_attentions, source, permitted(source, 9, window, is_causal=False)),
        (outputs.decoder_attentions, target, permitted(everything, 7, window, is_causal=True)),
        (outputs.cross_attentions, target, permitted(source, 7, None, is_causal=False)),
    ):
        assert len(found) == 2
        for attention in found:
            for weights in attention.unbind(1):  # of each head
                assert torch.equal(weights[is_real == 1] > 0, looks[is_real == 1])
                assert_close(weights.sum(-1), torch.ones(weights.shape[:-1]))
