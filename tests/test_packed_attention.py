"""Packed attention equals a loop over sentences and heads, forward and backward."""

import itertools
from types import SimpleNamespace

import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st
from torch.testing import assert_close

from vanilla_transformer import packed_attention
from vanilla_transformer.packed_attention import packed_attention_forward, packed_masks
from vanilla_transformer.token_layout import packed_layouts

PAIRS_OF_LENGTHS = st.lists(st.tuples(st.integers(1, 9), st.integers(1, 9)), min_size=1, max_size=6)
SCALINGS = [1.0, 0.5, 8**-0.5]
SELF, CAUSAL, CROSS = "over itself", "over its past", "over the source"


def padding_mask(lengths):
    return torch.arange(max(lengths)) < torch.tensor(lengths).unsqueeze(1)


class Attending:
    """Random queries, keys and values of some sentences, and who may look at whom."""

    def __init__(self, pairs, kind, *, heads=2, widths=(4, 3), window=None):
        self.kind, self.window = kind, None if kind == CROSS else window
        if kind != CROSS:
            pairs = [(length, length) for length, _ in pairs]
        masks = [padding_mask(lengths) for lengths in zip(*pairs, strict=True)]
        self.layouts = packed_layouts(*((mask, mask) for mask in masks))
        tokens, key_tokens = map(sum, zip(*pairs, strict=True))
        sizes = (tokens, widths[0]), (key_tokens, widths[0]), (key_tokens, widths[1])
        self.states = [torch.randn(count, heads, width) for count, width in sizes]
        self.upstream = torch.randn(tokens, heads, widths[1])

    def lengths(self):
        """Query and key lengths of each sentence, in the order of the states."""
        return list(zip(*(layout.ordered.tolist() for layout in self.layouts), strict=True))

    def masks(self):
        return packed_masks(*self.layouts, is_causal=self.kind == CAUSAL, window=self.window)

    def packed(self, scaling=1.0, dropout=0.0):
        """The output of the code under test, and its gradients for queries, keys and values."""
        states = [state.detach().requires_grad_() for state in self.states]
        attended, _ = packed_attention_forward(
            SimpleNamespace(), *states, self.masks(), *self.layouts, dropout, scaling
        )
        attended.backward(self.upstream.to(attended.dtype))
        return [attended.detach(), *(state.grad for state in states)]

    def by_loops(self, scaling=1.0, factors=None):
        """The same in float64, one sentence and head after the other.

        `factors` are what dropout multiplies the weights with, `[query_len, key_len]` for each
        sentence and head.
        """
        query, key, value = states = [state.double().requires_grad_() for state in self.states]
        attended = torch.zeros(self.upstream.shape, dtype=torch.float64)
        mine = theirs = slice(0, 0)
        for length, key_length in self.lengths():
            mine = slice(mine.stop, mine.stop + length)
            theirs = slice(theirs.stop, theirs.stop + key_length)
            for head in range(query.shape[1]):
                weights = self._weights(query[mine, head], key[theirs, head], scaling)
                if factors is not None:
                    weights = weights * next(factors)
                attended[mine, head] = weights @ value[theirs, head]
        attended.backward(self.upstream.double())
        return [attended.detach(), *(state.grad for state in states)]

    def _weights(self, query, key, scaling):
        scores = torch.full((len(query), len(key)), -torch.inf, dtype=torch.float64)
        for i, j in itertools.product(range(len(query)), range(len(key))):
            is_near = self.window is None or abs(i - j) <= self.window
            if is_near and (j <= i or self.kind != CAUSAL):
                scores[i, j] = scaling * (query[i] @ key[j])
        return torch.softmax(scores, dim=-1)


def assert_close_to(results, exact, tolerance=1e-5):
    for ours, truth in zip(results, exact, strict=True):
        assert_close(ours.double(), truth, rtol=tolerance, atol=tolerance)


@given(
    pairs=PAIRS_OF_LENGTHS,
    kind=st.sampled_from([SELF, CAUSAL, CROSS]),
    heads=st.integers(1, 3),
    widths=st.tuples(st.integers(1, 5), st.integers(1, 5)),
    window=st.sampled_from([None, 1, 3]),
    scaling=st.sampled_from(SCALINGS),
)
def test_attention_and_its_gradients_equal_a_loop(pairs, kind, heads, widths, window, scaling):
    attending = Attending(pairs, kind, heads=heads, widths=widths, window=window)

    assert_close_to(attending.packed(scaling), attending.by_loops(scaling))


@pytest.mark.parametrize("kind", [SELF, CAUSAL, CROSS])
def test_dropped_weights_are_dropped_forward_and_backward(kind, monkeypatch):
    attending, kept = Attending([(5, 4), (4, 6), (1, 2)], kind), []

    def draw_mask(like, probability):
        kept.append((torch.rand(like.shape) >= probability).to(torch.int16))
        return kept[-1].clone()

    monkeypatch.setattr(packed_attention, "draw_mask", draw_mask)
    results = attending.packed(dropout=0.4)

    rectangles = [rectangle.double() / 0.6 for group in kept for rectangle in group]
    lengths = [pair for pair in attending.lengths() for _ in range(2)]  # two heads
    factors = [
        rectangle[:length, :key_length]
        for rectangle, (length, key_length) in zip(rectangles, lengths, strict=True)
    ]
    assert_close_to(results, attending.by_loops(factors=iter(factors)))


def test_dropout_takes_part_of_the_weights_and_keeps_their_expectation():
    attending = Attending([(8, 8)] * 400, SELF, heads=1)
    attending.states[2].fill_(1.0)
    attended, *_ = attending.packed(dropout=0.3)

    assert len(attended.unique()) > 100
    assert abs(attended.mean() - 1) < 0.02


@pytest.mark.parametrize("kind", [SELF, CAUSAL, CROSS])
def test_a_sentence_attends_in_a_batch_as_it_does_alone(kind):
    batch = Attending([(6, 5), (4, 7), (2, 1)], kind)
    lengths, key_lengths = zip(*batch.lengths(), strict=True)
    together = batch.packed()[0].split(lengths)
    queries = batch.states[0].split(lengths)
    keys, values = (state.split(key_lengths) for state in batch.states[1:])

    for index, pair in enumerate(batch.lengths()):
        alone = Attending([pair], kind)
        alone.states = [queries[index], keys[index], values[index]]
        assert_close(alone.packed()[0], together[index])


def test_no_sentence_sends_a_gradient_to_another():
    attending = Attending([(5, 5), (4, 4)], SELF)
    attending.upstream[5:] = 0  # the second sentence is not asked for
    _, *gradients = attending.packed()

    assert all(gradient[:5].any() and not gradient[5:].any() for gradient in gradients)


def test_a_future_word_sends_no_gradient_to_the_past():
    attending = Attending([(6, 6)], CAUSAL)
    attending.upstream[3:] = 0
    _, *gradients = attending.packed()

    assert all(gradient[:3].any() and not gradient[3:].any() for gradient in gradients)


@pytest.mark.parametrize("kind", [SELF, CAUSAL, CROSS])
def test_scores_of_any_size_give_finite_results(kind):
    attending = Attending([(6, 5), (4, 7), (4, 4)], kind)
    attending.states[0] *= 1e4

    assert_close_to(attending.packed(), attending.by_loops(), tolerance=1e-3)


@pytest.mark.parametrize("dtype", [torch.bfloat16, torch.float16])
def test_half_precision_is_kept_and_close_to_exact(dtype):
    attending = Attending([(6, 5), (4, 7), (2, 1)], CROSS)
    attending.states = [state.to(dtype) for state in attending.states]
    results = attending.packed(scaling=0.5)

    assert {result.dtype for result in results} == {dtype}
    assert_close_to(results, attending.by_loops(scaling=0.5), tolerance=0.04)


@pytest.mark.parametrize("kind", [SELF, CAUSAL, CROSS])
def test_double_precision_stays_double(kind):
    attending = Attending([(4, 3), (3, 4), (1, 1)], kind)
    states = [state.double().requires_grad_() for state in attending.states]
    masks = attending.masks()

    def attend(*states):
        return packed_attention_forward(SimpleNamespace(), *states, masks, *attending.layouts)[0]

    assert torch.autograd.gradcheck(attend, states)


def test_the_incoming_gradient_may_be_one_number_repeated():
    attending = Attending([(6, 5), (4, 7)], CROSS)
    attending.upstream = torch.ones(1, 1, 1).expand_as(attending.upstream)

    assert_close_to(attending.packed(), attending.by_loops())


def test_frozen_keys_leave_the_other_gradients_as_they_are():
    attending = Attending([(6, 5), (4, 7)], CROSS)
    query, key, value = (state.clone() for state in attending.states)
    attended, _ = packed_attention_forward(
        SimpleNamespace(), query.requires_grad_(), key, value, attending.masks(), *attending.layouts
    )
    attended.backward(attending.upstream)

    assert key.grad is None
    assert_close_to([query.grad], attending.by_loops()[1:2])


def test_inputs_are_not_changed():
    attending = Attending([(6, 5), (4, 7)], CROSS)
    before = [state.clone() for state in attending.states]
    attending.packed(scaling=0.5)

    assert all(map(torch.equal, attending.states, before))


def test_masks_are_one_for_each_group_of_sentences():
    attending = Attending([(9, 9), (8, 6), (3, 3)], CROSS)

    shapes = [tuple(mask.shape) for mask in attending.masks()]
    assert shapes == [(2, 1, 9, 9), (1, 1, 3, 3)]
