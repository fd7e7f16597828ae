"""A file is there whole, the old one or the new one, whenever a process is killed."""

import os
from pathlib import Path


def replace_file(path: Path, content: bytes) -> None:
    """Write a file: who reads finds the old one or the new one."""
    staged = path.with_name(f".{path.name}.{os.getpid()}")
    try:
        with staged.open("wb") as file:
            file.write(content)
            file.flush()
            os.fsync(file.fileno())
        staged.replace(path)
    finally:
        staged.unlink(missing_ok=True)
    sync_folder(path.parent)


def sync_folder(folder: Path) -> None:
    """Return when the names in a folder are on the disk."""
    if os.name == "nt":  # which cannot open folders, and does this by itself
        return
    descriptor = os.open(folder, os.O_RDONLY)
    try:
        os.fsync(descriptor)
    finally:
        os.close(descriptor)
