"""A script of its own process, perhaps of another Python: a line of JSON asks, a line answers.

This file needs nothing but Python itself, so that every environment can run it.
"""

import json
import os
import subprocess
import sys
from pathlib import Path
from typing import Any, TextIO, TypeVar

REPOSITORY = Path(__file__).resolve().parent.parent

LAST_WORDS = 2_000  # characters of a log

Process = TypeVar("Process", bound="ScriptProcess")  # Python 3.10 has no `Self`


def answering() -> TextIO:
    """Where a script answers: what libraries print to stdout is no answer, and goes to stderr."""
    answers = os.fdopen(os.dup(1), "w")
    os.dup2(2, 1)
    return answers


class ScriptProcess:
    """A script of this folder at work in a fresh process; its first line greets."""

    def __init__(
        self,
        python: str,
        script: str,
        *arguments: str,
        log: Path | None = None,
        environment: dict[str, str] | None = None,
    ) -> None:
        """Start it; with a log, what it says on stderr goes there."""
        self.script, self.log = script, log
        words = None if log is None else log.open("wb")
        paths = [str(REPOSITORY)]
        if python == sys.executable:  # another Python has packages of its own
            paths += os.environ.get("PYTHONPATH", "").split(os.pathsep)
        self.process = subprocess.Popen(
            # As a module: beside a script, training.py would hide the package of that name.
            [python, "-m", f"benchmarks.{Path(script).stem}", *arguments],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=words,
            cwd=REPOSITORY,
            env={
                **os.environ,
                "PYTHONPATH": os.pathsep.join(filter(None, paths)),
                **(environment or {}),
            },
            text=True,
        )
        if words is not None:
            words.close()
        self.greeting = self._read()

    def ask(self, request: dict[str, Any]) -> Any:
        """Send a request and wait for its answer."""
        assert self.process.stdin is not None
        self.process.stdin.write(json.dumps(request) + "\n")
        self.process.stdin.flush()
        return self._read()

    def _read(self) -> Any:
        assert self.process.stdout is not None
        line = self.process.stdout.readline()
        if not line:
            if self.log is not None:
                print(self.log.read_text(errors="replace")[-LAST_WORDS:], file=sys.stderr)
            raise RuntimeError(f"{self.script} stopped: its last words are above.")
        return json.loads(line)

    def __enter__(self: Process) -> Process:
        return self

    def __exit__(self, *exception: object) -> None:
        self.stop()

    def stop(self) -> None:
        assert self.process.stdin is not None
        self.process.stdin.close()
        self.process.wait()
