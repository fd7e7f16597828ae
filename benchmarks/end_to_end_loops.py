"""Who trains end to end: a script, the Python that has its library, its settings by precision."""

import importlib.util
import sys
from dataclasses import dataclass, field
from typing import Any

OURS = "ours"


@dataclass(frozen=True)
class Loop:
    """A contestant."""

    script: str
    settings: dict[str, dict[str, Any]]  # of every precision that it has
    library: str = "torch"
    environment: dict[str, str] = field(default_factory=dict)


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
# What `steady_memory.keep_freed_memory` does for ours, said to glibc from outside.
KEPT = {"MALLOC_MMAP_MAX_": "0", "MALLOC_TRIM_THRESHOLD_": str(2**62)}
AUTOCAST = {"attention": "eager", "smoothed": True, "autocast": True, "weights": "float32"}
LOOPS = {
    OURS: Loop("loop_ours.py", _by_precision("fp32", "bf16")),
    "Trainer, eager": Loop(TRAINER, _trainer("eager")),
    "Trainer, sdpa": Loop(TRAINER, _trainer("sdpa")),
    "Trainer, autocast": Loop(TRAINER, {"bf16": AUTOCAST}),
    "Trainer, memory kept": Loop(TRAINER, _trainer(), environment=KEPT),
    "Trainer, unsmoothed": Loop(TRAINER, _trainer(smoothed=False)),
    "JoeyNMT": Loop("loop_joeynmt.py", _by_precision("fp32"), "joeynmt"),
    "eole": Loop("loop_eole.py", _by_precision("fp32", "bf16"), "eole"),
    "eole, memory kept": Loop("loop_eole.py", _by_precision("fp32", "bf16"), "eole", KEPT),
}
# These train as ours does; the bars are for the fastest by settings, and with memory kept as well.
REFERENCES = (("Trainer, eager", "Trainer, sdpa", "Trainer, autocast"), ("Trainer, memory kept",))


def python_of(loop: Loop, environments: dict[str, str | None]) -> str | None:
    """Find the Python that has a loop's library, or None."""
    given = environments.get(loop.library)
    is_here = given is None and importlib.util.find_spec(loop.library) is not None
    return sys.executable if is_here else given
