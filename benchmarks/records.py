"""Runs on record: a line of JSON for each, in a file that is whole whenever somebody is killed."""

import json
from collections.abc import Iterable
from dataclasses import asdict
from pathlib import Path
from typing import Any, TypeVar

from vanilla_transformer.file_replacement import replace_file

Record = TypeVar("Record")


def read_records(file: Path, kind: type[Record]) -> list[Record]:
    """The records in a file, none where there is no file."""
    lines = file.read_text(encoding="utf-8").splitlines() if file.is_file() else []
    return [kind(**json.loads(line)) for line in lines]


def write_records(file: Path, records: Iterable[Any]) -> None:
    """Write dataclasses in place of what was on record."""
    lines = [json.dumps(asdict(one), ensure_ascii=False) + "\n" for one in records]
    replace_file(file, "".join(lines).encode())
