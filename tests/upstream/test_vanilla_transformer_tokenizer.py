"""The tokenizer suite on a bundle of ours, as `python -m tokenizer.train` makes it."""

import unittest
from functools import partial
from pathlib import Path

from tokenizer.train import Options, make_bundle
from vanilla_transformer import VanillaTransformerTokenizer

from .tokenizer_suite import SAMPLE_TEXT, VOCABULARY_SIZE, TokenizerSuite


class VanillaTransformerTokenizerTest(TokenizerSuite, unittest.TestCase):
    tokenizer_class = VanillaTransformerTokenizer

    @classmethod
    def learn(cls, folder: Path) -> None:
        source = target = str(SAMPLE_TEXT)
        make_bundle([source, target], folder, Options(vocabulary_size=VOCABULARY_SIZE))

    def test_tokenize_special_tokens(self):
        # The one test that wants special tokens recognised in a text, where those of our bundles
        # are text: so it asks for that as a user would. All others take the bundle as it is.
        self.get_tokenizer = partial(self.get_tokenizer, split_special_tokens=False)
        super().test_tokenize_special_tokens()
