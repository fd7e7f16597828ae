"""Who trains end to end: a script, the Python that has its library, its settings by precision."""

import importlib.util
import sys
from dataclasses import dataclass
from typing import Any

OURS = "ours"


@dataclass(frozen=True)
class Loop:
    """A contestant."""

    script: str
    settings: dict[str, dict[str, Any]]  # of every precision that it has
    library: str = "torch"


def _trainer(attention: str = "eager", smoothed: bool = True) -> dict[str, dict[str, Any]]:
    """All numbers in 16 bits for bf16: the fastest way, and at this rate it learns no worse."""
    settings = {"attention": attention, "smoothed": smoothed, "autocast": False}
    return {
        "fp32": settings | {"weights": "float32"},
        "bf16": settings | {"weights": "bfloat16"},
    }


def _by_precision(*precisions: str) -> dict[str, dict[str, Any]]:
    return {precision: {"precision": precision} for precision in precisions}


TRAINER = "loop_seq2seq_trainer.py"
AUTOCAST = {"attention": "eager", "smoothed": True, "autocast": True, "weights": "float32"}
LOOPS = {
    OURS: Loop("loop_ours.py", _by_precision("fp32", "bf16")),
    "Trainer, eager": Loop(TRAINER, _trainer("eager")),
    "Trainer, sdpa": Loop(TRAINER, _trainer("sdpa")),
    "Trainer, autocast": Loop(TRAINER, {"bf16": AUTOCAST}),
    "Trainer, unsmoothed": Loop(TRAINER, _trainer(smoothed=False)),
    "JoeyNMT": Loop("loop_joeynmt.py", _by_precision("fp32"), "joeynmt"),
    "eole": Loop("loop_eole.py", _by_precision("fp32", "bf16"), "eole"),
}
# These do what ours does; the bars are for the fastest of them.
REFERENCES = ("Trainer, eager", "Trainer, sdpa", "Trainer, autocast")


def python_of(loop: Loop, environments: dict[str, str | None]) -> str | None:
    """Find the Python that has a loop's library, or None."""
    given = environments.get(loop.library)
    is_here = given is None and importlib.util.find_spec(loop.library) is not None
    return sys.executable if is_here else given
