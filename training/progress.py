"""How far a run is: all that a resumed one needs to know beside weights and optimizer."""

import json
import math
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Self

from training.batching import Place

START = Place()


@dataclass
class Progress:
    """What has been done, and how well it went."""

    step: int = 0
    place: Place = START
    target_tokens: int = 0
    seconds: float = 0.0  # in steps, over all sessions
    best: float | None = None  # the highest quality an evaluation has found
    evaluations_since_best: int = 0
    skipped_steps: int = 0
    skipped_in_a_row: int = 0
    texts: str = ""  # a digest of what is learned from

    def note_quality(self, quality: float) -> None:
        """Remember an evaluation; the higher the better."""
        if quality > (-math.inf if self.best is None else self.best):  # which NaN never is
            self.best, self.evaluations_since_best = quality, 0
        else:
            self.evaluations_since_best += 1

    def note_finite(self, is_finite: bool) -> None:
        """Remember whether the last step changed the weights."""
        self.skipped_steps += not is_finite
        self.skipped_in_a_row = 0 if is_finite else self.skipped_in_a_row + 1

    def write(self, path: Path) -> None:
        path.write_text(json.dumps(asdict(self), indent=1), encoding="utf-8")

    @classmethod
    def read(cls, path: Path) -> Self:
        values = json.loads(path.read_text(encoding="utf-8"))
        return cls(**{**values, "place": Place(**values["place"])})
