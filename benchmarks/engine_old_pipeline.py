"""The pipeline that transformers 5 removed, in a Python of its own that has transformers 4.57."""

from functools import partial
from pathlib import Path

import torch
from transformers import MarianMTModel, PreTrainedTokenizerFast, pipeline

from benchmarks.pipeline_contestant import PipelineContestant
from benchmarks.torch_engine import PRECISIONS, loader_of, serve_with_torch


class OldPipeline(PipelineContestant):
    """`pipeline("translation")` as version 4 made it."""

    def __init__(self, folder: Path, dtype: torch.dtype) -> None:
        model = MarianMTModel.from_pretrained(folder / "marian", torch_dtype=dtype)
        tokenizer = PreTrainedTokenizerFast.from_pretrained(folder / "marian")
        super().__init__(pipeline("translation", model=model, tokenizer=tokenizer))

    def settings(self, limit: int) -> dict[str, int]:
        """Name the longest translation twice: its own check of lengths looks at `max_length`."""
        return {"max_new_tokens": limit, "max_length": limit + 1}


LOADERS = {
    f"pipeline 4.57 {precision}": loader_of(partial(OldPipeline, dtype=dtype))
    for precision, dtype in PRECISIONS.items()
}


if __name__ == "__main__":
    serve_with_torch(LOADERS)
