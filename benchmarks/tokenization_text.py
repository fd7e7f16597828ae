"""The text of the tokenizer benchmark: plain aligned files to learn from, sentences to split."""

import gzip
from dataclasses import dataclass
from itertools import islice
from pathlib import Path

from vanilla_transformer.parallel_text import find_corpora

LANGUAGES = ("en", "de")
CORPORA = ("tatoeba", "europarl")

# What tokenizers like to change: blanks, white space, look-alikes, rare scripts, their own marks.
HARD_STRINGS = [
    " a blank before,  two within, one after ",
    "a tab\tand a line\nfeed",
    "no-break\u00a0and thin\u2009blanks",
    "ﬁ ligature, ½ and full-width Ｔｅｘｔ",  # noqa: RUF001 - they are the point
    "e\u0301 in two characters, é in one",
    "it's “quoted” – isn’t it …",  # noqa: RUF001
    "日本語 and 中文 and हिन्दी",
    "emoji 👩‍👩‍👧 👍🏽",
    "</s> and <unk> and <pad> are text",
    "▁underline and @@ signs",
    "1,234.50 € = 1.234,50 EUR",
    "soft\u00adhyphen, zero\u200bwidth",
]


@dataclass(frozen=True)
class Texts:
    """The training text twice: as it is shipped, and as aligned text files."""

    shipped: list[str]
    aligned: list[str]
    num_pairs: int


def prepare_texts(data: Path, folder: Path, pairs: int | None) -> Texts:
    """Write the training text of all corpora as aligned files, or the first `pairs` of each."""
    folder.mkdir()
    shipped, aligned, num_pairs = [], [], 0
    for name in CORPORA:
        path = data / name / "train.jsonl.gz"
        if pairs is not None:
            path = _write_head(path, folder / f"{name}.jsonl.gz", pairs)
        shipped.append(str(path))
        [corpus] = find_corpora([str(path)], LANGUAGES)
        sides = list(zip(*corpus, strict=True))
        num_pairs += corpus.num_pairs
        for language, sentences in zip(LANGUAGES, sides, strict=True):
            text = folder / f"{name}.{language}"
            text.write_text("\n".join(sentences) + "\n", encoding="utf-8", newline="\n")
            aligned.append(str(text))
    return Texts(shipped, aligned, num_pairs)


def _write_head(path: Path, sample: Path, lines: int) -> Path:
    with gzip.open(path) as whole, gzip.open(sample, "wb") as head:
        head.writelines(islice(whole, lines))
    return sample


def read_validation(data: Path) -> dict[tuple[str, str], list[str]]:
    """The validation sentences of each corpus and language."""
    sentences = {}
    for name in CORPORA:
        [corpus] = find_corpora([str(data / name / "validation.jsonl.gz")], LANGUAGES)
        for language, side in zip(LANGUAGES, zip(*corpus, strict=True), strict=True):
            sentences[name, language] = list(side)
    return sentences
