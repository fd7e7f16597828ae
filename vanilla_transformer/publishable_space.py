"""Makes of the folder of a Space one that runs on the Hub: with this package, and its model, in it.

There the app finds the package beside itself, so that no release of it has to be anywhere else.
"""

import shutil
from collections.abc import Sequence
from fnmatch import fnmatch
from pathlib import Path

from huggingface_hub import RepoCard

from .configuration_rules import refuse
from .embedded_models import DEFAULT_MODEL, embedded_names
from .hub_upload import files_of
from .publishing_checks import refusals_of

PACKAGE = Path(__file__).parent
APP, HEADER = "app.py", "README.md"
CACHE = "__pycache__"


def make_space(source: Path, folder: Path, *, exclude: Sequence[str]) -> list[str]:
    """Write all that runs on the Hub into an empty folder; returns what of `source` is left out."""
    check_space(source)
    own, left_out = choose_files(source, exclude)
    package, _ = choose_files(PACKAGE, ())
    beside = {f"{PACKAGE.name}/{name}": file for name, file in package.items()}
    code = {name: file for name, file in beside.items() if file.suffix == ".py"}
    data = {name: file for name, file in beside.items() if name not in code}
    refuse(refusals_of(own | data))  # our code is public, and spells out what a secret looks like
    for name, file in (own | data | code).items():
        (folder / name).parent.mkdir(parents=True, exist_ok=True)
        shutil.copyfile(file, folder / name)
    return left_out


def check_space(source: Path) -> None:
    """Refuse what the Hub could not run."""
    missing = [name for name in (APP, HEADER) if not (source / name).is_file()]
    if missing:
        raise ValueError(
            f"A Space must be a folder with {APP} and {HEADER}, got {source} without "
            f"{' and '.join(missing)}: name the folder space/ of a clone."
        )
    sdk = RepoCard.load(source / HEADER, ignore_metadata_errors=True).data.get("sdk")
    if sdk != "gradio":
        raise ValueError(
            f"The {HEADER} of a Space must say 'sdk: gradio' in its header, got {sdk}."
        )
    if DEFAULT_MODEL not in embedded_names():
        raise ValueError(
            f"A Space needs the model {DEFAULT_MODEL} in this package, got "
            f"{', '.join(embedded_names()) or 'none'}: make embed puts it there."
        )


def choose_files(source: Path, exclude: Sequence[str]) -> tuple[dict[str, Path], list[str]]:
    """The files to take by their names in the folder, and the names of those to leave."""
    taken, left_out = {}, []
    for name, file in files_of(source).items():
        parts = Path(name).parts
        is_hidden = any(part.startswith(".") for part in parts)
        if is_hidden or any(fnmatch(name, pattern) for pattern in exclude):
            left_out.append(name)
        elif CACHE not in parts:
            taken[name] = file
    return taken, left_out
