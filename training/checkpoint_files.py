"""The files of one checkpoint: a manifest says what belongs to it, so every damage has a name.

Nothing here imports torch: looking whether a folder is whole is quick.
"""

import hashlib
import json
import shutil
from dataclasses import asdict, dataclass
from pathlib import Path

from vanilla_transformer.file_replacement import sync_folder

MANIFEST = "manifest.json"


class CheckpointError(OSError):
    """A checkpoint that cannot be written, or none left that can be read; one line says why."""


@dataclass(frozen=True)
class FileRecord:
    """What a file was when it was written."""

    size: int
    sha256: str


@dataclass(frozen=True)
class Manifest:
    """Written last, it makes a folder a checkpoint."""

    step: int
    score: float | None
    files: dict[str, FileRecord]

    @property
    def size(self) -> int:
        return sum(record.size for record in self.files.values())

    def to_json(self) -> str:
        """The text of the file, which ends with its own digest."""
        fields = {
            "step": self.step,
            "score": self.score,
            "files": {name: asdict(record) for name, record in self.files.items()},
        }
        digest = hashlib.sha256(json.dumps(fields).encode()).hexdigest()
        return json.dumps({**fields, "sha256": digest}, indent=1) + "\n"


def write_manifest(folder: Path, step: int, score: float | None) -> None:
    """List the files of a folder, all of them already written."""
    records = {
        path.relative_to(folder).as_posix(): FileRecord(path.stat().st_size, _sha256(path))
        for path in sorted(folder.rglob("*"))
        if path.is_file() and path != folder / MANIFEST
    }
    text = Manifest(step=step, score=score, files=records).to_json()
    (folder / MANIFEST).write_text(text, encoding="utf-8", newline="\n")


def read_manifest(folder: Path) -> Manifest:
    """Read the manifest; a ValueError tells what is wrong with it."""
    try:
        text = (folder / MANIFEST).read_bytes().decode("utf-8")
        fields = json.loads(text)
        files = {name: FileRecord(**record) for name, record in fields["files"].items()}
        manifest = Manifest(step=fields["step"], score=fields["score"], files=files)
        if manifest.to_json() == text:
            return manifest
    except FileNotFoundError as error:
        raise ValueError(f"{MANIFEST} is missing") from error
    except OSError as error:
        raise ValueError(f"{MANIFEST} cannot be read: {error}") from error
    except (ValueError, LookupError, TypeError, AttributeError) as error:
        raise ValueError(f"{MANIFEST} is not what was written: {error}") from error
    raise ValueError(f"{MANIFEST} is not what was written: its digest is another")


def find_damage(folder: Path, *, reads_all: bool = True) -> list[str]:
    """Say of every broken file what is wrong with it; nothing if the checkpoint is whole.

    Without `reads_all` only sizes are compared, which takes no time.
    """
    try:
        manifest = read_manifest(folder)
    except ValueError as error:
        return [str(error)]
    damages = [
        _damage_of(folder / name, record, reads_all=reads_all)
        for name, record in manifest.files.items()
    ]
    return [
        f"{name} {damage}" for name, damage in zip(manifest.files, damages, strict=True) if damage
    ]


def _damage_of(path: Path, record: FileRecord, *, reads_all: bool) -> str | None:
    try:
        size = path.stat().st_size
        if size != record.size:
            return f"has {size:,} of {record.size:,} bytes" if size else "is empty"
        if reads_all and _sha256(path) != record.sha256:
            return "was altered after it was written: its sha256 is another"
    except FileNotFoundError:
        return "is missing"
    except OSError as error:
        return f"cannot be read: {error}"
    return None


def _sha256(path: Path) -> str:
    with path.open("rb") as file:
        return hashlib.file_digest(file, "sha256").hexdigest()


def remove_folder(folder: Path, aside: Path) -> None:
    """Take a folder away in one step, then delete it: killed in between, it is not half there."""
    folder.rename(aside)
    sync_folder(aside.parent)
    shutil.rmtree(aside)
