"""What stands beside the rows and columns of attention maps: words, or the pieces a model reads."""

from dataclasses import dataclass
from typing import Any

import torch
from torch import Tensor
from transformers.convert_slow_tokenizer import bytes_to_unicode

from .token_words import Decode, words_of_tokens

BYTE_OF_LETTER = {letter: byte for byte, letter in bytes_to_unicode().items()}
BLANKS = str.maketrans(" ▁", "··")  # sentencepiece writes ▁
JOINERS = "\u200c\u200d"  # they shape Persian words and emoji; no other invisible letter is shown


@dataclass(frozen=True)
class Side:
    """The rows or the columns of a map."""

    labels: tuple[str, ...]
    words: tuple[int | None, ...]  # which word of its text each label shows; None: special tokens
    tokens: tuple[int, ...]  # how many tokens each label stands for

    def merge_columns(self, weights: Tensor) -> Tensor:
        """What a word gets is what its tokens get together."""
        return weights @ self._membership(weights).T

    def merge_rows(self, weights: Tensor) -> Tensor:
        """A word looks where its tokens look on average, so rows still sum to 1."""
        membership = self._membership(weights)
        return (membership / membership.sum(dim=1, keepdim=True)) @ weights

    def _membership(self, weights: Tensor) -> Tensor:
        """A matrix `[labels, tokens]` of ones where a token belongs to a label."""
        labels = torch.arange(len(self.tokens)).repeat_interleave(torch.tensor(self.tokens))
        return (labels == torch.arange(len(self.tokens)).unsqueeze(1)).to(weights)


def label_tokens(
    tokenizer: Any, ids: list[int], text: str, decode: Decode, *, pieces: bool
) -> Side:
    """Labels of the words of a text, special tokens apart, or of every token."""
    words = words_of_tokens(tokenizer, ids, text, decode)
    if pieces:
        return Side(tuple(visible_pieces(tokenizer, ids)), tuple(words), (1,) * len(ids))
    texts = text.split()
    labels: list[str] = []
    shown: list[int | None] = []
    tokens: list[int] = []
    for token, word in zip(ids, words, strict=True):
        if word is not None and shown and word == shown[-1]:
            tokens[-1] += 1
            continue
        labels.append(visible_pieces(tokenizer, [token])[0] if word is None else texts[word])
        shown.append(word)
        tokens.append(1)
    return Side(tuple(map(visible, labels)), tuple(shown), tuple(tokens))


def visible_pieces(tokenizer: Any, ids: list[int]) -> list[str]:
    r"""Tokens as text, with dots for blanks, and escapes for parts of letters: "·caf", r"\xc3"."""
    decoder = getattr(getattr(tokenizer, "backend_tokenizer", None), "decoder", None)
    has_bytes = "ByteLevel" in str(decoder)
    added = tokenizer.added_tokens_decoder
    shown = []
    for token_id, piece in zip(ids, tokenizer.convert_ids_to_tokens(ids), strict=True):
        if has_bytes and token_id not in added:
            letters = bytes(BYTE_OF_LETTER[letter] for letter in piece)
            piece = letters.decode("utf-8", errors="backslashreplace")
        shown.append(visible(piece.translate(BLANKS)))
    return shown


def visible(text: str) -> str:
    r"""A text whose every character is seen and drives nothing: "\u202e" becomes r"\u202e"."""
    return "".join(
        letter
        if letter.isprintable() or letter in JOINERS
        else letter.encode("unicode_escape").decode()
        for letter in text
    )
