"""The pipeline that transformers 5 removed, in a Python of its own that has transformers 4.57.

It takes and gives text, so its time includes the tokenizer's.
"""

import sys
from pathlib import Path
from typing import Any

import torch
from transformers import MarianMTModel, PreTrainedTokenizerFast, pipeline
from transformers.utils import logging

from benchmarks.batches import EOS
from benchmarks.engine_process import Loader, Sentences, Translator, serve
from benchmarks.numbered_words import read_words, write_words


class OldPipeline:
    """`pipeline("translation")` as version 4 made it."""

    def __init__(self, folder: Path, dtype: torch.dtype) -> None:
        self.pipeline: Any = pipeline(
            "translation",
            model=MarianMTModel.from_pretrained(folder / "marian", torch_dtype=dtype),
            tokenizer=PreTrainedTokenizerFast.from_pretrained(folder / "marian"),
        )

    def prepare(self, sentences: Sentences) -> list[str]:
        return [" ".join(write_words(one)) for one in sentences]

    def translate(self, prepared: list[str], beams: int, limit: int) -> Any:
        written = self.pipeline(
            prepared,
            batch_size=len(prepared),
            num_beams=beams,
            max_new_tokens=limit,
            max_length=limit + 1,  # what its own check of lengths compares with
        )
        return written, limit

    def read(self, outputs: Any) -> Sentences:
        written, limit = outputs
        sentences = [read_words(one["translation_text"].split()) for one in written]
        return [one + [EOS] * (len(one) < limit) for one in sentences]  # text has no end token


def _load(dtype: torch.dtype) -> Loader:
    def load(folder: Path, threads: int, settings: dict[str, int]) -> Translator:
        return OldPipeline(folder, dtype)

    return load


LOADERS = {"pipeline 4.57 fp32": _load(torch.float32), "pipeline 4.57 bf16": _load(torch.bfloat16)}


if __name__ == "__main__":
    logging.set_verbosity_error()
    torch.set_num_threads(int(sys.argv[2]))
    serve(LOADERS)
