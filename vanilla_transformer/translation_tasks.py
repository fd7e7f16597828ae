"""The names of one task: "translation", or with its languages, as in "translation_en_to_de"."""

import copy
import re
from typing import Any

TRANSLATION = "translation"
WITH_LANGUAGES = re.compile(rf"{TRANSLATION}_(.+)_to_(.+)")


def languages_of(task: object) -> tuple[str, str] | None:
    """The languages that a task names: "translation_en_to_de" -> ("en", "de")."""
    found = WITH_LANGUAGES.fullmatch(task) if isinstance(task, str) else None
    return (found[1], found[2]) if found else None


class FolderPipelines(dict[str, Any]):
    """The pipelines that a folder carries; the library, which looks for whole names, finds ours.

    What it finds is a copy: it puts classes into it, and a configuration with those has no JSON.
    """

    def __contains__(self, task: object) -> bool:
        return super().__contains__(TRANSLATION if languages_of(task) else task)

    def __getitem__(self, task: str) -> Any:
        return copy.deepcopy(super().__getitem__(TRANSLATION if languages_of(task) else task))
