"""Publishes a model or a Space: a folder that needs nobody, checked, and one commit on the Hub."""

import shutil
import tempfile
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path

from .folder_verification import verify_folder
from .hub_upload import Kind, check_name, files_of, find_destination, upload
from .publishable_folder import make_folder
from .publishable_space import make_space

RUN_MODEL = "model"  # what every training run calls its result

Say = Callable[[str], None]


@dataclass(frozen=True)
class Options:
    """What is published, where, and how; the command line explains each."""

    model: Path
    to: str | None = None
    private: bool = False
    dry_run: bool = False
    folder: Path | None = None
    card: Path | None = None
    exclude: Sequence[str] = ()
    message: str = "Publish by vanilla-transformer"
    kind: Kind = "model"

    def __post_init__(self) -> None:
        if self.to is None and not self.dry_run:
            raise ValueError(
                "publish needs a place, got none: name a repository with --to user/name, or look "
                "at what would go with --dry-run."
            )
        if self.to is not None:
            check_name(self.to)
        if self.card is not None and not self.card.is_file():
            raise ValueError(f"--card must be a file, got {self.card}.")
        if self.card is not None and self.kind == "space":
            raise ValueError(
                f"--card is for models, got {self.card}: a Space brings its README.md."
            )
        if self.folder is not None:
            self._check_folder(self.folder.resolve())

    def _check_folder(self, folder: Path) -> None:
        if folder.is_relative_to(self.model.resolve()):
            raise ValueError(f"--folder must lie outside of MODEL, got {folder}.")
        if folder.exists() and (not folder.is_dir() or any(folder.iterdir())):
            raise ValueError(f"--folder must be a new folder, got {folder}: name another.")

    @property
    def name(self) -> str:
        """What the model will be called."""
        place = self.model.resolve()
        return self.to or (place.parent if place.name == RUN_MODEL else place).name


def publish(options: Options, say: Say, tell: Say) -> None:
    """Make, verify and upload; `say` gets what the user wants to know, `tell` how far it is."""
    destination = None
    if options.to and not options.dry_run:
        tell("asking the Hub who you are")
        destination = find_destination(options.to, private=options.private, kind=options.kind)
    name = destination.repository if destination else options.name
    with folder_for(options) as folder:
        tell(f"making {folder}")
        with whole_or_gone(folder):
            left_out = FILL[options.kind](options, folder, name, tell)
        if destination is None:
            say(f"repository  {describe_place(options)}")
            say(f"folder      {folder}")
            for line in describe_files(folder):
                say(line)
            for file_name in left_out:
                say(f"left out    {file_name}")
        else:
            tell(f"uploading to {destination.repository}")
            say(upload(folder, destination, options.message))


def fill_with_model(options: Options, folder: Path, name: str, tell: Say) -> list[str]:
    """Put a model into a folder and verify it; returns what is left out."""
    publication = make_folder(
        options.model, folder, name=name, card=options.card, exclude=options.exclude
    )
    for remark in publication.remarks:
        tell(remark)
    tell("reading it in a process without vanilla-transformer")
    verify_folder(folder, publication.model, publication.tokenizer)
    return publication.left_out


def fill_with_space(options: Options, folder: Path, name: str, tell: Say) -> list[str]:
    """Put a Space into a folder; returns what is left out."""
    return make_space(options.model, folder, exclude=options.exclude)


FILL: dict[Kind, Callable[[Options, Path, str, Say], list[str]]] = {
    "model": fill_with_model,
    "space": fill_with_space,
}


def describe_files(folder: Path) -> Iterator[str]:
    """A line a file: its size in bytes, and its name."""
    sizes = {name: file.stat().st_size for name, file in files_of(folder).items()}
    width = len(f"{sum(sizes.values()):,}")
    for name, size in sizes.items():
        yield f"{size:>{width},}  {name}"
    yield f"{sum(sizes.values()):>{width},}  in {len(sizes)} files"


def describe_place(options: Options) -> str:
    """Where a dry run would have gone."""
    if options.to is None:
        return "none: name one with --to user/name"
    return f"{options.to}, {'private' if options.private else 'public if it is new'}"


@contextmanager
def folder_for(options: Options) -> Iterator[Path]:
    """A new folder; it stays if it was asked for or is all that a dry run leaves, else it goes."""
    if options.folder is None:
        place = Path(tempfile.mkdtemp(prefix="vanilla-transformer-"))
    else:
        place = options.folder
        place.mkdir(parents=True, exist_ok=True)
    try:
        yield place
    finally:
        if not options.dry_run and options.folder is None:
            shutil.rmtree(place, ignore_errors=True)


@contextmanager
def whole_or_gone(folder: Path) -> Iterator[None]:
    """What is not whole is of no use, and in the way of the next attempt."""
    try:
        yield
    except BaseException:
        shutil.rmtree(folder, ignore_errors=True)
        raise
