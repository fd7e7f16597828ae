"""The tokenizer suite on the library's own byte-level tokenizer, for comparison."""

import unittest
from pathlib import Path

from transformers import GPT2Tokenizer

from .tokenizer_suite import SAMPLE_TEXT, VOCABULARY_SIZE, TokenizerSuite


class GPT2TokenizerTest(TokenizerSuite, unittest.TestCase):
    tokenizer_class = GPT2Tokenizer

    @classmethod
    def learn(cls, folder: Path) -> None:
        sentences = SAMPLE_TEXT.read_text(encoding="utf-8").splitlines()
        untrained = GPT2Tokenizer(pad_token="<pad>")  # without one, three tests would be skipped
        untrained.train_new_from_iterator([sentences], VOCABULARY_SIZE).save_pretrained(folder)
