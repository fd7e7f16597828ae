"""How fast does a tokenizer learn and split, and into how many tokens? Ours against three others.

`python benchmarks/tokenization.py` lets ours, sentencepiece and subword-nmt learn from the same
text, splits the validation sentences with them and with MarianTokenizer, prints all tables and puts
them into RESULTS.md. With `--quick` it takes less than a minute, on a sample, and writes nothing.
"""

import argparse
import sys
import tempfile
from itertools import chain
from pathlib import Path

from benchmarks.command_line import new_parser, parse_quickly
from benchmarks.machine import cores, describe_machine, run_alone
from benchmarks.results import publish, shown_command
from benchmarks.tokenization_report import Findings, write_report
from benchmarks.tokenization_splits import examine_splits, measure_speeds
from benchmarks.tokenization_text import CORPORA, prepare_texts, read_validation
from benchmarks.tokenization_training import race

SCRIPT = "tokenization.py"
FOLDER = Path(__file__).resolve().parent
QUICK = {
    "pairs": 10_000,
    "vocabulary_size": 8_000,
    "learn_rounds": 1,
    "split_rounds": 1,
    "seconds": 0.1,
    "output": None,
}


def build_parser() -> argparse.ArgumentParser:
    """Describe the options; `--quick` changes defaults only."""
    parser = new_parser("benchmarks/tokenization.py", __doc__)
    add = parser.add_argument
    add("--pairs", type=int, help="the first so many of each corpus, instead of all")
    add("--vocabulary-size", type=int, default=16_000, help="a multiple of 8")
    add("--learn-rounds", type=int, default=2)
    add("--split-rounds", type=int, default=5)
    add("--seconds", type=float, default=1.0, help="of splitting, at least, in each round")
    add(
        "--other-sentencepiece",
        type=Path,
        metavar="FOLDER",
        help="learns too: pip install --no-deps --target FOLDER sentencepiece==0.2.1",
    )
    add("--quick", action="store_true", help="a sample, one round; writes nothing")
    add("--data", type=Path, default=FOLDER.parent / "../shared/data", help="parallel text")
    add("--output", type=Path, default=FOLDER, help="folder of RESULTS.md")
    return parser


def parse_options(arguments: list[str]) -> argparse.Namespace:
    """Read the command line and refuse what cannot be measured."""
    parser = build_parser()
    options = parse_quickly(parser, QUICK, arguments)
    for name in ("pairs", "vocabulary_size", "learn_rounds", "split_rounds"):
        value = getattr(options, name)
        if value is not None and value < 1:
            parser.error(f"--{name.replace('_', '-')} must be at least 1, got {value}")
    if options.vocabulary_size % 8:
        parser.error(
            f"--vocabulary-size must be a multiple of 8, as ours is rounded up to one, got "
            f"{options.vocabulary_size}"
        )
    missing = [name for name in CORPORA if not (options.data / name).is_dir()]
    if missing:
        parser.error(f"--data must hold the folders {', '.join(CORPORA)}: no {missing[0]} there")
    other = options.other_sentencepiece
    if other is not None and not (other / "sentencepiece").is_dir():
        parser.error("--other-sentencepiece must hold a folder sentencepiece: see --help")
    return options


def find(options: argparse.Namespace, command: str, folder: Path) -> Findings:
    """Learn, then split with what was learnt: fresh processes, files in a temporary folder."""
    texts = prepare_texts(options.data, folder / "text", options.pairs)
    files = read_validation(options.data)
    trainings = race(
        texts, folder, options.vocabulary_size, options.learn_rounds, options.other_sentencepiece
    )
    sentences = list(chain.from_iterable(files.values()))
    speeds = [
        run_alone(measure_speeds, folder, sentences, threads, options.split_rounds, options.seconds)
        for threads in sorted({1, cores()})
    ]
    return Findings(
        machine=describe_machine(),
        command=command,
        vocabulary_size=options.vocabulary_size,
        num_pairs=texts.num_pairs,
        split_rounds=options.split_rounds,
        seconds=options.seconds,
        sentences={key: len(side) for key, side in files.items()},
        trainings=trainings,
        speeds=list(chain.from_iterable(speeds)),
        splits=run_alone(examine_splits, folder, files),
    )


def main(arguments: list[str]) -> None:
    """Measure, print, and write what was found."""
    options = parse_options(arguments)
    with tempfile.TemporaryDirectory() as folder:
        findings = find(options, shown_command(SCRIPT, arguments), Path(folder))
    publish(write_report(findings), SCRIPT, options.output)


if __name__ == "__main__":
    main(sys.argv[1:])
