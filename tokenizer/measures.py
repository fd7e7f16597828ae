"""What a tokenizer makes of a text: words, bytes, tokens, and the ratios people compare."""

from dataclasses import dataclass

from transformers import PreTrainedTokenizerFast

from .word_counts import WordCounts


@dataclass(frozen=True)
class Measures:
    """Totals over a text, without the end tokens of its sentences."""

    words: int
    bytes: int
    tokens: int
    single_byte_tokens: int

    @property
    def tokens_per_word(self) -> float:
        """Fertility: how many tokens a word between blanks becomes."""
        return self.tokens / max(self.words, 1)

    @property
    def bytes_per_token(self) -> float:
        """Compression: how many bytes of UTF-8 a token stands for."""
        return self.bytes / max(self.tokens, 1)

    @property
    def single_byte_share(self) -> float:
        """The part of the tokens that stand for one byte: punctuation, digits and the unknown."""
        return self.single_byte_tokens / max(self.tokens, 1)


def measure(tokenizer: PreTrainedTokenizerFast, counts: WordCounts) -> Measures:
    """Every different word is encoded once and counted as often as it occurs."""
    backend = tokenizer.backend_tokenizer
    backend.no_truncation()  # an earlier call may have left its settings
    backend.no_padding()
    words, repetitions = zip(*counts, strict=True)
    encodings = backend.encode_batch_fast(list(words), add_special_tokens=False)
    is_single_byte = {index for token, index in backend.get_vocab().items() if len(token) == 1}
    totals = [0, 0, 0, 0]
    for word, count, encoding in zip(words, repetitions, encodings, strict=True):
        single_bytes = sum(index in is_single_byte for index in encoding.ids)
        for place, amount in enumerate(
            (len(word.split()), len(word.encode()), len(encoding.ids), single_bytes)
        ):
            totals[place] += count * amount
    return Measures(*totals)
