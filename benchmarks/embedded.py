"""How fast is the model that ships? Single sentences and whole files, beside other engines.

`python benchmarks/embedded.py` prints a table and puts it into RESULTS.md. All contestants hold the
weights of en-de-small and translate sentences of the Tatoeba test set by four beams: `generate` and
other engines tokens to tokens, the pipeline and the command line text to text.
"""

import argparse
import statistics
import subprocess
import sys
import time
from collections.abc import Callable, Sequence
from contextlib import ExitStack
from dataclasses import dataclass, field
from functools import partial
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

import torch
from tqdm import tqdm
from transformers import AutoTokenizer, pipeline

from benchmarks.command_line import new_parser, parse_quickly, refuse_impossible
from benchmarks.decoding_comparison import CTRANSLATE2, PAUSE, Cell, Settings, settings_to_try
from benchmarks.decoding_folder import save_for_engines
from benchmarks.engine_process import EngineProcess
from benchmarks.machine import clock_for, cores, describe_machine, run_alone
from benchmarks.results import publish, shown_command, table
from vanilla_transformer import VanillaTransformerForConditionalGeneration
from vanilla_transformer.embedded_models import DEFAULT_MODEL, embedded
from vanilla_transformer.parallel_text import read_json_lines

SCRIPT = "embedded.py"
FOLDER = Path(__file__).resolve().parent
TEST_SET = "tatoeba/test.jsonl.gz"
BEAMS, LIMIT, BATCH = 4, 128, 128
LAUNCHERS = {
    "command line": [sys.executable, "-m"],
    "command line, two processes": [
        *(sys.executable, "-m", "accelerate.commands.launch", "--multi_gpu", "--num_machines", "1"),
        *("--num_processes", "2", "--main_process_port", "0", "--mixed_precision", "no"),
        *("--dynamo_backend", "no", "--module"),
    ],
}
QUICK = {"sentences": 8, "alone": 2, "rounds": 1, "threads": 1, "output": None}
MOST_MILLISECONDS, FEWEST_A_SECOND = 60, 150  # what we promise of two cores
ENGINES = ("engine_torch.py", CTRANSLATE2)

EXPLANATION = """\
- Sentences of the Tatoeba test set, four beams. *Alone*: milliseconds that each took, one after the
  other. *Together*: sentences a second in batches of 128 in the order of the file, the median of
  all rounds; the pipeline gets all at once, the command line reads a file and starts from nothing.
- Ours writes no six tokens twice in a sentence, as it ships; the others know no such rule here.
- CTranslate2 cuts and shares its batches in the way that is fastest on the first of them."""


@dataclass
class Speeds:
    """What one contestant needed."""

    alone: list[float] = field(default_factory=list)  # seconds a sentence
    together: list[float] = field(default_factory=list)  # sentences a second, of each round


@dataclass(frozen=True)
class Sentences:
    """What is translated: all of them together, and the first of them alone."""

    texts: list[str]
    tokens: list[list[int]]
    alone: int

    @property
    def batches(self) -> list[list[list[int]]]:
        return [self.tokens[start : start + BATCH] for start in range(0, len(self.tokens), BATCH)]


def save_contestants(folder: Path) -> None:
    """Write the shipped weights for every engine; meant for a process of its own."""
    model: Any = VanillaTransformerForConditionalGeneration.from_pretrained(embedded())
    save_for_engines(model, folder)


class Contestant:
    """One model of an engine, with the settings that suit it."""

    def __init__(self, engine: EngineProcess, name: str, threads: int) -> None:
        self.engine, self.name, self.threads = engine, name, threads
        self.at_once: Settings = {}

    def seconds(self, batches: list[list[list[int]]], settings: Settings) -> float:
        """Let it translate."""
        spent, _ = self.engine.translate(self.name, batches, BEAMS, LIMIT, settings)
        return spent

    def choices(self, batch: int) -> list[Settings]:
        """Its ways to cut a batch and to share threads."""
        cell = Cell(DEFAULT_MODEL, "tatoeba", batch, BEAMS, self.threads)
        return settings_to_try(self.engine.script, cell)

    def warm_up(self, sentences: Sentences) -> None:
        """Choose among the settings."""
        first, choices = sentences.batches[:1], self.choices(BATCH)
        self.seconds(first, choices[0])
        tried = [self.seconds(first, one) for one in choices]
        self.at_once = choices[tried.index(min(tried))]

    def turn(self, sentences: Sentences, speeds: Speeds) -> None:
        """Translate some alone, and all together."""
        [by_one, *_] = self.choices(1)
        for one in sentences.tokens[: sentences.alone]:
            speeds.alone.append(self.seconds([[one]], by_one))
        spent = self.seconds(sentences.batches, self.at_once)
        speeds.together.append(len(sentences.tokens) / spent)


def race(sentences: Sentences, threads: int, rounds: int) -> dict[str, Speeds]:
    """Let all engines take turns."""
    with TemporaryDirectory() as root, ExitStack() as stack:
        run_alone(save_contestants, Path(root))
        processes = [EngineProcess(sys.executable, one, Path(root), threads) for one in ENGINES]
        contestants = [
            Contestant(stack.enter_context(process), name, threads)
            for process in processes
            for name in process.contestants
        ]
        for one in contestants:
            one.warm_up(sentences)
        speeds = {one.name: Speeds() for one in contestants}
        for one in tqdm(contestants * rounds, desc="turns"):
            time.sleep(PAUSE)
            one.turn(sentences, speeds[one.name])
    return speeds


def time_pipeline(sentences: Sentences, threads: int, rounds: int) -> Speeds:
    """Text to text, as three lines of Python have it; meant for a process of its own."""
    torch.set_num_threads(threads)
    translate: Any = pipeline("translation", model=embedded())
    translate(sentences.texts[:BATCH], batch_size=BATCH)
    speeds, clock = Speeds(), clock_for(threads)
    for _ in range(rounds):
        for text in sentences.texts[: sentences.alone]:
            speeds.alone.append(seconds_of(partial(translate, text), clock))
        spent = seconds_of(partial(translate, sentences.texts, batch_size=BATCH), clock)
        speeds.together.append(len(sentences.texts) / spent)
    return speeds


def time_command(sentences: Sentences, rounds: int, launcher: Sequence[str], dtype: str) -> Speeds:
    """From one file to another, from the start of Python to its end."""
    speeds = Speeds()
    with TemporaryDirectory() as folder:
        source = Path(folder) / "source.txt"
        source.write_text("".join(f"{text}\n" for text in sentences.texts), encoding="utf-8")
        for number in range(rounds):
            words = [*launcher, "vanilla_transformer", "translate", str(source), "--dtype", dtype]
            words += ["--output", f"{folder}/{number}.txt"]
            run = partial(subprocess.run, words, check=True, capture_output=True)
            speeds.together.append(len(sentences.texts) / seconds_of(run, time.perf_counter))
    return speeds


def seconds_of(act: Callable[[], Any], clock: Callable[[], float]) -> float:
    """What a call takes."""
    start = clock()
    act()
    return clock() - start


def find(sentences: Sentences, threads: int, rounds: int) -> dict[str, Speeds]:
    """Measure everybody."""
    speeds = race(sentences, threads, rounds)
    speeds["our pipeline fp32"] = run_alone(time_pipeline, sentences, threads, rounds)
    for name, launcher in LAUNCHERS.items():
        for dtype in ("float32", "bfloat16", "int8"):
            speeds[f"{name} {dtype}"] = time_command(sentences, rounds, launcher, dtype)
    return speeds


def write_report(speeds: dict[str, Speeds], threads: int, command: str) -> str:
    """Write the whole section, without its markers."""
    header = ["engine", "precision", "threads", "alone, median", "95 % within", "together"]
    ours = speeds["our pipeline fp32"]
    verdict = (
        f"- Our pipeline takes {1000 * statistics.median(ours.alone):.1f} ms for a sentence (below "
        f"{MOST_MILLISECONDS} was promised) and translates {statistics.median(ours.together):,.0f} "
        f"sentences a second (at least {FEWEST_A_SECOND})."
    )
    rows = [_row(name, one, threads) for name, one in speeds.items()]
    return "\n\n".join(
        [
            "## The model that ships",
            describe_machine() + ".",
            f"`{command}`",
            f"{EXPLANATION}\n{verdict}",
            table(header, rows),
        ]
    )


def _row(name: str, speeds: Speeds, threads: int) -> list[str]:
    engine, _, precision = name.rpartition(" ")
    alone = [1000 * one for one in speeds.alone]
    told = [statistics.median(alone), statistics.quantiles(alone, n=20)[-1]] if alone else []
    return [
        *(engine, precision, str(threads)),
        *([f"{one:.1f}" for one in told] or ["", ""]),
        f"{statistics.median(speeds.together):,.0f}",
    ]


def read_sentences(file: Path, most: int | None, alone: int) -> Sentences:
    """The sources of a test set, and their tokens."""
    pairs = (row.pair for row in read_json_lines(file, ("en", "de")))
    texts = [pair[0] for pair in pairs if pair][:most]
    return Sentences(texts, AutoTokenizer.from_pretrained(embedded())(texts)["input_ids"], alone)


def parse_options(arguments: list[str]) -> argparse.Namespace:
    """Read the command line."""
    parser = new_parser(f"benchmarks/{SCRIPT}", __doc__)
    add = parser.add_argument
    add("--data", type=Path, default=FOLDER.parent / "../shared/data" / TEST_SET, help="test set")
    add("--sentences", type=int, help="so many of the test set, instead of all")
    add("--alone", type=int, default=100, help="so many of them are also translated one by one")
    add("--threads", type=int, default=cores())
    add("--rounds", type=int, default=3)
    add("--quick", action="store_true", help="few sentences, 1 thread, 1 round; writes nothing")
    add("--output", type=Path, default=FOLDER, help="folder of RESULTS.md")
    options = parse_quickly(parser, QUICK, arguments)
    refuse_impossible(parser, [options.threads], options.rounds)
    return options


def main(arguments: list[str]) -> None:
    """Measure, print, and write what was found."""
    options = parse_options(arguments)
    sentences = read_sentences(options.data, options.sentences, options.alone)
    speeds = find(sentences, options.threads, options.rounds)
    report = write_report(speeds, options.threads, shown_command(SCRIPT, arguments))
    publish(report, SCRIPT, options.output)


if __name__ == "__main__":
    main(sys.argv[1:])
