"""Writes a tokenizer as a folder: the two files that `AutoTokenizer` reads, and a README."""

import copy
import os
import shutil
import tempfile
from pathlib import Path

from transformers import PreTrainedTokenizerFast

# The tokenizer itself last: only with it does an old bundle become the new one. The configuration
# is the same in every bundle, so a stop between two files leaves a bundle that works.
BUNDLE_FILES = ("README.md", "tokenizer_config.json", "tokenizer.json")
# What AutoTokenizer would read beside them: from another tokenizer, it would change this one.
OTHER_FILES = (
    "special_tokens_map.json",
    "added_tokens.json",
    "vocab.json",
    "merges.txt",
    "chat_template.jinja",
)
UNFINISHED = ".unfinished-"


def claim_folder(folder: Path, *, force: bool) -> None:
    """Refuse, before any work is done, a folder that cannot or must not be written."""
    existing = [name for name in BUNDLE_FILES + OTHER_FILES if (folder / name).exists()]
    if existing and not force:
        raise ValueError(
            f"{folder} already holds {', '.join(existing)}: choose another folder, or replace "
            "them with --force."
        )
    try:
        folder.mkdir(parents=True, exist_ok=True)
        tempfile.TemporaryFile(dir=folder).close()
        for left_over in folder.glob(f"{UNFINISHED}*"):  # by a run that was killed
            shutil.rmtree(left_over)
    except OSError as error:
        raise ValueError(f"{folder} must be a folder we may write to, got: {error}.") from error


def write_bundle(tokenizer: PreTrainedTokenizerFast, readme: str, folder: Path) -> None:
    """Write everything beside its place, then move each file there in one step.

    Killed in between, it leaves a tokenizer that is wholly the old one or wholly the new; its
    README may be the other's.
    """
    without_code = copy.copy(tokenizer)  # the library's own class reads the folder too
    without_code._auto_class = None
    with tempfile.TemporaryDirectory(prefix=UNFINISHED, dir=folder) as unfinished:
        without_code.save_pretrained(unfinished)
        (Path(unfinished) / "README.md").write_text(readme, encoding="utf-8", newline="\n")
        for name in BUNDLE_FILES:
            with (Path(unfinished) / name).open("r+b") as written:
                os.fsync(written.fileno())
        for name in BUNDLE_FILES:
            (Path(unfinished) / name).replace(folder / name)
    for name in OTHER_FILES:
        (folder / name).unlink(missing_ok=True)
