"""What a run tells about itself: one JSON object a line, appended while it trains.

Anybody may read along. A line that is not whole (a run is just writing it, or was killed while it
did) is none, and what a resumed run has done again counts once.
"""

import json
import math
from pathlib import Path
from typing import Any

from vanilla_transformer.file_replacement import replace_file
from vanilla_transformer.run_facts import whole_lines


class RunLog:
    """Writes the log of a run; on one process."""

    def __init__(self, path: Path) -> None:
        self.path = path

    def append(self, kind: str, step: int, **values: Any) -> None:
        """Write a line, which whoever reads has at once."""
        text = json.dumps(_plain({"kind": kind, "step": step, **values}), ensure_ascii=False)
        # Half of a character pair is no UTF-8; as \udc80 it is JSON all the same.
        line = text.encode("utf-8", "backslashreplace") + b"\n"
        with self.path.open("a+b") as file:
            file.write(line if _ends_with_a_line(file) else b"\n" + line)

    def forget_after(self, step: int) -> None:
        """Drop the lines of later steps: a resumed run takes those again."""
        if self.path.exists():
            kept = [raw for raw, line in whole_lines(self.path) if line["step"] <= step]
            replace_file(self.path, b"".join(raw + b"\n" for raw in kept))


def _ends_with_a_line(file: Any) -> bool:
    """Whether nothing of a line that was not finished stands at the end."""
    if not file.tell():
        return True
    file.seek(-1, 2)
    return bool(file.read(1) == b"\n")


def _plain(value: Any) -> Any:
    """JSON knows no numbers that are not finite: they are written as text, nan -> "nan"."""
    if isinstance(value, float) and not math.isfinite(value):
        return str(value)
    if isinstance(value, dict):
        return {str(key): _plain(one) for key, one in value.items()}
    return [_plain(one) for one in value] if isinstance(value, list | tuple) else value
