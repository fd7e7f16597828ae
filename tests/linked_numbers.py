"""Numbers in words between blanks, English and German, whose alignment is known.

German says ones before tens: "twenty seven" is "sieben und zwanzig". All else keeps its order, so
that the words of one number pair off, and only "und" has no partner.
"""

import re

from training.number_words import GERMAN, GERMAN_TENS, number_corpus

PARTS = [*GERMAN, *GERMAN_TENS, "ein", "hundert", "tausend", "und"]
A_PART = re.compile("|".join(sorted(PARTS, key=len, reverse=True)))

Link = tuple[int, int]  # an English word and a German one, counted from 0


def spaced_pair(english: str, german: str) -> tuple[str, str]:
    """("forty-two", "zweiundvierzig") -> ("forty two", "zwei und vierzig")."""
    return english.replace("-", " "), " ".join(A_PART.findall(german))


def links_of(german: str) -> set[Link]:
    """The links of a spaced number: "zwei und vierzig" -> {(0, 2), (1, 0)}."""
    words = german.split()
    order: list[int] = []  # German words, as English says them
    for place, word in enumerate(words):
        if word == "und":
            continue
        follows_und = place > 0 and words[place - 1] == "und"
        order.insert(len(order) - follows_und, place)
    return set(enumerate(order))


def spaced_corpus(place: str) -> list[tuple[str, str]]:
    return [spaced_pair(*pair) for pair in number_corpus(place, ("en", "de"))]
