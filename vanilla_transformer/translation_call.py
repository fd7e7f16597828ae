"""One call of the translation pipeline: texts in batches, in order, with errors and progress."""

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, field
from itertools import islice
from numbers import Integral
from typing import Any

from transformers.utils import logging

from .sentence_splits import Passage, Piece
from .source_reading import BadInputError

logger = logging.get_logger(__name__)

BAR_AFTER_SECONDS = 2
RECORD_IT = " Or pass on_error='record'."
Records = list[dict[str, Any]]


class Translations(Iterator[Records]):
    """Results as they are asked for; there is a length where the inputs have one."""

    def __init__(self, results: Iterator[Records], inputs: Any) -> None:
        self.results, self.inputs = results, inputs

    def __iter__(self) -> Iterator[Records]:
        return self

    def __next__(self) -> Records:
        return next(self.results)

    def __len__(self) -> int:
        return len(self.inputs)


@dataclass
class Call:
    """The parameters of a call, and what has been cut so far."""

    pipeline: Any
    size: int  # texts that are read, and pieces that are translated, at once
    reading: dict[str, Any]
    generating: dict[str, Any]
    writing: dict[str, Any]
    records_errors: bool
    batch_tokens: int | None = None  # translated at once, padding counted, in the place of `size`
    cut_lengths: list[int] = field(default_factory=list)

    def __post_init__(self) -> None:
        sizes: dict[str, Any] = {"batch_size": self.size, "batch_tokens": self.batch_tokens}
        for name, number in sizes.items():
            if number is not None and (not isinstance(number, Integral) or number < 1):
                raise ValueError(f"{name} must be a whole number of at least 1, got {number!r}.")

    def results(self, texts: Iterable[Any]) -> Iterator[Records]:
        """The records of each text, in order."""
        waiting, start = iter(texts), 0
        settings = self.pipeline.reader.language_settings(**self.reading)
        while batch := list(islice(waiting, self.size)):
            yield from self._translate(batch, start, settings)
            start += len(batch)
        if self.cut_lengths:
            logger.warning(
                f"{len(self.cut_lengths)} lines in {start} inputs were longer than "
                f"{self.pipeline.reader.longest_input} tokens (up to {max(self.cut_lengths)}) and "
                "have been cut there: on_long_input='split' translates all of them."
            )

    def results_with_bar(self, texts: Sequence[Any]) -> Iterator[Records]:
        """The same of a list, which is checked before anything is translated."""
        if not self.records_errors:
            for index, text in enumerate(texts):
                if complaint := complaint_about(text):
                    raise BadInputError(f"inputs[{index}] {complaint}{RECORD_IT}")
        if len(texts) <= self.size:
            yield from self.results(texts)
            return
        with logging.tqdm(total=len(texts), unit="texts", delay=BAR_AFTER_SECONDS) as bar:
            for records in self.results(texts):
                yield records
                bar.update()

    def _translate(
        self, texts: list[Any], start: int, settings: dict[str, Any]
    ) -> Iterator[Records]:
        passages = [self._read(text, start + index) for index, text in enumerate(texts)]
        pieces = [
            piece
            for passage in passages
            if isinstance(passage, Passage)
            for piece in passage.pieces
        ]
        found = iter(self._generate(pieces, settings))
        for passage in passages:
            if isinstance(passage, str):
                yield [{"error": passage}]
            else:
                hypotheses = [next(found) for _ in passage.pieces]
                yield self.pipeline.postprocess((passage, hypotheses), **self.writing)

    def _read(self, text: Any, index: int) -> Passage | str:
        """A text in pieces, or what is wrong with it."""
        try:
            if complaint := complaint_about(text):
                raise BadInputError(complaint)
            passage: Passage = self.pipeline.preprocess(text, **self.reading)
        except BadInputError as error:
            complaint = f"inputs[{index}] {error}"
            if not self.records_errors:
                raise BadInputError(complaint + RECORD_IT) from None
            return complaint
        self.cut_lengths += [piece.uncut_length for piece in passage.pieces if piece.uncut_length]
        return passage

    def _generate(self, pieces: list[Piece], settings: dict[str, Any]) -> list[Any]:
        """The translations of all pieces, those of like length at once."""
        found: list[Any] = [None] * len(pieces)
        for indices in self._batches([len(piece.ids or ()) for piece in pieces]):
            inputs = self.pipeline.reader.pad([pieces[index].ids for index in indices]) | settings
            outputs = self.pipeline.forward(inputs, **self.generating)
            for index, hypotheses in zip(indices, outputs, strict=True):
                found[index] = hypotheses
        return found

    def _batches(self, lengths: list[int]) -> Iterator[list[int]]:
        """The indices of pieces of like length, as many as fit into a batch."""
        batch: list[int] = []
        order = sorted(range(len(lengths)), key=lengths.__getitem__)
        if self.size == 1 and self.batch_tokens is None:
            order.sort()  # a streamer shows a text from its beginning
        for index in order:
            size = len(batch)
            if self.batch_tokens is None:
                is_full = size == self.size
            else:
                is_full = size > 0 and (size + 1) * lengths[index] > self.batch_tokens
            if is_full:
                yield batch
                batch = []
            batch.append(index)
        if batch:
            yield batch


def complaint_about(text: Any) -> str | None:
    """What keeps an input from being translated: a word that is no text, or half a character."""
    if not isinstance(text, str):
        return f"must be a str, got {text!r:.60}: leave it out."
    try:
        text.encode()
    except UnicodeEncodeError as error:
        return (
            f"must be valid Unicode, got the lone surrogate {text[error.start]!a} at character "
            f"{error.start}: remove it."
        )
    return None
