"""One set of the library's test mixins and one tiny model, for both translators.

This file, its neighbour for tokenizers and their test modules run among the unpacked release's own
test modules (`make test-upstream`): the relative imports are the library's.
"""

import torch
from transformers import PreTrainedConfig, PreTrainedModel

from . import test_tensor_parallel_mixin
from .generation.test_utils import GenerationTesterMixin
from .test_configuration_common import ConfigTester
from .test_modeling_common import ModelTesterMixin, ids_tensor
from .test_training_mixin import TrainingTesterMixin

# The library runs these tests on a list of its own model types; None is its switch for any other.
test_tensor_parallel_mixin.TP_DISTRIBUTED_TEST_MODEL_TYPES = None


class SourceAsTarget:
    """For the mixins that call `model(input_ids)`, as decoder-only models take it."""

    _auto_class = None  # a class of the tests is never saved with its model

    def forward(self, input_ids=None, decoder_input_ids=None, labels=None, **kwargs):
        if decoder_input_ids is None and labels is None:
            decoder_input_ids = input_ids
        return super().forward(
            input_ids, decoder_input_ids=decoder_input_ids, labels=labels, **kwargs
        )


class TranslatorTester:
    """Builds the tiny configuration and the inputs that the mixins ask for, by their names."""

    batch_size = 13
    seq_length = 7
    hidden_size = 16
    num_hidden_layers = 2
    num_attention_heads = 4
    vocab_size = 99
    pad_token_id = 0
    eos_token_id = 2
    is_training = True

    def __init__(
        self,
        config_class: type[PreTrainedConfig],
        source_as_target_class: type[PreTrainedModel],
        **config_fields: object,
    ):
        self.config_class = config_class
        self.causal_lm_class = source_as_target_class
        self.config_fields = config_fields

    def get_config(self, dropout: float = 0.0) -> PreTrainedConfig:
        """Without dropout where a mixin compares two losses or gradients of the training mode."""
        return self.config_class(
            vocab_size=self.vocab_size,
            d_model=self.hidden_size,
            encoder_layers=self.num_hidden_layers,
            decoder_layers=self.num_hidden_layers,
            encoder_attention_heads=self.num_attention_heads,
            decoder_attention_heads=self.num_attention_heads,
            encoder_ffn_dim=4,
            decoder_ffn_dim=4,
            dropout=dropout,
            attention_dropout=dropout,
            max_position_embeddings=100,
            pad_token_id=self.pad_token_id,
            bos_token_id=1,
            eos_token_id=self.eos_token_id,
            decoder_start_token_id=1,
            **self.config_fields,
        )

    def prepare_config_and_inputs_for_common(self) -> tuple[PreTrainedConfig, dict]:
        first_word = self.eos_token_id + 1
        shape = [self.batch_size, self.seq_length]
        input_ids, decoder_input_ids = (
            ids_tensor(shape, self.vocab_size).clamp(min=first_word) for _ in range(2)
        )
        input_ids[:, -1] = self.eos_token_id
        return self.get_config(dropout=0.1), {
            "input_ids": input_ids,
            "attention_mask": torch.ones_like(input_ids),
            "decoder_input_ids": decoder_input_ids,
            "decoder_attention_mask": torch.ones_like(decoder_input_ids),
        }


class TranslatorSuite(
    ModelTesterMixin,
    TrainingTesterMixin,
    test_tensor_parallel_mixin.TensorParallelTesterMixin,
    GenerationTesterMixin,
):
    """Every mixin of the distribution that concerns a text model."""

    model_tester = None
    is_encoder_decoder = True
    test_can_init_all_missing_weights_before_2023 = True
    training_overfit_learning_rate = 5e-3  # the default, 1e-3, is too slow for a width of 16

    def test_config(self):
        ConfigTester(self, config_class=self.model_tester.config_class).run_common_tests()

    def _create_text_training_batch(self, batch_size, seq_length, vocab_size):
        """The source is the first token alone, which also starts the target: so it is generated."""
        batch = super()._create_text_training_batch(batch_size, seq_length, vocab_size)
        tokens = batch["input_ids"]
        attention_mask = torch.zeros_like(tokens)
        attention_mask[:, 0] = 1
        labels = torch.nn.functional.pad(tokens[:, 1:], (0, 1), value=-100)
        return {"input_ids": tokens, "attention_mask": attention_mask, "labels": labels}
