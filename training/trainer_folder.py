"""The folder that the library's Trainer writes: claimed, cleared, resumed from what is whole in it.

The Trainer writes its checkpoints in place: killed meanwhile, it leaves a part of one. Resuming
from that, it begins anew whatever it does not find, and says nothing. So a checkpoint in which a
file is missing or cut off is passed over. (`train.py` writes checkpoints that cannot be half.)
"""

import json
import logging
import shutil
import zipfile
from collections.abc import Callable
from pathlib import Path

from safetensors import SafetensorError, safe_open

logger = logging.getLogger(__name__)

PREFIX = "checkpoint-"
RESULTS = ("*.safetensors", "config.json", "generation_config.json", "adapter_config.json")


def check_folder(folder: Path, model: Path, *, resume: bool, force: bool) -> None:
    """Refuse a folder whose content would be lost, or mixed with ours."""
    if folder.resolve() == model.resolve():
        raise ValueError(f"--output must be another folder than the model's, got {folder} twice.")
    if resume and force:
        raise ValueError("A run goes on with --resume or begins anew with --force, got both.")
    if not (resume or force) and folder.exists() and any(folder.iterdir()):
        raise ValueError(
            f"--output must be a new folder, got {folder}, which holds something: choose another, "
            "go on with --resume or replace its model with --force."
        )


def clear_folder(folder: Path) -> None:
    """Remove what an earlier run left, and nothing else."""
    for checkpoint in checkpoints_in(folder):
        shutil.rmtree(checkpoint)
    for pattern in RESULTS:
        for file in folder.glob(pattern):
            file.unlink()


def checkpoints_in(folder: Path) -> list[Path]:
    """All checkpoints, the last one first."""
    found = [one for one in folder.glob(f"{PREFIX}*") if one.name[len(PREFIX) :].isdecimal()]
    return sorted(found, key=lambda one: int(one.name[len(PREFIX) :]), reverse=True)


def last_whole_checkpoint(folder: Path, *, processes: int, is_adapter: bool) -> Path | None:
    """The last whole checkpoint; None where there is none at all, an error if all are broken."""
    found = checkpoints_in(folder)
    for checkpoint in found:
        fault = fault_of(checkpoint, processes=processes, is_adapter=is_adapter)
        if not fault:
            return checkpoint
        logger.warning("passing over %s: %s", checkpoint, fault)
    if found:
        raise ValueError(
            f"{folder} must have a whole checkpoint to go on from, got none: in {found[0].name} "
            f"{fault}. Go on with as many processes as before, with or without --lora as before, "
            "or begin anew with --force."
        )
    return None


def fault_of(checkpoint: Path, *, processes: int, is_adapter: bool) -> str:
    """What is wrong with a checkpoint, "" if nothing is."""
    ranks = [""] if processes == 1 else [f"_{rank}" for rank in range(processes)]
    names = (
        "adapter_model.safetensors" if is_adapter else "model.safetensors",
        *("optimizer.pt", "scheduler.pt"),
        *(f"rng_state{rank}.pth" for rank in ranks),
        "trainer_state.json",
    )
    for name in names:
        file = checkpoint / name
        if not file.is_file():
            return f"{name} is missing"
        try:
            READERS[file.suffix](file)
        except (OSError, ValueError, zipfile.BadZipFile, SafetensorError) as error:
            return f"{name} is damaged ({error})"
    return ""


def _read_json(file: Path) -> None:
    json.loads(file.read_text(encoding="utf-8"))


def _read_pickle(file: Path) -> None:
    """Look at the table at the file's end; nothing is unpickled."""
    zipfile.ZipFile(file).close()


def _read_tensors(file: Path) -> None:
    """Look at the table at the file's beginning, which knows how long the file is."""
    with safe_open(file, framework="pt"):
        pass


READERS: dict[str, Callable[[Path], None]] = {
    ".json": _read_json,
    ".pt": _read_pickle,
    ".pth": _read_pickle,
    ".safetensors": _read_tensors,
}
