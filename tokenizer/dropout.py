"""BPE dropout (Provilkov et al., 2020): in training, a word splits differently every time."""

import copy
from typing import Any

from transformers import BatchEncoding, PreTrainedTokenizerFast


class BpeDropout:
    """Encodes like its tokenizer, but leaves out each merge with some probability.

    It holds a copy and can only encode: the tokenizer itself splits as ever, and there is nothing
    here that could be saved or used to translate. The library draws from a generator of its own,
    which no seed reaches.
    """

    def __init__(self, tokenizer: PreTrainedTokenizerFast, probability: float = 0.1) -> None:
        if not 0 <= probability <= 1:
            raise ValueError(f"probability must be between 0 and 1, got {probability}.")
        self._tokenizer = copy.deepcopy(tokenizer)
        self._tokenizer.backend_tokenizer.model.dropout = probability or None

    def __call__(self, *texts: Any, **options: Any) -> BatchEncoding:
        return self._tokenizer(*texts, **options)
