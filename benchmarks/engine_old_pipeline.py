"""The pipeline that transformers 5 removed, in a Python of its own that has transformers 4.57."""

import sys
from pathlib import Path

import torch
from transformers import MarianMTModel, PreTrainedTokenizerFast, pipeline
from transformers.utils import logging

from benchmarks.engine_process import Loader, Translator, serve
from benchmarks.pipeline_contestant import PipelineContestant


class OldPipeline(PipelineContestant):
    """`pipeline("translation")` as version 4 made it."""

    def __init__(self, folder: Path, dtype: torch.dtype) -> None:
        model = MarianMTModel.from_pretrained(folder / "marian", torch_dtype=dtype)
        tokenizer = PreTrainedTokenizerFast.from_pretrained(folder / "marian")
        super().__init__(pipeline("translation", model=model, tokenizer=tokenizer))

    def settings(self, limit: int) -> dict[str, int]:
        """Name the longest translation twice: its own check of lengths looks at `max_length`."""
        return {"max_new_tokens": limit, "max_length": limit + 1}


def _load(dtype: torch.dtype) -> Loader:
    def load(folder: Path, threads: int, settings: dict[str, int]) -> Translator:
        return OldPipeline(folder, dtype)

    return load


LOADERS = {"pipeline 4.57 fp32": _load(torch.float32), "pipeline 4.57 bf16": _load(torch.bfloat16)}


if __name__ == "__main__":
    logging.set_verbosity_error()
    torch.set_num_threads(int(sys.argv[2]))
    serve(LOADERS)
