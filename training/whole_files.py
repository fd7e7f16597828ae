"""A file is the old one or the new one, whenever a process is killed or somebody reads."""

import os
from pathlib import Path

from training.checkpoint_files import sync_folder


def replace_file(path: Path, content: bytes) -> None:
    """Write a file so that nobody ever finds half of it."""
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
