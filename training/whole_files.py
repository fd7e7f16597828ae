"""Folders that are there whole or not at all, whenever a process is killed."""

import os
import shutil
from collections.abc import Callable
from pathlib import Path

from filelock import FileLock

from vanilla_transformer.file_replacement import sync_folder

LOCK = ".making.lock"
UNFINISHED = ".unfinished"


def make_once(folder: Path, write: Callable[[Path], None]) -> None:
    """Have a folder written beside its place and moved there, unless it is there already.

    Whoever comes second waits for the first. What killed processes left is taken away.
    """
    if folder.exists():
        return
    folder.parent.mkdir(parents=True, exist_ok=True)
    with FileLock(folder.parent / LOCK):
        if folder.exists():
            return
        for left_over in folder.parent.glob(f".*{UNFINISHED}"):
            shutil.rmtree(left_over)
        staged = folder.with_name(f".{folder.name}{UNFINISHED}")
        staged.mkdir()
        try:
            write(staged)
            sync_files(staged)
            staged.rename(folder)
        except BaseException:
            shutil.rmtree(staged, ignore_errors=True)
            raise
        sync_folder(folder.parent)


def sync_files(folder: Path) -> None:
    """Return when every file and folder below is on the disk, not only in memory."""
    for parent, _, files in os.walk(folder):
        for name in files:
            with Path(parent, name).open("r+b") as file:
                os.fsync(file.fileno())
        sync_folder(Path(parent))
