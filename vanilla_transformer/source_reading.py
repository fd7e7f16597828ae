"""How texts become batches: in pieces that the model can take, as ids, of like length.

Tokenizers keep truncation, padding and languages as state, so only one thread uses one at a time,
and padding is done here.
"""

import threading
from dataclasses import dataclass
from typing import Any, Literal

import torch
from torch import Tensor
from torch.nn.utils.rnn import pad_sequence

from .known_languages import check_languages, known_languages
from .sentence_splits import Passage, Piece, split_at_length, split_lines, split_sentences

OnLongInput = Literal["split", "truncate", "error"]
LONGEST_INPUT = 1024  # tokens, where neither tokenizer nor model knows a limit
NO_LIMIT = 10**9  # what is higher, as the library's 1e30, is said by a tokenizer that knows none
CHARACTERS_A_TOKEN = 16  # whatever is longer than so many is too long, without a look at it
TEXTS_AT_ONCE = 1024  # tokenized in one go, which takes memory beside the ids

tokenizer_lock = threading.Lock()


class BadInputError(ValueError):
    """An input that cannot be translated, while the others of its batch can."""


@dataclass
class SourceReader:
    """Reads texts for one model."""

    tokenizer: Any
    config: Any
    prefix: str  # of every piece, as T5's "translate English to German: "

    @property
    def longest_input(self) -> int:
        """How many tokens the tokenizer and the model take at most."""
        limits = (
            getattr(self.tokenizer, "model_max_length", None),
            getattr(self.config, "max_position_embeddings", None),
        )
        known = [limit for limit in limits if limit and limit < NO_LIMIT]
        return min(known, default=LONGEST_INPUT)

    def read(self, text: str, on_long_input: OnLongInput = "split", **languages: str) -> Passage:
        """A text in tokenized pieces that are short enough for the model."""
        passage, limit = split_lines(text), self.longest_input
        if on_long_input == "split":
            passage.refine(split_sentences)
            passage.refine(lambda piece: split_at_length(piece, limit * CHARACTERS_A_TOKEN))
        while unread := [piece for piece in passage.pieces if piece.ids is None]:
            for start in range(0, len(unread), TEXTS_AT_ONCE):
                self._give_ids(unread[start : start + TEXTS_AT_ONCE], languages)
            too_long = [piece for piece in unread if len(piece.ids or ()) > limit]
            if on_long_input == "split":
                halved = {id(piece): piece.halves() for piece in too_long if len(piece.text) > 1}
                passage.refine(lambda piece: halved.get(id(piece), [piece]))  # noqa: B023
            elif too_long and on_long_input == "error":
                raise BadInputError(_says_too_long(too_long[0], limit))
            else:
                self._truncate(too_long, limit, languages)
        return passage

    def _give_ids(self, pieces: list[Piece], languages: dict[str, str]) -> None:
        rows = self._tokenize([piece.text for piece in pieces], **languages)["input_ids"]
        for piece, ids in zip(pieces, rows, strict=True):
            piece.ids = ids

    def _truncate(self, pieces: list[Piece], limit: int, languages: dict[str, str]) -> None:
        for piece in pieces:
            piece.uncut_length = len(piece.ids or ())
            options: dict[str, Any] = {"truncation": True, "max_length": limit, **languages}
            piece.ids = self._tokenize([piece.text], **options)["input_ids"][0]

    def _tokenize(self, texts: list[str], **options: Any) -> dict[str, Any]:
        """Ids of each text, without padding, and what else the tokenizer has for `generate`."""
        options = {"padding": False, "truncation": False, "verbose": False, **options}
        languages = {name: options.pop(name, None) for name in ("src_lang", "tgt_lang")}
        texts = [self.prefix + text for text in texts]
        with tokenizer_lock:
            if build := getattr(self.tokenizer, "_build_translation_inputs", None):
                return dict(build(texts, return_tensors=None, **languages, **options))
            return dict(self.tokenizer(texts, **options))

    def language_settings(self, **reading: Any) -> dict[str, Any]:
        """What the tokenizer of a multilingual model tells `generate`: the target's language."""
        if not hasattr(self.tokenizer, "_build_translation_inputs"):
            return {}
        reading.pop("on_long_input", None)
        if known_languages(self.tokenizer):  # somebody's own tokenizer may not tell
            check_languages(self.tokenizer, reading)
        asked = self._tokenize(["."], **reading).items()
        return {name: value for name, value in asked if not isinstance(value, list)}

    def pad(self, rows: list[list[int]]) -> dict[str, Tensor]:
        """One batch of rows of like length."""
        padding = self.tokenizer.pad_token_id
        if padding is None and len(set(map(len, rows))) > 1:
            raise ValueError(
                f"A batch needs a tokenizer with a pad token, got {type(self.tokenizer).__name__} "
                "without one: set tokenizer.pad_token, or pass batch_size=1."
            )
        tensors = [torch.tensor(row) for row in rows]
        return {
            "input_ids": pad_sequence(tensors, batch_first=True, padding_value=padding or 0),
            "attention_mask": pad_sequence([torch.ones_like(row) for row in tensors], True),
        }


def _says_too_long(piece: Piece, limit: int) -> str:
    return (
        f"must have at most {limit} tokens in a line, got {len(piece.ids or ())} in "
        f"{piece.text[:30]!r}...: shorten it, or pass on_long_input='split' or 'truncate'."
    )
