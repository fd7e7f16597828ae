"""A task without files: numbers written out in one language, to be translated to the other.

Whether a number is for training, validation or test depends on the number alone, so that no test
number is ever learned from.
"""

import random
from collections.abc import Iterator
from functools import partial

from vanilla_transformer.parallel_text import Corpus, Languages, Row

PREFIX = "numbers:"  # a place in a recipe: numbers:train, numbers:validation, numbers:test
SIZES = {"train": 60_000, "validation": 1_000, "test": 2_000}
EVERY = 20  # of so many numbers one is for validation and one for test
GOLDEN_RATIO = 0x9E3779B1  # its fraction in 32 bits

ENGLISH = [
    "zero",
    "one",
    "two",
    "three",
    "four",
    "five",
    "six",
    "seven",
    "eight",
    "nine",
    "ten",
    "eleven",
    "twelve",
    "thirteen",
    "fourteen",
    "fifteen",
    "sixteen",
    "seventeen",
    "eighteen",
    "nineteen",
]
ENGLISH_TENS = ["twenty", "thirty", "forty", "fifty", "sixty", "seventy", "eighty", "ninety"]
GERMAN = [
    "null",
    "eins",
    "zwei",
    "drei",
    "vier",
    "fünf",
    "sechs",
    "sieben",
    "acht",
    "neun",
    "zehn",
    "elf",
    "zwölf",
    "dreizehn",
    "vierzehn",
    "fünfzehn",
    "sechzehn",
    "siebzehn",
    "achtzehn",
    "neunzehn",
]
GERMAN_TENS = [
    "zwanzig",
    "dreißig",
    "vierzig",
    "fünfzig",
    "sechzig",
    "siebzig",
    "achtzig",
    "neunzig",
]


def in_english(number: int) -> str:
    """A number in words: 1_042 -> "one thousand forty-two"."""
    if number >= 1_000:
        rest = f" {in_english(number % 1_000)}" if number % 1_000 else ""
        return f"{in_english(number // 1_000)} thousand{rest}"
    if number >= 100:
        rest = f" {in_english(number % 100)}" if number % 100 else ""
        return f"{ENGLISH[number // 100]} hundred{rest}"
    if number < len(ENGLISH):
        return ENGLISH[number]
    tens = ENGLISH_TENS[number // 10 - 2]
    return f"{tens}-{ENGLISH[number % 10]}" if number % 10 else tens


def in_german(number: int) -> str:
    """A number in words: 1_042 -> "eintausendzweiundvierzig"."""
    if number >= 1_000:
        rest = in_german(number % 1_000) if number % 1_000 else ""
        return f"{_before_a_noun(number // 1_000)}tausend{rest}"
    if number >= 100:
        rest = in_german(number % 100) if number % 100 else ""
        return f"{_before_a_noun(number // 100)}hundert{rest}"
    if number < len(GERMAN):
        return GERMAN[number]
    tens = GERMAN_TENS[number // 10 - 2]
    return f"{_before_a_noun(number % 10)}und{tens}" if number % 10 else tens


WRITERS = {"en": in_english, "de": in_german}


def number_corpus(place: str, languages: Languages) -> Corpus:
    """The pairs of `numbers:train`, `numbers:validation` or `numbers:test`."""
    part = place.removeprefix(PREFIX)
    if part not in SIZES:
        known = ", ".join(PREFIX + name for name in SIZES)
        raise ValueError(f"Built-in places are {known}, got {place!r}.")
    if not set(languages) <= set(WRITERS):
        raise ValueError(
            f"Numbers are written in {' and '.join(WRITERS)}, got {' and '.join(languages)} for "
            f"{place}: set corpus.source and corpus.target."
        )
    return Corpus((place,), partial(_read_rows, part, languages))


def _read_rows(part: str, languages: Languages) -> Iterator[Row]:
    in_source, in_target = (WRITERS[language] for language in languages)
    for row, number in enumerate(_numbers(part), start=1):
        yield Row(row, (in_source(number), in_target(number)))


def _before_a_noun(number: int) -> str:
    """Eins loses its s inside a word: eintausend, hunderteintausend, einundzwanzig."""
    text = in_german(number)
    return text.removesuffix("s") if number % 100 == 1 else text


def _numbers(part: str) -> list[int]:
    """Random numbers of all lengths, each once: few are small, so small ones are drawn as well."""
    draw = random.Random(part)
    found: dict[int, None] = {}
    while len(found) < SIZES[part]:
        number = draw.randrange(10 ** draw.choice((3, 4, 5, 6)))
        if _part_of(number) == part:
            found[number] = None
    return list(found)


def _part_of(number: int) -> str:
    """Multiples of the golden ratio fall evenly between 0 and 1, whatever step numbers go in."""
    chosen = (number * GOLDEN_RATIO % 2**32) * EVERY >> 32
    return {0: "validation", 1: "test"}.get(chosen, "train")
