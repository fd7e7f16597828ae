"""The library's test mixins on a byte-level tokenizer that has just been learned from one text."""

import tempfile
from pathlib import Path

from .test_tokenization_common import TokenizerTesterMixin
from .test_tokenizers_backend_mixin import TokenizersBackendTesterMixin

SAMPLE_TEXT = Path(__file__).parent / "fixtures" / "sample_text.txt"
VOCABULARY_SIZE = 400


class TokenizerSuite(TokenizerTesterMixin, TokenizersBackendTesterMixin):
    """Both mixins of the distribution that concern a fast tokenizer without SentencePiece."""

    @classmethod
    def learn(cls, folder: Path) -> None:
        """Save a tokenizer learned from the sample text."""
        raise NotImplementedError

    @classmethod
    def setUpClass(cls):
        cls.from_pretrained_id = cls.enterClassContext(tempfile.TemporaryDirectory())
        cls.learn(Path(cls.from_pretrained_id))
        super().setUpClass()
