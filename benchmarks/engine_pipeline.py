"""Our model through `pipeline("translation")`."""

import sys
from pathlib import Path

import torch
from transformers import PreTrainedTokenizerFast, pipeline
from transformers.utils import logging

import vanilla_transformer  # noqa: F401 (brings the pipeline back)
from benchmarks.engine_process import Loader, Translator, serve
from benchmarks.pipeline_contestant import PipelineContestant


class OurPipeline(PipelineContestant):
    """What `pipeline("translation")` makes of the folder of our model."""

    def __init__(self, folder: Path, dtype: torch.dtype) -> None:
        tokenizer = PreTrainedTokenizerFast.from_pretrained(folder / "marian")
        model = str(folder / "ours")
        super().__init__(pipeline("translation", model=model, tokenizer=tokenizer, dtype=dtype))


def _load(dtype: torch.dtype) -> Loader:
    def load(folder: Path, threads: int, settings: dict[str, int]) -> Translator:
        return OurPipeline(folder, dtype)

    return load


LOADERS = {"our pipeline fp32": _load(torch.float32), "our pipeline bf16": _load(torch.bfloat16)}


if __name__ == "__main__":
    logging.set_verbosity_error()
    torch.set_num_threads(int(sys.argv[2]))
    serve(LOADERS)
