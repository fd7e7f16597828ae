"""What a translation pipeline returns: a record for each translation of a text, from its pieces."""

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import torch
from torch import Tensor

from .sentence_splits import Passage, Piece
from .word_alignment import Span, align


@dataclass
class Hypothesis:
    """One translation of one piece."""

    ids: Tensor  # from the start token to the end token
    score: float | None = None
    attention: Tensor | None = None  # [target_len - 1, source_len]


@dataclass
class Records:
    """What is asked of a record, and what it takes to write one."""

    decode: Callable[[Any], str]
    words_of: Callable[[list[int], str], list[int | None]]  # of the tokens of a text
    prefix: str  # of every source
    with_text: bool
    with_ids: bool
    with_score: bool
    with_alignment: bool

    def write(self, passage: Passage, parts: list[Hypothesis]) -> dict[str, Any]:
        """The record of a text, one hypothesis for each of its pieces."""
        texts = [self.decode(part.ids) for part in parts]
        record: dict[str, Any] = {}
        if self.with_text:
            record["translation_text"] = passage.join(texts)
        if self.with_ids:
            empty = torch.empty(0, dtype=torch.long)
            record["translation_token_ids"] = torch.cat([empty, *(part.ids for part in parts)])
        if self.with_score:
            record["score"] = sum((part.score or 0.0 for part in parts), start=0.0)
        if self.with_alignment:
            record["alignment"] = self._alignment(passage, parts, texts)
        return record

    def _alignment(self, passage: Passage, parts: list[Hypothesis], texts: list[str]) -> list[Span]:
        places = zip(passage.starts(), passage.starts(texts), strict=True)
        rows = zip(passage.pieces, parts, texts, places, strict=True)
        return [
            (start + source, end + source, target_start + target, target_end + target)
            for piece, part, text, (source, target) in rows
            for start, end, target_start, target_end in self._align(piece, part, text)
        ]

    def _align(self, piece: Piece, part: Hypothesis, text: str) -> list[Span]:
        assert part.attention is not None
        read = self.prefix + piece.text
        source = self.words_of(piece.ids or [], read), read
        target = self.words_of(part.ids[1:].tolist(), text), text
        return align(part.attention, source, target, self.prefix)


def written(ids: Tensor, ends: int | list[int] | None, padding: int | None) -> Tensor:
    """A sequence up to its end token, or without padding; the start may look like either."""
    is_end = torch.isin(ids[1:], torch.tensor(ends if ends is not None else []).to(ids))
    if is_end.any():
        return ids[: int(is_end.int().argmax()) + 2]
    length = len(ids)
    while padding is not None and length > 1 and ids[length - 1] == padding:
        length -= 1
    return ids[:length]
