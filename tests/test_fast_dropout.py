"""FastDropout is `nn.Dropout` with other random numbers."""

import math

import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st
from torch import nn
from torch.utils.checkpoint import checkpoint

from vanilla_transformer.fast_dropout import FastDropout, draw_mask

MANY = 200_000


def dropped_from_ones(probability, *shape, **kwargs):
    return FastDropout(probability)(torch.ones(*shape, **kwargs))


@pytest.mark.parametrize("probability", [0.01, 0.1, 0.3, 0.5, 0.9, 0.999])
def test_values_are_dropped_at_the_rate_that_was_asked_for(probability):
    dropped = (dropped_from_ones(probability, MANY) == 0).sum().item()

    deviation = math.sqrt(MANY * probability * (1 - probability))
    assert abs(dropped - MANY * probability) < 6 * deviation


@pytest.mark.parametrize("probability", [0.1, 0.5])
def test_every_place_within_a_draw_has_the_same_rate(probability):
    rates = (dropped_from_ones(probability, MANY, 4) == 0).float().mean(0)

    deviation = math.sqrt(probability * (1 - probability) / MANY)
    assert (rates - probability).abs().max() < 6 * deviation


@pytest.mark.parametrize("distance", [1, 2, 3, 4, 5])
def test_neighbours_are_dropped_independently(distance):
    dropped = dropped_from_ones(0.5, MANY) == 0

    both = (dropped[distance:] & dropped[:-distance]).float().mean()
    assert abs(both - 0.25) < 6 * math.sqrt(0.25 * 0.75 / MANY) * 1.5  # neighbours share a value


@pytest.mark.parametrize("probability", [0.1, 0.3, 0.5])
@pytest.mark.parametrize("dtype", [torch.float32, torch.bfloat16])
def test_the_expectation_stays(probability, dtype):
    mean = dropped_from_ones(probability, MANY, dtype=dtype).double().mean()

    deviation = math.sqrt(probability / (1 - probability) / MANY)
    assert abs(mean - 1) < 6 * deviation + torch.finfo(dtype).eps


@pytest.mark.parametrize("dtype", [torch.float32, torch.bfloat16, torch.float16, torch.float64])
@pytest.mark.parametrize("probability", [0.1, 0.3, 0.7])
def test_what_stays_is_scaled_as_exactly_as_its_type_allows(probability, dtype):
    values = torch.randn(1000, dtype=dtype)
    output = FastDropout(probability)(values)

    stays = output != 0
    assert output.dtype == dtype
    expected = (values[stays].double() / (1 - probability)).to(dtype)
    torch.testing.assert_close(output[stays], expected, rtol=2 * torch.finfo(dtype).eps, atol=0)


@given(
    shape=st.lists(st.integers(0, 7), max_size=3),
    dtype=st.sampled_from([torch.float32, torch.bfloat16]),
)
def test_any_shape_may_come(shape, dtype):
    output = dropped_from_ones(0.5, shape, dtype=dtype)

    assert output.shape == torch.Size(shape)
    assert ((output == 0) | (output == 2)).all()


def test_strides_change_nothing():
    values, state = torch.randn(6, 5), torch.get_rng_state()
    expected = FastDropout(0.5)(values)
    torch.set_rng_state(state)

    assert torch.equal(FastDropout(0.5)(values.t().contiguous().t()), expected)


@pytest.mark.parametrize("probability", [0.1, 0.5])
def test_the_gradient_takes_the_way_that_the_values_took(probability):
    values = torch.ones(4, 9, requires_grad=True)
    output = FastDropout(probability)(values)
    output.sum().backward()

    assert torch.equal(values.grad, output)


def test_what_wants_no_gradient_gets_none():
    assert not dropped_from_ones(0.5, 8).requires_grad


def test_the_same_seed_drops_the_same_values():
    torch.manual_seed(3)
    first = dropped_from_ones(0.5, 100)
    torch.manual_seed(3)

    assert torch.equal(dropped_from_ones(0.5, 100), first)


def test_each_call_drops_other_values():
    dropout, values = FastDropout(0.5), torch.ones(100)

    assert not torch.equal(dropout(values), dropout(values))


def test_a_restored_generator_drops_the_same_values():
    state = torch.get_rng_state()
    first = dropped_from_ones(0.5, 100)
    torch.set_rng_state(state)

    assert torch.equal(dropped_from_ones(0.5, 100), first)


@pytest.mark.parametrize(
    "dropout", [FastDropout(0.5).eval(), FastDropout(0.0)], ids=["eval", "p=0"]
)
def test_where_nothing_is_to_be_dropped_values_pass_untouched(dropout):
    values, state = torch.randn(3, 4), torch.get_rng_state()

    assert dropout(values) is values
    assert torch.equal(torch.get_rng_state(), state)


def test_at_probability_one_nothing_stays():
    values = torch.randn(1000, requires_grad=True)
    output = FastDropout(1.0)(values)
    output.sum().backward()

    assert not output.any()
    assert not values.grad.any()


@pytest.mark.parametrize("probability", [0.9999, 0.99999, 0.999999])
def test_close_to_one_hardly_anything_stays(probability):
    assert draw_mask(torch.empty(10_000), probability).float().mean() < 0.01


@pytest.mark.parametrize("probability", [-0.1, 1.1])
def test_impossible_probabilities_are_refused(probability):
    with pytest.raises(ValueError, match="between 0 and 1"):
        FastDropout(probability)


@pytest.mark.parametrize("use_reentrant", [True, False])
def test_a_checkpoint_drops_the_same_values_again(use_reentrant):
    dropout, values = FastDropout(0.5), torch.ones(50, requires_grad=True)
    output = checkpoint(dropout, values, use_reentrant=use_reentrant)
    output.sum().backward()

    assert torch.equal(values.grad, output)


def test_compiled_whole_it_drops_and_scales():
    compiled = torch.compile(FastDropout(0.5), fullgraph=True, backend="aot_eager")
    values = torch.ones(1000, requires_grad=True)
    output = compiled(values)
    output.sum().backward()

    assert set(output.tolist()) == {0.0, 2.0}
    assert torch.equal(values.grad, output)


def test_each_sample_of_a_vmap_drops_its_own_values():
    dropped = torch.func.vmap(FastDropout(0.5), randomness="different")(torch.ones(2, 100))

    assert not torch.equal(*dropped)


@pytest.mark.parametrize("dropout", [FastDropout, nn.Dropout])
def test_gradients_through_a_transform_drop_like_torch(dropout):
    gradient = torch.func.grad(lambda values: dropout(0.5)(values).sum())(torch.ones(1000))

    assert set(gradient.tolist()) == {0.0, 2.0}
