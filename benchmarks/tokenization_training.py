"""How long, and in how much memory, a tokenizer learns: each training in a process of its own."""

import io
import sys
from collections import Counter
from collections.abc import Callable, Iterator
from contextlib import contextmanager, redirect_stderr
from dataclasses import dataclass, replace
from importlib import import_module
from importlib.metadata import version
from pathlib import Path
from time import perf_counter

from tqdm import tqdm

from benchmarks.machine import cores, high_water_mark, run_alone
from benchmarks.tokenization_text import LANGUAGES, Texts
from tokenizer.byte_pairs import learn_tokenizer
from tokenizer.train import Options, count_words, make_bundle
from vanilla_transformer.parallel_text import find_corpora, read_lines

SENTENCEPIECE_MODEL = "sentencepiece.model"
SUBWORD_NMT_CODES = "subword-nmt.codes"
OURS_BUNDLE = "bundle"


@dataclass(frozen=True)
class Run:
    """One training: wall seconds from files to files, and bytes above the level after imports."""

    seconds: float
    peak_bytes: int
    version: str


@dataclass(frozen=True)
class Training:
    """All runs of one learner on the same text."""

    name: str
    reads: str
    runs: list[Run]

    @property
    def version(self) -> str:
        return self.runs[0].version

    @property
    def seconds(self) -> float:
        """The best run: whatever else the machine does can only add."""
        return min(run.seconds for run in self.runs)

    @property
    def peak_bytes(self) -> int:
        return max(run.peak_bytes for run in self.runs)


def learn_ours(places: list[str], folder: Path, size: int) -> None:
    """Our learner on the files the others read."""
    source, target = count_words(find_corpora(places, LANGUAGES), Options(LANGUAGES))
    learn_tokenizer(source + target, size).save_pretrained(folder / "ours")


def learn_our_bundle(places: list[str], folder: Path, size: int) -> None:
    """What `python -m tokenizer.train` does: from .jsonl.gz to a folder with a README."""
    options = Options(LANGUAGES, vocabulary_size=size)
    make_bundle(places, folder / OURS_BUNDLE, options, force=True)


def learn_sentencepiece(places: list[str], folder: Path, size: int) -> None:
    """BPE without normalising away rare characters, on all cores."""
    import sentencepiece  # an extra

    sentencepiece.SentencePieceTrainer.train(
        input=places,
        model_prefix=str(folder / Path(SENTENCEPIECE_MODEL).stem),
        model_type="bpe",
        vocab_size=size,
        character_coverage=1.0,
        num_threads=cores(),
        minloglevel=2,  # only errors
    )


def learn_subword_nmt(places: list[str], folder: Path, size: int) -> None:
    """Its fastest way: words are counted first. Characters count as entries (`total_symbols`)."""
    from subword_nmt.learn_bpe import learn_bpe

    counts: Counter[str] = Counter()
    for place in places:
        for line in read_lines(Path(place)):
            counts.update(line.split(" "))
    counts.pop("", None)
    words = [f"{word} {count}" for word, count in counts.items()]
    path = folder / SUBWORD_NMT_CODES
    with path.open("w", encoding="utf-8", newline="\n") as codes, redirect_stderr(io.StringIO()):
        learn_bpe(words, codes, size, is_dict=True, total_symbols=True)


@dataclass(frozen=True)
class Learner:
    """A way to learn: the package that does the work, what it reads, how often it is worth it."""

    learn: Callable[[list[str], Path, int], None]
    module: str
    reads: str = "text files"
    most_rounds: int | None = None
    package: Path | None = None  # a folder with another version


LEARNERS = {
    "ours": Learner(learn_ours, "tokenizers"),
    "ours, make_bundle": Learner(learn_our_bundle, "tokenizers", reads=".jsonl.gz"),
    "sentencepiece": Learner(learn_sentencepiece, "sentencepiece"),
    "subword-nmt": Learner(learn_subword_nmt, "subword_nmt", most_rounds=1),
}
OTHER_SENTENCEPIECE = "sentencepiece, other"


@contextmanager
def first_on_path(package: Path | None) -> Iterator[None]:
    """Let processes that start now import this folder's version: they copy our `sys.path`.

    In the process itself it would be too late: transformers imports sentencepiece.
    """
    path = list(sys.path)
    sys.path[:0] = [] if package is None else [str(package.resolve())]
    try:
        yield
    finally:
        sys.path[:] = path


def run_learner(learner: Learner, places: list[str], folder: Path, size: int) -> Run:
    """Train once in this process."""
    imported = Path(str(import_module(learner.module).__file__))
    if learner.package is not None and not imported.is_relative_to(learner.package.resolve()):
        raise RuntimeError(f"{learner.module} must come from {learner.package}, got {imported}.")
    told = f"{learner.module.replace('_', '-')} {version(learner.module)}"
    before, start = high_water_mark(), perf_counter()
    learner.learn(places, folder, size)
    return Run(perf_counter() - start, high_water_mark() - before, told)


def run_learner_alone(learner: Learner, places: list[str], folder: Path, size: int) -> Run:
    """Train once in a fresh process, with the learner's version of its package."""
    with first_on_path(learner.package):
        return run_alone(run_learner, learner, places, folder, size)


def race(
    texts: Texts, folder: Path, size: int, rounds: int, other_sentencepiece: Path | None
) -> list[Training]:
    """Let everyone learn in turns; `folder` keeps what the last round made."""
    learners = dict(LEARNERS)
    folders = dict.fromkeys(learners, folder)
    if other_sentencepiece is not None:
        other = replace(LEARNERS["sentencepiece"], package=other_sentencepiece)
        learners[OTHER_SENTENCEPIECE] = other
        folders[OTHER_SENTENCEPIECE] = folder / "other"
        folders[OTHER_SENTENCEPIECE].mkdir()
    runs: dict[str, list[Run]] = {name: [] for name in learners}
    for number in tqdm(range(rounds), desc="learning"):
        for name, learner in learners.items():
            if learner.most_rounds is None or number < learner.most_rounds:
                places = texts.aligned if learner.reads == "text files" else texts.shipped
                runs[name].append(run_learner_alone(learner, places, folders[name], size))
    return [Training(name, learners[name].reads, made) for name, made in runs.items()]
