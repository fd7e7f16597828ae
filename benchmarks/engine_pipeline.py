"""Our model through `pipeline("translation")`."""

from functools import partial
from pathlib import Path

import torch
from transformers import PreTrainedTokenizerFast, pipeline

import vanilla_transformer  # noqa: F401 (brings the pipeline back)
from benchmarks.pipeline_contestant import PipelineContestant
from benchmarks.torch_engine import PRECISIONS, loader_of, serve_with_torch


class OurPipeline(PipelineContestant):
    """What `pipeline("translation")` makes of the folder of our model."""

    def __init__(self, folder: Path, dtype: torch.dtype) -> None:
        tokenizer = PreTrainedTokenizerFast.from_pretrained(folder / "marian")
        model = str(folder / "ours")
        super().__init__(pipeline("translation", model=model, tokenizer=tokenizer, dtype=dtype))


LOADERS = {
    f"our pipeline {precision}": loader_of(partial(OurPipeline, dtype=dtype))
    for precision, dtype in PRECISIONS.items()
}


if __name__ == "__main__":
    serve_with_torch(LOADERS)
