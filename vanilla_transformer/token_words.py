"""Which word of a text each of its tokens belongs to; words are what stands between blanks.

A tokenizer that knows where in a text its tokens stand is asked. Of others, what their tokens are
decoded to is laid beside the text, letter by letter, and unknown tokens stand for what is left.
"""

import re
import unicodedata
from bisect import bisect_right
from collections.abc import Callable
from difflib import SequenceMatcher
from typing import Any

from .source_reading import tokenizer_lock

Decode = Callable[[list[int]], str]

UNKNOWN = "\ufffd"  # also what decoders write for a part of a letter


def words_of_tokens(tokenizer: Any, ids: list[int], text: str, decode: Decode) -> list[int | None]:
    """The word of each token, counted from 0; a blank is part of the word behind it.

    Special tokens have none, nor have those that stand for nothing in the text.
    """
    unknown = _unknown_token(tokenizer)
    special = set(tokenizer.all_special_ids) - {unknown}
    written = [token for token in ids if token not in special]
    found = _told_places(tokenizer, written, text)
    if found is None:
        found = _matched_places(written, text, decode, unknown)
    places, ends = iter(found), [end for _, end in word_spans(text)]
    return [None if token in special else _word_at(next(places), ends) for token in ids]


def word_spans(text: str) -> list[tuple[int, int]]:
    """Where each word begins and ends."""
    return [word.span() for word in re.finditer(r"\S+", text)]


def _unknown_token(tokenizer: Any) -> int | None:
    """The token that stands for what the vocabulary lacks, where it stands for nothing else."""
    others = [getattr(tokenizer, f"{role}_token_id", None) for role in ("bos", "eos", "pad")]
    unknown: int | None = getattr(tokenizer, "unk_token_id", None)
    return None if unknown in others else unknown


def _word_at(place: int | None, ends: list[int]) -> int | None:
    """The word that a place is in or before; behind the last, the last."""
    if place is None or not ends:
        return None
    return min(bisect_right(ends, place), len(ends) - 1)


def _told_places(tokenizer: Any, ids: list[int], text: str) -> list[int | None] | None:
    """At which character each token begins, where the tokenizer knows; a text may be cut."""
    if not getattr(tokenizer, "is_fast", False):
        return None
    with tokenizer_lock:
        told = tokenizer(
            text,
            add_special_tokens=False,
            padding=False,
            truncation=False,
            return_offsets_mapping=True,
            verbose=False,
        )
    if told["input_ids"][: len(ids)] != ids:  # a model may cut words where its tokenizer does not
        return None
    return [start for start, _ in told["offset_mapping"][: len(ids)]]


def _matched_places(
    ids: list[int], text: str, decode: Decode, unknown: int | None
) -> list[int | None]:
    """At which character each token begins, by the letters that it writes."""
    letters, starts = _letters_of_tokens(ids, decode, unknown)
    partners = _partners(letters, _letters(text), text)
    partners.append(len(text))  # of blanks behind the last letter
    return [partners[start] for start in starts]


def _partners(letters: list[str], known: list[tuple[str, int]], text: str) -> list[int | None]:
    """Where each written letter stands in the text; what has been replaced is shared out."""
    partners: list[int | None] = []
    matcher = SequenceMatcher(None, letters, [letter for letter, _ in known], autojunk=False)
    for _, start, end, first, last in matcher.get_opcodes():
        places = [place for _, place in known[first:last]]
        words = [place for place in places if place == places[0] or text[place - 1].isspace()]
        count = end - start
        chosen = words if len(words) == count else places
        partners += [
            chosen[index * len(chosen) // count] if chosen else None for index in range(count)
        ]
    return partners


def _letters_of_tokens(
    ids: list[int], decode: Decode, unknown: int | None
) -> tuple[list[str], list[int]]:
    """All letters, and the first of each token; of a blank or a part of a letter, the next."""
    letters: list[str] = []
    starts, read = [], []
    num_decoded = 0
    for token in ids:
        starts.append(len(letters))
        if token == unknown:
            letters.append(UNKNOWN)
            continue
        read.append(token)
        decoded = [letter for letter, _ in _letters(decode(read).rstrip(UNKNOWN))]
        letters += decoded[num_decoded:]
        num_decoded = max(num_decoded, len(decoded))
    return letters, starts


def _letters(text: str) -> list[tuple[str, int]]:
    """Letters as tokenizers may simplify them, without accents, and their places in the text."""
    return [
        (plain, place)
        for place, letter in enumerate(text)
        for plain in unicodedata.normalize("NFKD", letter).casefold()
        if not (plain.isspace() or unicodedata.combining(plain))
    ]
