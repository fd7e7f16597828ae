"""The suite on the library's own translator, for comparison."""

import unittest

from transformers import MarianConfig, MarianModel, MarianMTModel

from .suite import SourceAsTarget, TranslatorSuite, TranslatorTester


class SourceAsTargetMarianMTModel(SourceAsTarget, MarianMTModel):
    """What the training and tensor-parallel mixins call."""


class MarianMTTest(TranslatorSuite, unittest.TestCase):
    all_model_classes = (MarianModel, MarianMTModel)

    def setUp(self):
        self.model_tester = TranslatorTester(
            MarianConfig, SourceAsTargetMarianMTModel, forced_eos_token_id=None
        )
