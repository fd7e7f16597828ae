"""Shapes that do not fit each other are refused in our words, and misspelt names are noticed."""

import logging

import pytest
import torch

from vanilla_transformer import VanillaTransformerConfig

IDS = torch.tensor([[5, 6, 7]])
LABELS = torch.tensor([[5, 6, 2]])

both_modes = pytest.mark.parametrize("training", [True, False])


@both_modes
@pytest.mark.parametrize("mask", [torch.ones(1, 2), torch.ones(1, 5), torch.ones(2, 3)])
def test_a_mask_of_another_shape_is_refused(mask, training, tiny_model):
    with pytest.raises(ValueError, match=r"attention_mask must have the shape .*\[1, 3\], got"):
        tiny_model.train(training)(input_ids=IDS, attention_mask=mask, labels=LABELS)


@both_modes
@pytest.mark.parametrize("ids", [IDS[0], IDS.float(), IDS[None]])
def test_ids_that_are_no_batch_of_words_are_refused(ids, training, tiny_model):
    with pytest.raises(ValueError, match=r"input_ids must be whole numbers \[batch, length\], got"):
        tiny_model.train(training)(input_ids=ids, labels=LABELS)


@both_modes
def test_sources_and_targets_of_other_numbers_are_refused(training, tiny_model):
    with pytest.raises(ValueError, match="must be as many sentences, got 1 and 2"):
        tiny_model.train(training)(input_ids=IDS, labels=LABELS.repeat(2, 1))


def test_a_misspelt_field_is_kept_with_a_warning(caplog):
    logging.getLogger("transformers").propagate = True
    logging.getLogger("vanilla_transformer").propagate = True

    config = VanillaTransformerConfig(dropuot=0.3, encoder_layers=2)

    assert config.dropuot == 0.3
    assert "'dropuot' is kept but unused: did you mean 'dropout'?" in caplog.text


def test_a_row_of_the_paper_takes_only_known_overrides():
    with pytest.raises(ValueError, match=r"overrides must be fields .* did you mean 'vocab_size'"):
        VanillaTransformerConfig.from_paper("base", vocabsize=5)
