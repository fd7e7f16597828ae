"""The contestants in torch: our model and MarianMT, through plain `generate`."""

import sys
from pathlib import Path
from typing import Any

import torch
from torch import Tensor
from transformers import MarianMTModel
from transformers.utils import logging

from benchmarks.batches import PAD
from benchmarks.engine_process import Loader, Sentences, Translator, serve
from vanilla_transformer import VanillaTransformerForConditionalGeneration

FLOAT32, BFLOAT16 = torch.float32, torch.bfloat16


class Generator:
    """A model whose `generate` takes a padded batch."""

    def __init__(self, model: Any) -> None:
        self.model = model.eval()

    def prepare(self, sentences: Sentences) -> dict[str, Tensor]:
        width = max(map(len, sentences))
        input_ids = torch.tensor([one + [PAD] * (width - len(one)) for one in sentences])
        return {"input_ids": input_ids, "attention_mask": (input_ids != PAD).long()}

    def translate(self, prepared: dict[str, Tensor], beams: int, limit: int) -> Tensor:
        return self.model.generate(**prepared, num_beams=beams, max_new_tokens=limit)

    def read(self, outputs: Tensor) -> Sentences:
        return outputs[:, 1:].tolist()  # without the start


def _load(model_class: Any, name: str, dtype: torch.dtype) -> Loader:
    def load(folder: Path, threads: int, settings: dict[str, int]) -> Translator:
        return Generator(model_class.from_pretrained(folder / name, dtype=dtype))

    return load


def load_ours(dtype: torch.dtype) -> Loader:
    """Load our model in this precision."""
    return _load(VanillaTransformerForConditionalGeneration, "ours", dtype)


def load_ours_in_int8(folder: Path, threads: int, settings: dict[str, int]) -> Translator:
    """Load our model with 8-bit weights."""
    model: Any = VanillaTransformerForConditionalGeneration.from_pretrained(folder / "ours")
    return Generator(model.to_int8())


def load_marian(dtype: torch.dtype) -> Loader:
    """Load MarianMT in this precision."""
    return _load(MarianMTModel, "marian", dtype)


LOADERS: dict[str, Loader] = {
    "ours fp32": load_ours(FLOAT32),
    "ours bf16": load_ours(BFLOAT16),
    "ours int8": load_ours_in_int8,
    "MarianMT fp32": load_marian(FLOAT32),
    "MarianMT bf16": load_marian(BFLOAT16),
}


def main() -> None:
    """Serve all contestants of this file."""
    logging.set_verbosity_error()
    torch.set_num_threads(int(sys.argv[2]))
    serve(LOADERS)


if __name__ == "__main__":
    main()
