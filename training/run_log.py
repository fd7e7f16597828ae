"""The log of a run: RUN/log.jsonl, one JSON object a line."""

import json
import math
import os
from pathlib import Path
from typing import Any


class RunLog:
    """Appends to a log, and forgets what a resumed run will do again."""

    def __init__(self, path: Path) -> None:
        self.path = path

    def append(self, kind: str, step: int, **values: Any) -> None:
        """Add a line."""
        line = json.dumps(_plain({"kind": kind, "step": step, **values}), ensure_ascii=False)
        with self.path.open("a", encoding="utf-8") as file:
            file.write(line + "\n")

    def forget_after(self, step: int) -> None:
        """Drop the lines of later steps."""
        kept = [line for line in read_log(self.path) if line["step"] <= step]
        staged = self.path.with_name(f".{self.path.name}")
        with staged.open("w", encoding="utf-8") as file:
            file.writelines(json.dumps(line, ensure_ascii=False) + "\n" for line in kept)
            file.flush()
            os.fsync(file.fileno())
        staged.replace(self.path)


def read_log(path: Path) -> list[dict[str, Any]]:
    """All whole lines of a log; none if there is no log."""
    if not path.exists():
        return []
    lines = path.read_text(encoding="utf-8").split("\n")
    return [json.loads(line) for line in lines[:-1]]


def _plain(value: Any) -> Any:
    if isinstance(value, float) and not math.isfinite(value):
        return str(value)
    return value if not isinstance(value, dict) else {k: _plain(v) for k, v in value.items()}
