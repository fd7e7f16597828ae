"""Brings a folder to the Hub in one commit, however often that has to be tried.

To try again is to begin again: what is on the Hub already is not sent a second time, neither by the
next attempt nor by the next run, and a commit that got there unnoticed is found to be there.
"""

import logging
import time
from collections.abc import Callable
from dataclasses import dataclass
from fnmatch import fnmatch
from pathlib import Path
from typing import Literal, TypeVar

from huggingface_hub import (
    CommitInfo,
    CommitOperationAdd,
    CommitOperationDelete,
    HfApi,
    ModelInfo,
    SpaceInfo,
    get_token,
)
from huggingface_hub.errors import HFValidationError, RepositoryNotFoundError
from huggingface_hub.utils import validate_repo_id

from . import __version__
from .hub_errors import NO_TOKEN, UploadError, explain, seconds_to_wait

WEIGHTS = ("*.safetensors", "*.safetensors.index.json", "pytorch_model*", "*.ckpt*", "*.h5")
OF_A_TRAINER = ("training_args.bin",)  # a pickle, which its push_to_hub leaves
ATTEMPTS = 6
LONGEST_WAIT = 600  # seconds; the Hub counts requests in windows of five minutes

Kind = Literal["model", "space"]
Result = TypeVar("Result")
logger = logging.getLogger(__name__)


@dataclass(frozen=True)
class Destination:
    """A repository of the Hub that this user may write to."""

    repository: str
    private: bool
    kind: Kind = "model"


def check_name(repository: str) -> None:
    """Refuse what can be no repository, before anything is asked."""
    try:
        validate_repo_id(repository)
    except HFValidationError as error:
        raise ValueError(
            f"--to must be user/name or a name, got {repository!r}: letters, digits, '-', '_' and "
            "'.', none of the last three twice in a row or at an end, at most 96 in all."
        ) from error


def find_destination(repository: str, *, private: bool, kind: Kind = "model") -> Destination:
    """Ask who publishes, before long work; a name alone becomes one of this user's."""
    check_name(repository)
    if get_token() is None:
        raise UploadError(NO_TOKEN)
    user = persist(lambda: _api().whoami(), repository)
    role = user.get("auth", {}).get("accessToken", {}).get("role")
    if role == "read":
        raise UploadError(
            "A token must be allowed to write, got one that may only read: make one with write "
            "access at https://huggingface.co/settings/tokens and run `hf auth login`."
        )
    full_name = repository if "/" in repository else f"{user['name']}/{repository}"
    destination = Destination(full_name, private, kind)
    persist(lambda: _check_access(destination), full_name)
    return destination


def _check_access(destination: Destination) -> None:
    """Refuse a repository that is there, if it is public or another's; a new one is made later."""
    try:
        _look(destination)
        _api().auth_check(destination.repository, repo_type=destination.kind, write=True)
    except RepositoryNotFoundError:
        return


def _look(destination: Destination) -> ModelInfo | SpaceInfo:
    """What is in a repository; one that is public and must not be is refused."""
    api, repository, kind = _api(), destination.repository, destination.kind
    there = api.space_info(repository) if kind == "space" else api.model_info(repository)
    if destination.private and not there.private:
        raise UploadError(
            f"--private wants a private repository, got {repository}, which is there and public: "
            "make it private in its settings on the Hub, or leave --private out."
        )
    return there


def upload(folder: Path, destination: Destination, message: str) -> str:
    """Make the repository, if need be, and one commit in it; returns the commit's address."""
    repository = destination.repository
    persist(lambda: _create(destination), repository)
    commit = persist(lambda: _commit(folder, destination, message), repository)
    return str(commit.commit_url)


def _create(destination: Destination) -> None:
    _api().create_repo(
        destination.repository,
        private=destination.private or None,
        repo_type=destination.kind,
        space_sdk="gradio" if destination.kind == "space" else None,
        exist_ok=True,
    )


def _commit(folder: Path, destination: Destination, message: str) -> CommitInfo:
    """One commit that makes the repository what the folder is; other files there stay."""
    repository, kind = destination.repository, destination.kind
    before = _look(destination)
    there = {sibling.rfilename for sibling in before.siblings or []}
    files = files_of(folder)
    stale = [name for name in sorted(there - files.keys()) if IS_STALE[kind](name)]
    if stale:
        logger.warning("removing earlier files from %s: %s", repository, ", ".join(stale))
    return _api().create_commit(
        repository,
        [
            *(CommitOperationDelete(name) for name in stale),
            *(CommitOperationAdd(name, file) for name, file in files.items()),
        ],
        repo_type=kind,
        commit_message=message,
        parent_commit=before.sha,
    )


def files_of(folder: Path) -> dict[str, Path]:
    """Every file by its name in the repository, which has the folders of its own in it."""
    files = (file for file in sorted(folder.rglob("*")) if file.is_file())
    return {file.relative_to(folder).as_posix(): file for file in files}


def is_of_a_model(name: str) -> bool:
    """Whether a file of the repository's top is, or lists, weights of a model, or is a pickle."""
    return "/" not in name and any(fnmatch(name, one) for one in (*WEIGHTS, *OF_A_TRAINER))


def is_package(name: str) -> bool:
    """Whether a file of a Space belongs to the package that lies in it."""
    return name.startswith(f"{__package__}/")


# Which files of an earlier publication would be taken for, or loaded beside, the new ones.
IS_STALE: dict[Kind, Callable[[str], bool]] = {"model": is_of_a_model, "space": is_package}


def persist(act: Callable[[], Result], repository: str) -> Result:
    """Try until it succeeds, if the error may pass; say in the end what it was."""
    for attempt in range(ATTEMPTS):
        try:
            return act()
        except Exception as error:
            reason = explain(error, repository)
            if reason is None:
                raise
            wait = seconds_to_wait(error, attempt)
            if wait is None or wait > LONGEST_WAIT or attempt == ATTEMPTS - 1:
                raise reason from error
            logger.warning("%s Trying again in %.0f s.", reason, wait)
            time.sleep(wait)
    raise AssertionError("the last attempt returns or raises")


def _api() -> HfApi:
    return HfApi(token=get_token(), library_name="vanilla-transformer", library_version=__version__)
