"""What a typed text becomes on the page: its translations with their scores, and its attention.

Every word carries the number of the source word it was read off; for a word that is pointed at or
has the focus, page.js marks all that have its number.
"""

import re
from collections.abc import Iterator
from dataclasses import dataclass
from html import escape
from typing import Any

from newest_text import Work
from vanilla_transformer.attention_maps import FRAME, AttentionMaps, look_through
from vanilla_transformer.pipeline_translation import TranslationPipeline
from vanilla_transformer.sentence_splits import num_sentences

MOST_CHARACTERS = 1_000
MOST_WORDS_OF_MAPS = 60  # a side; the maps of so many are a page of a megabyte
TRANSLATIONS = 4  # as many as the paper's beam
TITLE = '<p class="title">German</p>'
NOTHING_YET = f'{TITLE}<p class="quiet">The translation appears here as you type.</p>'
WORD = re.compile(r"\S+")

Choice = dict[str, Any]  # kind, layer, head and view that the visitor has chosen in the last maps
Record = dict[str, Any]  # of the pipeline: text, score, alignment


@dataclass(frozen=True)
class Shown:
    """What is to be seen now, as HTML; maps that are None stay as they are."""

    translation: str
    maps: str | None = None


def show_text(
    translator: TranslationPipeline, text: str, choice: Choice, work: Work
) -> Iterator[Shown]:
    """First the translations, so that nobody waits for the maps; to type on is to stop it."""
    work.check()
    if not text.strip():
        yield Shown(NOTHING_YET, maps="")
        return
    try:
        records = translate(translator, text, work)
    except ValueError as error:
        yield Shown(TITLE + show_refusal(error), maps="")
        return
    shown = show_translations(text, records)
    yield Shown(shown)
    work.check()
    yield Shown(shown, show_maps(translator, text, records[0]["translation_text"], choice))


def translate(translator: TranslationPipeline, text: str, work: Work) -> list[Record]:
    """The best translations of a text, best first."""
    if len(text) > MOST_CHARACTERS:
        raise ValueError(
            f"The text must have at most {MOST_CHARACTERS:,} characters, got {len(text):,}: "
            "shorten it, or translate it as a file."
        )
    records: list[Record] = translator(
        text,
        num_beams=TRANSLATIONS,
        num_return_sequences=TRANSLATIONS,
        return_scores=True,
        return_alignment=True,
        logits_processor=[work],
    )
    return records


def show_translations(text: str, records: list[Record]) -> str:
    """The best translation large, the source under it, then the others."""
    numbers = {word.start(): number for number, word in enumerate(WORD.finditer(text))}
    texts = [record["translation_text"] for record in records]
    aligned = [aligned_words(record, numbers) for record in records]
    best = mark_words(texts[0], aligned[0], words_by_number(text, numbers))
    source = mark_words(text, numbers, words_by_number(texts[0], aligned[0]))
    others = [mark_words(*other, {}) for other in zip(texts[1:], aligned[1:], strict=True)]
    scores = [f"{record['score']:.2f}".replace("-", "\N{MINUS SIGN}") for record in records]
    rows = "".join(
        f'<li lang="de"><data>{score}</data> {other}</li>'
        for other, score in zip(others, scores[1:], strict=True)
    )
    return (
        f'{TITLE}<p class="best" lang="de">{best} <data>{scores[0]}</data></p>'
        f'<p class="source" lang="en">{source}</p>'
        '<p class="quiet">Point at a word, tap it or go there by Tab to see what it was read '
        "off.</p>"
        f'<h2>Other translations, and their scores</h2><ol start="2">{rows}</ol>'
        '<p class="quiet">Score: the log-probability, divided by the length penalty of the paper. '
        "The nearer to 0, the likelier.</p>"
    )


def aligned_words(record: Record, numbers: dict[int, int]) -> dict[int, int]:
    """Where each word of a translation begins, and the number of its source word."""
    return {target: numbers[source] for source, _, target, _ in record["alignment"]}


def words_by_number(text: str, numbers: dict[int, int]) -> dict[int, str]:
    """The words of a text that have a number."""
    words: dict[int, list[str]] = {}
    for word in WORD.finditer(text):
        if (number := numbers.get(word.start())) is not None:
            words.setdefault(number, []).append(word[0])
    return {number: " ".join(same) for number, same in words.items()}


def mark_words(text: str, numbers: dict[int, int], partners: dict[int, str]) -> str:
    """A text as HTML in which the word that begins at a known place carries a number.

    Those with partners in another text can be reached by keys, and are read aloud with them.
    """

    def mark(word: re.Match[str]) -> str:
        number = numbers.get(word.start())
        name = "" if number is None else f' data-word="{number}"'
        if number in partners:
            name += f' tabindex="0" aria-description="{escape(partners[number])}"'
        return f"<span{name}>{escape(word[0])}</span>"

    return WORD.sub(mark, text)


def show_maps(translator: TranslationPipeline, text: str, target: str, choice: Choice) -> str:
    """The page of attention maps in a frame, or why there is none."""
    try:
        if (count := num_sentences(text)) > 1:
            raise ValueError(
                f"Maps are drawn of one sentence, got {count}, which are translated each alone: "
                "look at one."
            )
        maps = look_through(translator, text.strip(), target)
        longest = max(len(side.labels) for side in (maps.source, maps.written))
        if longest > MOST_WORDS_OF_MAPS:
            raise ValueError(
                f"Maps are drawn of at most {MOST_WORDS_OF_MAPS} words a side, got {longest}: look "
                "at a shorter sentence."
            )
        return FRAME.format(page=escape(open_page(maps, choice)))
    except ValueError as error:
        return show_refusal(error)


def open_page(maps: AttentionMaps, choice: Choice) -> str:
    """The page at the place where the visitor has left the last one."""
    known = ("view", "kind", "layer", "head")
    return maps.page(**{name: choice.get(name) for name in known})


def show_refusal(error: Exception) -> str:
    """Why there is no result, as HTML."""
    return f'<p class="refusal" role="alert">{escape(str(error))}</p>'
