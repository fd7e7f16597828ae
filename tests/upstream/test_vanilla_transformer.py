"""The suite on our own translator."""

import unittest

from vanilla_transformer import (
    VanillaTransformerConfig,
    VanillaTransformerForConditionalGeneration,
    VanillaTransformerModel,
)

from .suite import SourceAsTarget, TranslatorSuite, TranslatorTester


class SourceAsTargetForConditionalGeneration(
    SourceAsTarget, VanillaTransformerForConditionalGeneration
):
    """What the training and tensor-parallel mixins call."""


class VanillaTransformerTest(TranslatorSuite, unittest.TestCase):
    all_model_classes = (VanillaTransformerModel, VanillaTransformerForConditionalGeneration)

    def setUp(self):
        # A smoothed loss never falls by the 90 % that the training mixin demands.
        self.model_tester = TranslatorTester(
            VanillaTransformerConfig, SourceAsTargetForConditionalGeneration, label_smoothing=0.0
        )
