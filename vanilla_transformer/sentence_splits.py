"""Where a text may be cut before it is translated, and how the translations are put together again.

Lines are always apart. A line is cut at the ends of its sentences; what is still too long for the
model is halved, at a blank if there is one. Every step is linear in the length of the text.
"""

import re
import unicodedata
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from itertools import pairwise

# A word, or what stands before a full stop of a script that writes without blanks.
WORD = re.compile(r"[^\s。！？]*+[。！？]++[」』”’）)]*+|\S+")  # noqa: RUF001  # no Latin letters
ENDS = ".!?…。！？।؟۔"  # noqa: RUF001
OPENING, CLOSING = "\"'“„‘‚«»([{¿¡-–—", "\"'”“’»«)]}」』）"  # noqa: RUF001
ABBREVIATIONS = re.compile(
    "approx|bzw|ca|capt|cf|co|col|dept|dr|eds?|eq|evtl|fig|gen|ggf|gov|hr|hrsg|jr|lt|max|min|mio"
    "|mme|mrs?|ms|mt|nr|no|pp|prof|resp|rev|sen|sog|sr|st|str|vgl|vol|vs"
)


@dataclass
class Piece:
    """A stretch of text that is translated at once, and the white space before it."""

    gap: str
    text: str
    ids: list[int] | None = None  # as soon as it is tokenized
    uncut_length: int = 0  # in tokens, where only the first of them are translated

    def halves(self) -> list["Piece"]:
        """Both halves of a piece that is too long."""
        start, end = _cut(self.text)
        return [Piece(self.gap, self.text[:start]), Piece(self.text[start:end], self.text[end:])]


@dataclass
class Passage:
    """A text in pieces; whatever is not in them is white space."""

    pieces: list[Piece]
    rest: str = ""  # behind the last piece

    def join(self, translations: list[str]) -> str:
        """The translated text, with the blanks and line breaks of the source."""
        gaps = [piece.gap for piece in self.pieces]
        joined = (gap + text for gap, text in zip(gaps, translations, strict=True))
        return "".join(joined) + self.rest

    def starts(self, texts: list[str] | None = None) -> Iterator[int]:
        """At which character each piece, or what is put in its place, begins."""
        position = 0
        for piece, text in zip(self.pieces, texts or [p.text for p in self.pieces], strict=True):
            position += len(piece.gap)
            yield position
            position += len(text)

    def refine(self, cut: Callable[[Piece], list[Piece]]) -> None:
        """Put several pieces in the place of each."""
        self.pieces = [part for piece in self.pieces for part in cut(piece)]


def split_lines(text: str) -> Passage:
    """One piece for each line that is not blank."""
    passage, gap = Passage([]), ""
    for line in text.splitlines(keepends=True):
        content = line.strip()
        if not content:
            gap += line
            continue
        start = len(line) - len(line.lstrip())
        passage.pieces.append(Piece(gap + line[:start], content))
        gap = line[start + len(content) :]
    passage.rest = gap
    return passage


def split_sentences(piece: Piece) -> list[Piece]:
    """Cut behind each sentence: "Is it? Yes." -> "Is it?" and "Yes."."""
    words = list(WORD.finditer(piece.text))
    sentences, gap, start = [], piece.gap, 0
    for word, following in pairwise(words):
        if ends_sentence(word.group(), following.group()):
            sentences.append(Piece(gap, piece.text[start : word.end()]))
            gap, start = piece.text[word.end() : following.start()], following.start()
    return [*sentences, Piece(gap, piece.text[start:])]


def num_sentences(line: str) -> int:
    """How many sentences of a line are translated each alone."""
    return len(split_sentences(Piece("", line)))


def ends_sentence(word: str, following: str) -> bool:
    """Whether a word is the last of its sentence; abbreviations, initials, ordinals are not."""
    word = word.rstrip(CLOSING)
    if not word or word[-1] not in ENDS or following.lstrip(OPENING)[:1].islower():
        return False
    if word[-1] != "." or word.endswith(".."):
        return True
    stem = word[:-1].lstrip(OPENING)
    is_initial = len(stem) == 1 and stem.isalpha()
    return not (
        is_initial or stem.isdigit() or "." in stem or ABBREVIATIONS.fullmatch(stem.lower())
    )


def split_at_length(piece: Piece, longest: int) -> list[Piece]:
    """Halve until no piece has more characters than `longest`."""
    done, waiting = [], [piece]
    while waiting:
        piece = waiting.pop()
        if len(piece.text) <= max(longest, 1):
            done.append(piece)
        else:
            waiting.extend(reversed(piece.halves()))
    return done


def _cut(text: str) -> tuple[int, int]:
    """The white space nearest to the middle, or an empty stretch there where there is none."""
    middle = len(text) // 2
    for distance in range(len(text) // 4 + 1):
        for index in (middle - distance, middle + distance):
            if text[index : index + 1].isspace():
                left, right = text[:index].rstrip(), text[index:].lstrip()
                if left and right:
                    return len(left), len(text) - len(right)
    while middle > 1 and unicodedata.combining(text[middle]):  # é may be two characters
        middle -= 1
    return middle, middle
