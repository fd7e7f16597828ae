"""The weights that lie in a model's folder, read without the model."""

import hashlib
from collections.abc import Iterator
from pathlib import Path
from typing import TYPE_CHECKING

from safetensors import safe_open

if TYPE_CHECKING:  # who asks only for a digest needs no torch
    from torch import Tensor

WHOLE, PARTS = "model.safetensors", "model-?????-of-?????.safetensors"


def weight_files(folder: Path) -> list[Path]:
    """What the library loads: one file, or its parts."""
    whole = folder / WHOLE
    return [whole] if whole.is_file() else sorted(folder.glob(PARTS))


def stored_tensors(folder: Path) -> Iterator[tuple[str, "Tensor"]]:
    """Every tensor of a folder, with its name; of tied ones there is only one."""
    for file in weight_files(folder):
        with safe_open(file, framework="pt") as weights:
            for name in weights.keys():  # noqa: SIM118  # no dictionary
                yield name, weights.get_tensor(name)


def digest_of_weights(folder: Path) -> str:
    """Tells the weights of a folder from others."""
    digest = hashlib.sha256()
    for file in weight_files(folder):
        digest.update(file.read_bytes())
    return digest.hexdigest()
