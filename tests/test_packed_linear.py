"""Packed weights multiply as the layers do, and 8-bit ones nearly so."""

import copy

import pytest
import torch

from vanilla_transformer.packed_linear import Int8Linear, OneDnnProduct, TorchProduct, best_way
from vanilla_transformer.packed_model import packed_model


@pytest.mark.parametrize("num_beams", [1, 4])
def test_8_bit_words_are_alike_in_parts(num_beams, attentive_model, source, monkeypatch):
    whole = attentive_model.to_int8()
    expected = whole.generate(**source, num_beams=num_beams, max_new_tokens=5)
    head = packed_model(whole).decoder.head
    monkeypatch.setattr(head, "rows_at_once", 1)

    found = whole.generate(**source, num_beams=num_beams, max_new_tokens=5)

    assert len(list(head.in_parts(torch.randn(3, 16)))) == 3
    assert (found == expected).float().mean() > 0.7  # rows are rounded together, a part at a time


@pytest.mark.parametrize("product", [TorchProduct, OneDnnProduct])
@pytest.mark.parametrize("rows", [1, 4, 33])
def test_every_way_multiplies_alike(product, rows):
    linear, inputs = torch.nn.Linear(24, 40), torch.randn(rows, 24)
    way, residual = product(linear.weight, linear.bias), torch.randn(rows, 40)
    with torch.no_grad():
        expected = linear(inputs)
        torch.testing.assert_close(way(inputs), expected)
        torch.testing.assert_close(way.rectified(inputs), expected.relu())
        torch.testing.assert_close(way.added_to(residual.clone(), inputs), expected + residual)


def test_8_bit_weights_are_close_and_translate_alike(attentive_model, source):
    exact = attentive_model(**source, decoder_input_ids=source["input_ids"]).logits
    words = attentive_model.generate(**source, max_new_tokens=5, num_beams=1)

    int8 = copy.deepcopy(attentive_model).to_int8()

    rounded = int8(**source, decoder_input_ids=source["input_ids"]).logits
    assert (rounded - exact).abs().max() < 0.1 * exact.abs().max()
    assert (int8.generate(**source, max_new_tokens=5, num_beams=1) == words).float().mean() > 0.7
    assert best_way(int8.lm_head) is best_way(Int8Linear(torch.nn.Linear(2, 2)))


@pytest.mark.parametrize("num_beams", [1, 4])
def test_8_bit_weights_give_the_same_in_both_loops(num_beams, attentive_model, source, is_plain):
    int8 = attentive_model.to_int8()
    asked = {"num_beams": num_beams, "max_new_tokens": 5, "return_dict_in_generate": True}

    ours = int8.generate(**source, num_beams=num_beams, max_new_tokens=5)
    library = int8.generate(**source, **asked, output_scores=True).sequences

    assert is_plain == [True, False]
    assert (ours == library).float().mean() > 0.7  # rows are rounded together, a batch at a time


def test_8_bit_weights_are_not_saved(attentive_model, tmp_path):
    with pytest.raises(ValueError, match="cannot be saved: save it before to_int8"):
        attentive_model.to_int8().save_pretrained(tmp_path)


def test_8_bit_weights_are_not_trained(attentive_model, sentence_pairs):
    int8 = attentive_model.to_int8().train()

    assert not any(parameter.requires_grad for parameter in int8.parameters())
    with pytest.raises(RuntimeError, match="does not require grad"):
        int8(**sentence_pairs).loss.backward()
