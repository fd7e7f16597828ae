"""Averages the weights of checkpoints: paper, 6.1, "averaging the last 5 checkpoints"."""

import shutil
from collections.abc import Iterator, Sequence
from contextlib import ExitStack
from pathlib import Path

import torch
from safetensors import SafetensorError, safe_open
from safetensors.torch import save_file
from torch import Tensor

from training.checkpoint_files import MANIFEST, CheckpointError
from training.whole_files import sync_files
from vanilla_transformer.file_replacement import sync_folder

WEIGHTS = "model*.safetensors"  # one file, or the parts of a large model
NOT_OF_THE_AVERAGE = (WEIGHTS, "*.index.json", MANIFEST, "training")


def write_average(folders: Sequence[Path], output: Path) -> None:
    """Write a model folder with the average weights and, for the rest, the last folder's files."""
    if output.exists():
        raise ValueError(f"the average needs a new folder, got {output}: remove it, or name one.")
    weights = average(folders)
    staged = output.with_name(f".staged-{output.name}")
    shutil.rmtree(staged, ignore_errors=True)  # of a run that was killed
    try:
        staged.parent.mkdir(parents=True, exist_ok=True)
        shutil.copytree(folders[-1], staged, ignore=shutil.ignore_patterns(*NOT_OF_THE_AVERAGE))
        save_file(weights, staged / "model.safetensors", metadata={"format": "pt"})
        sync_files(staged)
        staged.rename(output)
        sync_folder(output.parent)
    except (OSError, SafetensorError) as error:
        raise CheckpointError(
            f"the average must be writable, got {error} at {output}: give it space and permission."
        ) from error
    finally:
        shutil.rmtree(staged, ignore_errors=True)


def average(folders: Sequence[Path]) -> dict[str, Tensor]:
    """The arithmetic mean of the weights in these folders, in the precision they have there.

    One tensor at a time is added up, in float64: many folders need no more memory than two.
    """
    if not folders:
        raise ValueError("an average needs at least one checkpoint, got none: train longer first.")
    return dict(_averages(folders))


def _averages(folders: Sequence[Path]) -> Iterator[tuple[str, Tensor]]:
    with ExitStack() as opened:
        models = [_open_weights(folder, opened) for folder in folders]
        for folder, model in zip(folders, models, strict=True):
            if differing := sorted(model.keys() ^ models[0].keys()):
                raise ValueError(
                    f"averaged checkpoints must have the same weights, got {differing[0]} only in "
                    f"one of {folders[0]} and {folder}: average checkpoints of one run."
                )
        for name in models[0]:
            yield name, _mean(name, models)


def _open_weights(folder: Path, opened: ExitStack) -> dict[str, safe_open]:
    """Which open file each weight is in; nothing is read yet."""
    files = [
        opened.enter_context(safe_open(path, framework="pt"))
        for path in sorted(folder.glob(WEIGHTS))
    ]
    if not files:
        raise ValueError(f"a checkpoint must hold {WEIGHTS}, got none in {folder}.")
    return {name: file for file in files for name in file.keys()}  # noqa: SIM118


def _mean(name: str, models: Sequence[dict[str, safe_open]]) -> Tensor:
    first = models[0][name].get_tensor(name)
    total = torch.zeros_like(first, dtype=torch.float64)
    for model in models:
        tensor = model[name].get_tensor(name)
        if tensor.shape != first.shape or tensor.dtype != first.dtype:
            raise ValueError(
                f"{name} must have one shape and type in all checkpoints, got {first.dtype} "
                f"{[*first.shape]} and {tensor.dtype} {[*tensor.shape]}: average one run's."
            )
        if not (tensor.is_floating_point() or tensor.equal(first)):
            raise ValueError(f"{name} ({first.dtype}) has no average: it must be equal in all.")
        total += tensor
    return (total / len(models)).to(first.dtype) if first.is_floating_point() else first.clone()
