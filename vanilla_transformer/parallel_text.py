"""Reads parallel text: two aligned files, TSV, JSON lines or a dataset, one pair at a time.

Lines end at a line feed and nowhere else: U+2028, U+0085 or a lone carriage return stand inside
sentences. Broken files are refused with the place of the damage; rows that hold no two sentences
are left out, counted and reported.
"""

import gzip
import json
import zlib
from collections import Counter
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from functools import partial
from itertools import zip_longest
from pathlib import Path
from typing import Any, NamedTuple

Languages = tuple[str, ...]  # two names
Pair = tuple[str, str]

POSITIONS_REPORTED = 5
FOLDER_FORMATS = (".parquet", ".csv")  # the datasets library knows which splits they are
EXCERPT = 60  # characters of a line that an error shows
EMPTY = "an empty side"
INVALID_UTF8 = "invalid UTF-8"
SAVED_DATASET = ("dataset_dict.json", "state.json")  # one of them lies in what `save_to_disk` wrote


class UnpairedTextError(ValueError):
    """A text file without the one that holds its translations."""


class Undecodable(str):
    """A line that is no UTF-8, for readers that leave such lines out."""


class Row(NamedTuple):
    """A pair of sentences, or the reason why a row holds none; rows count from 1."""

    number: int
    pair: Pair | None
    fault: str = ""


@dataclass
class SkippedRows:
    """The rows left out of one corpus: how many for each reason, and where the first ones are."""

    counts: Counter[str] = field(default_factory=Counter)
    positions: dict[str, list[int]] = field(default_factory=dict)

    def add(self, number: int, fault: str) -> None:
        self.counts[fault] += 1
        if self.counts[fault] <= POSITIONS_REPORTED:
            self.positions.setdefault(fault, []).append(number)

    def describe(self) -> list[str]:
        """One line for each reason: "3 with an empty side (rows 4, 17, 90)"."""
        return [
            f"{count:,} with {fault} (row{'s' * (count > 1)} "
            + ", ".join(f"{position:,}" for position in self.positions[fault])
            + (", ...)" if count > POSITIONS_REPORTED else ")")
            for fault, count in self.counts.most_common()
        ]


@dataclass
class Corpus:
    """Parallel text from one place; every reading counts its pairs and skipped rows anew."""

    places: tuple[str, ...]
    read_rows: Callable[[], Iterator[Row]]
    num_pairs: int = 0
    skipped: SkippedRows = field(default_factory=SkippedRows)

    @property
    def short_places(self) -> list[str]:
        """The last folder and the name: what a reader needs, without the machine's folders."""
        return ["/".join(Path(place).parts[-2:]) for place in self.places]

    @property
    def name(self) -> str:
        return " + ".join(self.short_places)

    def rows(self) -> Iterator[Row]:
        """Every row, with a pair of sentences or the reason why it holds none."""
        for row in self.read_rows():
            pair = row.pair
            if pair and (pair[0].isspace() or pair[1].isspace() or not (pair[0] and pair[1])):
                yield Row(row.number, None, EMPTY)
            else:
                yield row

    def __iter__(self) -> Iterator[Pair]:
        self.num_pairs, self.skipped = 0, SkippedRows()
        for number, pair, fault in self.rows():
            if pair is None:
                self.skipped.add(number, fault)
            else:
                self.num_pairs += 1
                yield pair


def read_languages(text: str) -> Languages:
    """Source and target as a command line has them: "en,de" -> ("en", "de")."""
    names = tuple(name.strip() for name in text.split(","))
    if len(names) != 2 or len(set(names)) != 2 or "" in names:
        raise ValueError(f"languages must be two names like en,de, got {text!r}.")
    return names


def find_corpora(
    places: list[str], languages: Languages, *, skips_undecodable: bool = False
) -> list[Corpus]:
    """One corpus for each JSON lines file, TSV file or dataset, one for every two text files.

    Lines that are no UTF-8 are an error, or rows without a pair if they are to be skipped.
    """
    corpora, texts = [], []
    for place in places:
        path = Path(place)
        reader = FILE_READERS.get(format_of(path))
        is_file = path.exists() and not path.is_dir()
        if not place or (reader and not path.exists()):
            raise ValueError(f"There is no file {place!r}.")
        if is_file and path.suffix.lower() in FOLDER_FORMATS:
            raise ValueError(
                f"{' and '.join(FOLDER_FORMATS)} files are read by the folder that they lie in, "
                f"got {place}: name {path.parent}, or {path.parent}::test for another split than "
                f"train, with columns {languages[0]} and {languages[1]}."
            )
        if not is_file:
            corpora.append(Corpus((place,), partial(read_dataset, place, languages)))
        elif reader is not None:
            corpora.append(Corpus((place,), partial(reader, path, languages, skips_undecodable)))
        else:
            texts.append(place)
    if len(texts) % 2:
        raise UnpairedTextError(
            f"Text files come in pairs, first {languages[0]}, then {languages[1]}, got "
            f"{len(texts)}: {', '.join(texts)}. (A single file may be .tsv or .jsonl.)"
            + describe_absent(places)
        )
    for source, target in zip(texts[::2], texts[1::2], strict=True):
        read_rows = partial(read_aligned, Path(source), Path(target), skips_undecodable)
        corpora.append(Corpus((source, target), read_rows))
    return corpora


def describe_absent(places: list[str]) -> str:
    """What to add to an error that misspelt names, or the wrong folder, may be the reason of."""
    absent = [place for place in places if not Path(place).exists()]
    if not absent:
        return ""
    return f" There is no file {' and no '.join(absent)} in {Path.cwd()}: taken for a dataset."


def format_of(path: Path) -> str:
    """The suffix below a `.gz`: `train.jsonl.gz` -> ".jsonl"."""
    return (path.with_suffix("").suffix if path.suffix == ".gz" else path.suffix).lower()


def read_lines(path: Path, skips_undecodable: bool = False) -> Iterator[str]:
    """The lines of a UTF-8 file, plain or .gz, without line ends and byte order mark."""
    offset = 0
    with gzip.open(path) if path.suffix == ".gz" else path.open("rb") as stream:
        for raw in _whole_lines(stream, path):
            try:
                line = raw.decode("utf-8-sig" if offset == 0 else "utf-8")
            except UnicodeDecodeError as error:
                if not skips_undecodable:
                    wrong = error.object[error.start : error.end]
                    raise ValueError(
                        f"{path} must be UTF-8, got {wrong!r} at byte {offset + error.start:,}: "
                        "convert it, say with `iconv -f latin1 -t utf-8`."
                    ) from error
                line = Undecodable()
            offset += len(raw)
            yield line.removesuffix("\n").removesuffix("\r") if line else line
    if offset == 0:
        raise ValueError(f"{path} is empty: it must hold at least one line.")


def _whole_lines(stream: Any, path: Path) -> Iterator[bytes]:
    try:
        yield from stream
    except (EOFError, gzip.BadGzipFile, zlib.error) as error:
        raise ValueError(f"{path} must be a whole gzip file, got: {error}.") from error


def read_aligned(source: Path, target: Path, skips_undecodable: bool = False) -> Iterator[Row]:
    """Line n of one file translates line n of the other."""
    lines = zip_longest(
        read_lines(source, skips_undecodable), read_lines(target, skips_undecodable)
    )
    for number, pair in enumerate(lines, start=1):
        if None in pair:
            more, less = (source, target) if pair[1] is None else (target, source)
            surplus = pair[0] if pair[1] is None else pair[1]
            total = number + sum(1 for _ in lines)
            raise ValueError(
                f"Aligned files must have equally many lines, got {total:,} in {more} and "
                f"{number - 1:,} in {less}. Line {number:,} of {more.name} is the first without a "
                f"partner: {surplus[:EXCERPT]!r}. (If a line is missing further up, all lines "
                "after it are paired wrongly.)"
            )
        if any(type(line) is Undecodable for line in pair):
            yield Row(number, None, INVALID_UTF8)
        else:
            yield Row(number, pair)


def read_columns(path: Path, _: Languages, skips_undecodable: bool = False) -> Iterator[Row]:
    """Tab-separated: the first language in the first column, the second in the second."""
    for number, line in enumerate(read_lines(path, skips_undecodable), start=1):
        columns = line.split("\t")
        if type(line) is Undecodable:
            yield Row(number, None, INVALID_UTF8)
        elif len(columns) < 2:
            yield Row(number, None, "no tab between two sentences")
        else:
            yield Row(number, (columns[0], columns[1]))


def read_json_lines(
    path: Path, languages: Languages, skips_undecodable: bool = False
) -> Iterator[Row]:
    """One object a line: `{"en": ..., "de": ...}` or `{"translation": {"en": ..., "de": ...}}`."""
    for number, line in enumerate(read_lines(path, skips_undecodable), start=1):
        if type(line) is Undecodable:
            yield Row(number, None, INVALID_UTF8)
            continue
        try:
            fields = json.loads(line)
        except (ValueError, RecursionError):  # the latter for thousands of brackets
            yield Row(number, None, "broken JSON")
        else:
            yield _row_of(number, fields, languages)


def read_dataset(place: str, languages: Languages) -> Iterator[Row]:
    """The train split of a dataset: a folder, or a name on the Hub, `name:configuration`.

    Another one is named last: `folder::validation`, `name:configuration:validation`.
    """
    try:
        import datasets
    except ImportError as error:
        raise ValueError(
            f"{place} is no file, and datasets are read with the datasets library: "
            "pip install 'vanilla-transformer[train]'."
        ) from error
    name, configuration, split = parts_of_dataset(place)
    if any((Path(name) / file).exists() for file in SAVED_DATASET):
        rows = _saved_rows(datasets.load_from_disk(name), name, configuration, split)
    else:
        try:
            rows = datasets.load_dataset(
                name, configuration or None, split=split or "train", streaming=True
            )
        except (OSError, ValueError) as error:
            reason = str(error).partition("\n")[0]
            raise ValueError(
                f"There is no file {place}, and no dataset of this name could be loaded: {reason}"
            ) from error
    for number, fields in enumerate(rows, start=1):
        yield _row_of(number, fields, languages)


def parts_of_dataset(place: str) -> tuple[str, str, str]:
    """A dataset's name, its configuration and its split, the latter two empty if not named."""
    parts = [place] if Path(place).exists() else place.split(":", maxsplit=2)
    name, configuration, split = [*parts, "", ""][:3]
    return name, configuration, split


def _saved_rows(saved: Any, name: str, configuration: str, split: str) -> Any:
    """The rows of a folder that `save_to_disk` wrote: splits by name, or one without a name."""
    if configuration:
        raise ValueError(
            f"A saved dataset has splits and no configurations, got {name}:{configuration}: for "
            f"its split write {name}::{split or configuration}."
        )
    if not isinstance(saved, dict):
        if split:
            raise ValueError(
                f"{name} must hold splits by name, got one without, and {split} asked for: leave "
                f"::{split} out."
            )
        return saved
    split = split or "train"
    if split not in saved:
        raise ValueError(f"{name} must hold a split named {split}, got {', '.join(saved)}.")
    return saved[split]


def _row_of(number: int, fields: Any, languages: Languages) -> Row:
    if isinstance(fields, dict):
        fields = fields.get("translation", fields)
    if not isinstance(fields, dict):
        return Row(number, None, "no object of the languages' texts")
    texts = []
    for language in languages:
        text = fields.get(language)
        if not isinstance(text, str):
            return Row(number, None, f"no text in field {language!r}")
        if not text.isascii() and _has_surrogate(text):
            return Row(number, None, f"half a surrogate pair in field {language!r}")
        texts.append(text)
    return Row(number, (texts[0], texts[1]))


def _has_surrogate(text: str) -> bool:
    """JSON can write half a character, which no text file and no tokenizer can hold."""
    try:
        text.encode()
    except UnicodeEncodeError:
        return True
    return False


FILE_READERS = {
    ".jsonl": read_json_lines,
    ".json": read_json_lines,
    ".tsv": read_columns,
}
