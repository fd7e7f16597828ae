"""A packed model translates with the weights that the model has now."""

import copy

import pytest
import torch

from vanilla_transformer.fast_linear import laid_out_linears
from vanilla_transformer.packed_model import packed_model


@pytest.mark.parametrize(
    "change",
    [
        lambda weight: weight.detach().copy_(weight.detach().flip(0)),
        lambda weight: weight.data.copy_(weight.data.flip(0)),
        lambda weight: setattr(weight, "data", weight.data.flip(0)),
    ],
)
def test_a_changed_weight_is_packed_anew(change, attentive_model, source):
    before = attentive_model.generate(**source, max_new_tokens=5)
    assert packed_model(attentive_model) is packed_model(attentive_model)

    change(attentive_model.lm_head.weight)

    after = attentive_model.generate(**source, max_new_tokens=5)

    fresh = copy.deepcopy(attentive_model)
    assert not before.equal(after)
    assert after.equal(fresh.generate(**source, max_new_tokens=5))


def test_a_changed_weight_of_the_encoder_is_packed_anew(attentive_model, source):
    before = attentive_model.generate(**source, max_new_tokens=5)
    weight = attentive_model.model.encoder.layers[0].fc1.weight

    weight.data.copy_(weight.data.flip(0))

    assert packed_model(attentive_model).encoder  # else there is nothing to be stale
    expected = copy.deepcopy(attentive_model).generate(**source, max_new_tokens=5)
    assert not expected.equal(before)
    assert attentive_model.generate(**source, max_new_tokens=5).equal(expected)


@pytest.mark.parametrize("dtype", [torch.float32, torch.bfloat16])
def test_a_packed_encoder_reads_as_the_encoder_does(dtype, attentive_model, source):
    encoder = attentive_model.to(dtype).model.encoder
    with torch.no_grad():
        expected = encoder(**source).last_hidden_state
        with laid_out_linears(packed_model(attentive_model).encoder):
            found = encoder(**source).last_hidden_state

    torch.testing.assert_close(found, expected)
