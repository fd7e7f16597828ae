"""Training loops that take turns: each runs as it is, in a process of its own, when it is asked to.

After every step a loop calls `Turns.done`, which waits there when the turn is over. CPU time does
not pass while a process waits. This file needs nothing but Python itself, like `script_process`.
"""

import json
import os
import sys
import time
from collections.abc import Callable
from dataclasses import asdict, dataclass
from typing import Any

from benchmarks.script_process import ScriptProcess, answering


@dataclass
class Turn:
    """What a loop did in a turn, and what it took."""

    steps: int = 0
    target_tokens: int = 0  # real ones, the end of a sentence included
    loss: float = 0.0  # of a target token, the mean over steps
    seconds: float = 0.0  # of the processor
    input_seconds: float = 0.0  # of these, to make batches ready and to log


@dataclass(frozen=True)
class Step:
    """What a loop tells of a step."""

    target_tokens: int
    loss: float
    input_seconds: float = 0.0


class Turns:
    """The side of the loop."""

    def __init__(self, clock: Callable[[], float] = time.process_time) -> None:
        self.clock, self.answers = clock, answering()
        self._answer("ready")
        self._begin()

    def done(self, step: Step) -> None:
        """Say that a step is done; returns when the next one is wanted, or never."""
        turn = self.turn
        turn.steps += 1
        turn.target_tokens += step.target_tokens
        turn.loss += step.loss
        turn.input_seconds += step.input_seconds
        if turn.target_tokens >= self.wanted:
            turn.seconds = self.clock() - self.start
            turn.loss /= turn.steps
            self._answer(asdict(turn))
            self._begin()

    def _begin(self) -> None:
        line = sys.stdin.readline()
        if not line:
            self.answers.close()
            os._exit(0)  # whatever the loop would do at its end
        self.wanted: int = json.loads(line)["target_tokens"]
        self.turn, self.start = Turn(), self.clock()

    def _answer(self, answer: Any) -> None:
        print(json.dumps(answer), file=self.answers, flush=True)


class LoopProcess(ScriptProcess):
    """The side of the benchmark."""

    def take_turn(self, target_tokens: int) -> Turn:
        """Let the loop train on so many target tokens, or the few more that fill its batch."""
        return Turn(**self.ask({"target_tokens": target_tokens}))
