"""The end of a run: checkpoints averaged (6.1) into RUN/model, and its scores."""

import json
import shutil
from pathlib import Path
from typing import Any

from training.averaging import write_average
from training.checkpoints import Checkpoints

MODEL, RESULTS = "model", "results.json"


def write_model(checkpoints: Checkpoints, count: int, folder: Path) -> list[int]:
    """Average the last checkpoints into a model folder; returns their steps."""
    last = checkpoints.last(count)
    replaced = folder / f".replaced-{MODEL}"
    shutil.rmtree(replaced, ignore_errors=True)
    if (folder / MODEL).exists():
        (folder / MODEL).rename(replaced)
    write_average([one.folder for one in last], folder / MODEL)
    shutil.rmtree(replaced, ignore_errors=True)
    return [one.step for one in last]


def write_results(scores: dict[str, Any], folder: Path) -> None:
    """Write what the model scores on validation and tests."""
    staged = folder / f".{RESULTS}"
    staged.write_text(json.dumps(scores, indent=1, ensure_ascii=False), encoding="utf-8")
    staged.replace(folder / RESULTS)
