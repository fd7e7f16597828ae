"""Contestants in processes of their own: a line of JSON asks for translations, a line answers.

Threads of one library never wait beside those of another, and an engine may run in another Python.
This file needs nothing but Python itself, for that reason.
"""

import json
import sys
import time
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any, Protocol

from benchmarks.script_process import ScriptProcess, answering

Sentences = list[list[int]]


class Translator(Protocol):
    """A contestant: only `translate` is timed, `prepare` and `read` are not."""

    def prepare(self, sentences: Sentences) -> Any:
        """Bring sentences into the form that it takes."""

    def translate(self, prepared: Any, beams: int, limit: int) -> Any:
        """Write at most `limit` words for each."""

    def read(self, outputs: Any) -> Sentences:
        """Bring its outputs into the form of `sentences`."""


# What an engine offers: the contestant's model from a folder, with so many threads.
Loader = Callable[[Path, int, dict[str, int]], Translator]


def _answer(translator: Translator, request: dict[str, Any], clock: Callable[[], float]) -> Any:
    """Translate batch by batch, and time all batches together."""
    prepared = [translator.prepare(sentences) for sentences in request["batches"]]
    start = clock()
    outputs = [translator.translate(one, request["beams"], request["limit"]) for one in prepared]
    seconds = clock() - start
    return {"seconds": seconds, "outputs": [translator.read(one) for one in outputs]}


def serve(loaders: Mapping[str, Loader]) -> None:
    """Answer requests until there are no more: `python engine.py folder threads`."""
    folder, threads = Path(sys.argv[1]), int(sys.argv[2])
    clock = time.process_time if threads == 1 else time.perf_counter
    answers = answering()
    print(json.dumps(list(loaders)), file=answers, flush=True)
    translators: dict[tuple[str, str], Translator] = {}
    for line in sys.stdin:
        request = json.loads(line)
        key = (request["contestant"], json.dumps(request["settings"]))
        if key not in translators:
            translators[key] = loaders[key[0]](folder, threads, request["settings"])
        print(json.dumps(_answer(translators[key], request, clock)), file=answers, flush=True)


class EngineProcess(ScriptProcess):
    """An engine's script at work in a fresh process."""

    def __init__(self, python: str, script: str, folder: Path, threads: int) -> None:
        super().__init__(python, script, str(folder), str(threads))
        self.contestants: list[str] = self.greeting

    def translate(
        self,
        contestant: str,
        batches: list[Sentences],
        beams: int,
        limit: int,
        settings: dict[str, int],
    ) -> tuple[float, list[Sentences]]:
        """Return the seconds that all batches took, and their translations."""
        request = {"contestant": contestant, "batches": batches, "beams": beams, "limit": limit}
        answer = self.ask(request | {"settings": settings})
        return answer["seconds"], answer["outputs"]
