"""Our model through `pipeline("translation")`: text in, text out, the tokenizer's time included."""

import sys
from pathlib import Path
from typing import Any

import torch
from transformers import PreTrainedTokenizerFast, pipeline
from transformers.utils import logging

import vanilla_transformer  # noqa: F401 (brings the pipeline back)
from benchmarks.batches import EOS
from benchmarks.engine_process import Loader, Sentences, Translator, serve
from benchmarks.numbered_words import read_words, write_words


class OurPipeline:
    """What `pipeline("translation")` makes of the folder of our model."""

    def __init__(self, folder: Path, dtype: torch.dtype) -> None:
        self.pipeline: Any = pipeline(
            "translation",
            model=str(folder / "ours"),
            tokenizer=PreTrainedTokenizerFast.from_pretrained(folder / "marian"),
            dtype=dtype,
        )

    def prepare(self, sentences: Sentences) -> list[str]:
        return [" ".join(write_words(one)) for one in sentences]

    def translate(self, prepared: list[str], beams: int, limit: int) -> Any:
        size = len(prepared)
        written = self.pipeline(prepared, batch_size=size, num_beams=beams, max_new_tokens=limit)
        return written, limit

    def read(self, outputs: Any) -> Sentences:
        written, limit = outputs
        sentences = [read_words(one["translation_text"].split()) for one in written]
        return [one + [EOS] * (len(one) < limit) for one in sentences]  # text has no end token


def _load(dtype: torch.dtype) -> Loader:
    def load(folder: Path, threads: int, settings: dict[str, int]) -> Translator:
        return OurPipeline(folder, dtype)

    return load


LOADERS = {"our pipeline fp32": _load(torch.float32), "our pipeline bf16": _load(torch.bfloat16)}


if __name__ == "__main__":
    logging.set_verbosity_error()
    torch.set_num_threads(int(sys.argv[2]))
    serve(LOADERS)
