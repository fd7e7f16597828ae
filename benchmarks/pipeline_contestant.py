"""What the contestants share that take and give text: their time includes the tokenizer's."""

from typing import Any

from benchmarks.batches import EOS
from benchmarks.engine_process import Sentences
from benchmarks.numbered_words import read_words, write_words


class PipelineContestant:
    """A `pipeline("translation")` of any transformers."""

    def __init__(self, pipeline: Any) -> None:
        self.pipeline = pipeline

    def prepare(self, sentences: Sentences) -> list[str]:
        return [" ".join(write_words(one)) for one in sentences]

    def settings(self, limit: int) -> dict[str, int]:
        """Name the longest translation."""
        return {"max_new_tokens": limit}

    def translate(self, prepared: list[str], beams: int, limit: int) -> Any:
        size, settings = len(prepared), self.settings(limit)
        return self.pipeline(prepared, batch_size=size, num_beams=beams, **settings), limit

    def read(self, outputs: Any) -> Sentences:
        written, limit = outputs
        sentences = [read_words(one["translation_text"].split()) for one in written]
        return [one + [EOS] * (len(one) < limit) for one in sentences]  # text has no end token
