"""Checkpoints that cannot be half-written: staged, synced, renamed; verified before they are used.

    RUN/checkpoints/
      step-00001200/    an ordinary `from_pretrained` folder
        manifest.json   every file below with its size and digest; written last
        training/       what only a resumed run needs: optimizer, progress
      .staged-...       not yet a checkpoint: a run is writing it, or was killed while it did
      .replaced-...     still a checkpoint, until another of the same step has taken its place
      .removed-...      no longer a checkpoint: being deleted

Only the run that holds the lock may save and so delete; anybody may look.
"""

import logging
import math
import re
import shutil
from collections.abc import Callable, Iterable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from itertools import islice
from pathlib import Path

from safetensors import SafetensorError

from training.checkpoint_files import (
    CheckpointError,
    find_damage,
    read_manifest,
    remove_folder,
    write_manifest,
)
from training.whole_files import sync_files
from vanilla_transformer.file_replacement import sync_folder

logger = logging.getLogger(__name__)

STAGED, REPLACED, REMOVED = ".staged-", ".replaced-", ".removed-"
NAME = re.compile(r"(?:\.replaced-)?step-(\d+)")
MEBIBYTE = 2**20


@dataclass(frozen=True)
class Checkpoint:
    """A folder that was whole when somebody looked."""

    folder: Path
    step: int
    score: float | None

    @property
    def training(self) -> Path:
        """Where the things lie that a resumed run needs and a published model does not."""
        return self.folder / "training"


class Checkpoints:
    """The checkpoints of one run: the last ones, and those of the highest scores."""

    def __init__(
        self, folder: Path, *, keep_last: int, keep_best: int, every_steps: int = 1
    ) -> None:
        """Checkpoints of other steps than every so many are kept until the next one.

        So a run that was asked to stop, and saved, has the same last ones as if it had not been.
        """
        if keep_last < 1 or keep_best < 1:
            raise ValueError(
                "keep_last and keep_best must be at least 1, so that the last and the best "
                f"checkpoint stay, got {keep_last} and {keep_best}."
            )
        self.folder = folder
        self.keep_last = keep_last
        self.keep_best = keep_best
        self.every_steps = every_steps
        self._read_whole: set[Path] = set()

    def save(
        self,
        step: int,
        write: Callable[[Path], None],
        score: float | None = None,
        expected_bytes: int = 0,
    ) -> Checkpoint:
        """Let `write` fill a folder and make it the checkpoint of this step: all of it, or nothing.

        The higher the `score` the better (a loss wants a minus sign); None: it never is the best.
        """
        with self._all_or_nothing(step):
            self._make_room(expected_bytes)
            (self._staged(step) / "training").mkdir(parents=True)
            write(self._staged(step))
            checkpoint = self._commit(step, score)
        self.tidy(step)
        return checkpoint

    def tidy(self, step: int) -> None:
        """Delete what is neither among the last nor among the best of the steps until this one.

        After a kill this is what the run was about to delete.
        """
        candidates = [path for path in self._newest_first() if _step_of(path) <= step]
        whole = [path for path in candidates if self._is_whole(path, trusts_sizes=True)]
        kept = {*self._regular(whole)[: self.keep_last], *_highest_first(whole)[: self.keep_best]}
        for folder in candidates:
            if folder not in kept:
                self._read_whole.discard(folder)
                self._remove(folder)
        self._delete_leftovers()

    def latest(self) -> Checkpoint | None:
        """The last checkpoint that is whole; a warning names the damage of later ones.

        None: the run has none yet. If it has, and all are damaged, that is an error.
        """
        folders = self._newest_first()
        checkpoint = next(self._whole(folders), None)
        if folders and checkpoint is None:
            raise CheckpointError(
                f"one checkpoint at least must be whole, got damage in all of {self.folder}, as "
                "the warnings say: restore one from a copy, or begin in another folder."
            )
        return checkpoint

    def last(self, count: int) -> list[Checkpoint]:
        """The last `count` regular checkpoints that are whole, or fewer, in the order of steps.

        The newest one always counts.
        """
        return list(islice(self._whole(self._regular(self._newest_first())), count))[::-1]

    def best(self) -> Checkpoint | None:
        """The whole checkpoint of the highest score; None if none was ever scored."""
        return next(self._whole(_highest_first(self._newest_first())), None)

    def _staged(self, step: int) -> Path:
        return self.folder / f"{STAGED}step-{step:08d}"

    def _make_room(self, expected_bytes: int) -> None:
        """Delete what is in the way; refuse a checkpoint where it will not fit."""
        self.folder.mkdir(parents=True, exist_ok=True)
        sync_folder(self.folder.parent)
        self._delete_leftovers()
        self._refuse_full_disk(expected_bytes)

    def _commit(self, step: int, score: float | None) -> Checkpoint:
        """Turn what was staged into a checkpoint, in one step.

        Saved once more without a score, a step keeps the one it had.
        """
        folder = self.folder / f"step-{step:08d}"
        score = _score_of(folder) if score is None else float(score)
        if score is not None and not math.isfinite(score):
            score = None
        write_manifest(self._staged(step), step, score)
        sync_files(self._staged(step))
        if folder.exists():  # it was damaged, or the run resumed there
            folder.rename(self.folder / f"{REPLACED}{folder.name}")
        self._staged(step).rename(folder)
        sync_folder(self.folder)
        self._read_whole.add(folder)
        return Checkpoint(folder, step, score)

    def _newest_first(self) -> list[Path]:
        """Every folder that claims to be a checkpoint, one a step."""
        folders: dict[int, Path] = {}
        for path in sorted(self.folder.glob("*step-*")):  # `step-` after `.replaced-step-`
            if match := NAME.fullmatch(path.name):
                folders[int(match[1])] = path
        return [folders[step] for step in sorted(folders, reverse=True)]

    def _regular(self, newest_first: list[Path]) -> list[Path]:
        return [
            path
            for number, path in enumerate(newest_first)
            if number == 0 or _step_of(path) % self.every_steps == 0
        ]

    def _whole(self, folders: Iterable[Path]) -> Iterator[Checkpoint]:
        """Check one after the other, only as far as somebody asks."""
        for folder in folders:
            if self._is_whole(folder):
                manifest = read_manifest(folder)
                yield Checkpoint(folder, manifest.step, manifest.score)

    def _is_whole(self, folder: Path, *, trusts_sizes: bool = False) -> bool:
        """Read all of a folder, or look at its sizes if this process once read it all."""
        reads_all = not (trusts_sizes and folder in self._read_whole)
        if damages := find_damage(folder, reads_all=reads_all):
            logger.warning(
                "%s is damaged: %s. Other checkpoints take its place.", folder, "; ".join(damages)
            )
            return False
        self._read_whole.add(folder)
        return True

    def _delete_leftovers(self) -> None:
        """Delete what killed runs and interrupted rotations left, unless it is a checkpoint."""
        checkpoints = self._newest_first()
        for prefix in (STAGED, REPLACED, REMOVED):
            for path in self.folder.glob(f"{prefix}*"):
                if path not in checkpoints:
                    self._remove(path)

    def _remove(self, folder: Path) -> None:
        aside = self.folder / f"{REMOVED}{folder.name.removeprefix(REMOVED)}"
        try:
            remove_folder(folder, aside)
        except OSError as error:  # no reason to stop training
            logger.warning("%s could not be deleted and takes up room: %s", folder, error)

    def _refuse_full_disk(self, expected_bytes: int) -> None:
        """Compare the free space with the last checkpoint, or with what the caller expects."""
        for folder in self._newest_first():
            if not find_damage(folder, reads_all=False):
                expected_bytes = max(expected_bytes, read_manifest(folder).size)
                break
        free = shutil.disk_usage(self.folder).free
        if free < expected_bytes:
            raise CheckpointError(
                f"a checkpoint needs {expected_bytes / MEBIBYTE:,.1f} MiB of disk space, got "
                f"{free / MEBIBYTE:,.1f} MiB free at {self.folder}: free some, or keep fewer "
                "checkpoints; the earlier ones are whole, so --resume continues from there."
            )

    @contextmanager
    def _all_or_nothing(self, step: int) -> Iterator[None]:
        """On any failure nothing staged stays; one of the disk is told in one line."""
        try:
            yield
        except CheckpointError:
            raise
        except (OSError, SafetensorError) as error:  # safetensors reports a full disk so
            raise CheckpointError(
                f"the checkpoint of step {step} must be writable, got {error} in {self.folder}: "
                "give it space and permission; the earlier ones are whole, so --resume continues "
                "from there."
            ) from error
        finally:
            shutil.rmtree(self._staged(step), ignore_errors=True)  # or else the next one deletes it


def _step_of(folder: Path) -> int:
    return int(folder.name.rpartition("-")[2])


def _score_of(folder: Path, if_damaged: float | None = None) -> float | None:
    try:
        return read_manifest(folder).score
    except ValueError:
        return if_damaged


def _highest_first(folders: Iterable[Path]) -> list[Path]:
    """Those that have a score, the later first of two equals; unreadable ones, to be warned of."""
    scores = {folder: _score_of(folder, if_damaged=math.inf) for folder in folders}
    scored = [(score, folder) for folder, score in scores.items() if score is not None]
    return [folder for _, folder in sorted(scored, key=lambda pair: pair[0], reverse=True)]
