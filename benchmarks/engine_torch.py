"""The contestants in torch: our model and MarianMT, through plain `generate`."""

from functools import partial
from pathlib import Path
from typing import Any

import torch
from torch import Tensor
from transformers import MarianMTModel

from benchmarks.batches import PAD
from benchmarks.engine_process import Loader, Sentences
from benchmarks.torch_engine import loader_of, serve_with_torch
from vanilla_transformer import VanillaTransformerForConditionalGeneration

OURS = VanillaTransformerForConditionalGeneration, "ours"  # class and folder


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


def _load(model_class: Any, name: str, dtype: torch.dtype, folder: Path) -> Generator:
    return Generator(model_class.from_pretrained(folder / name, dtype=dtype))


def load_ours_in_int8(folder: Path) -> Generator:
    """Load our model with 8-bit weights."""
    return Generator(_load(*OURS, torch.float32, folder).model.to_int8())


LOADERS: dict[str, Loader] = {
    "ours fp32": loader_of(partial(_load, *OURS, torch.float32)),
    "ours bf16": loader_of(partial(_load, *OURS, torch.bfloat16)),
    "ours int8": loader_of(load_ours_in_int8),
    "MarianMT fp32": loader_of(partial(_load, MarianMTModel, "marian", torch.float32)),
    "MarianMT bf16": loader_of(partial(_load, MarianMTModel, "marian", torch.bfloat16)),
}


if __name__ == "__main__":
    serve_with_torch(LOADERS)
