"""Shows how a tokenizer splits: `python -m tokenizer.show BUNDLE "A sentence."`."""

import io
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Annotated, NamedTuple

import typer
from rich import box
from rich.console import Console
from rich.table import Table
from rich.text import Text
from tokenizers import decoders
from transformers import AutoTokenizer, PreTrainedTokenizerFast

import vanilla_transformer  # noqa: F401 - AutoTokenizer then knows our class
from tokenizer.byte_pairs import ALPHABET
from tokenizer.measures import Measures, measure
from tokenizer.train import Options, count_words, report_skipped
from vanilla_transformer.parallel_text import find_corpora

# A byte that prints in Latin-1 is its own letter; the others got those from U+0100 on, in order.
PRINTABLE = [ord(letter) for letter in ALPHABET if ord(letter) < 256]
BYTES = PRINTABLE + [byte for byte in range(256) if byte not in PRINTABLE]
BYTE_OF_LETTER = dict(zip(ALPHABET, BYTES, strict=True))
BLANK = ALPHABET[BYTES.index(ord(" "))]

BACKGROUNDS = ("black on bright_cyan", "black on bright_yellow")  # of neighbours
SPECIAL = "dim"


class Token(NamedTuple):
    """A token, its bytes (none if it is special), and the characters that these belong to."""

    token_id: int
    content: bytes | None
    characters: str

    @property
    def text(self) -> str:
        """What it says on its own; U+FFFD stands for a character that it holds only a part of."""
        return self.characters if self.content is None else self.content.decode(errors="replace")

    @property
    def is_whole(self) -> bool:
        return self.content is None or self.content == self.text.encode()


def load_tokenizer(folder: Path) -> PreTrainedTokenizerFast:
    """Read what AutoTokenizer can read, if its tokens are bytes."""
    if not folder.is_dir():
        raise ValueError(f"There is no folder {folder}.")
    try:
        tokenizer = AutoTokenizer.from_pretrained(str(folder), trust_remote_code=False)
    except Exception as error:  # every kind: the Rust library raises the base class
        reason = " ".join(str(error).split())
        raise ValueError(
            f"{folder} must hold a tokenizer, as tokenizer.train writes it, got: {reason}"
        ) from error
    backend = getattr(tokenizer, "backend_tokenizer", None)
    if backend is None or not isinstance(backend.decoder, decoders.ByteLevel):
        raise ValueError(
            f"{folder} must hold a byte-level tokenizer, as tokenizer.train makes it, got a "
            f"{type(tokenizer).__name__} whose tokens are not bytes."
        )
    return tokenizer


def split(tokenizer: PreTrainedTokenizerFast, sentence: str) -> list[Token]:
    """The tokens of a sentence, as a model gets them."""
    added = tokenizer.added_tokens_decoder
    encoding = tokenizer(sentence, verbose=False).encodings[0]
    tokens = []
    for token_id, letters, (start, end) in zip(
        encoding.ids, encoding.tokens, encoding.offsets, strict=True
    ):
        if token_id in added:
            content = None if added[token_id].special else letters.encode()
            tokens.append(Token(token_id, content, letters))
        else:
            content = bytes(BYTE_OF_LETTER[letter] for letter in letters)
            tokens.append(Token(token_id, content, sentence[start:end]))
    return tokens


def visible(text: str) -> str:
    r"""A text that cannot drive the terminal, with dots for blanks.

    visible(" a\t") -> r"·a\t"
    """
    return "".join(
        character if character.isprintable() else character.encode("unicode_escape").decode()
        for character in text.replace(" ", "·")
    )


def show_tokens(console: Console, tokens: list[Token]) -> None:
    """The sentence in one line, then a row for each token."""
    table = Table(box=box.SIMPLE)
    table.add_column("id", justify="right")
    table.add_column("text", overflow="fold")
    table.add_column("bytes", overflow="fold")
    pieces = []
    for place, token in enumerate(tokens):
        style = SPECIAL if token.content is None else BACKGROUNDS[place % len(BACKGROUNDS)]
        piece = Text.assemble((visible(token.text), style))
        pieces.append(piece)
        shown = piece if token.is_whole else Text(f"part of {visible(token.characters)}")
        table.add_row(str(token.token_id), shown, (token.content or b"").hex(" "))
    has_colours = console.color_system is not None and not console.no_color
    console.print(Text("" if has_colours else "|").join(pieces), soft_wrap=True)
    console.print(table)


def show_measures(console: Console, measures: dict[str, Measures]) -> None:
    """A row for each language."""
    table = Table("language", box=box.SIMPLE)
    for name in ("words", "tokens", "tokens per word", "bytes per token", "single-byte tokens"):
        table.add_column(name, justify="right")
    for language, found in measures.items():
        table.add_row(
            Text(visible(language)),
            f"{found.words:,}",
            f"{found.tokens:,}",
            f"{found.tokens_per_word:.3f}",
            f"{found.bytes_per_token:.3f}",
            f"{found.single_byte_share:.1%}",
        )
    console.print(table)


def measure_corpora(
    tokenizer: PreTrainedTokenizerFast, places: list[str], languages: tuple[str, ...]
) -> dict[str, Measures]:
    """Each language on its own; word by word, so no token may reach across a blank."""
    across = [token for token in tokenizer.get_vocab() if BLANK in token[1:]]
    if across:
        raise ValueError(
            "Corpora are measured word by word: a blank must be the first byte of its token, as "
            f"tokenizer.train sees to it, got {across[0]!r}. Sentences can be shown."
        )
    options = Options(languages)
    corpora = find_corpora(places, options.languages)
    sides = count_words(corpora, options)
    report_skipped(corpora)
    return {
        language: measure(tokenizer, counts)
        for language, counts in zip(options.languages, sides, strict=True)
    }


def read_sentences() -> Iterator[str]:
    """The lines of stdin, which end at a line feed and nowhere else."""
    try:
        for line in io.TextIOWrapper(sys.stdin.buffer, encoding="utf-8", newline="\n"):
            yield line.removesuffix("\n").removesuffix("\r")
    except UnicodeDecodeError as error:
        raise ValueError(f"Sentences must be UTF-8, got: {error}.") from error


def main(
    bundle: Annotated[Path, typer.Argument(help="Folder of the tokenizer.")],
    sentence: Annotated[
        list[str] | None,
        typer.Argument(help="What to split; without it and --corpus, each line of stdin."),
    ] = None,
    corpus: Annotated[
        list[str] | None,
        typer.Option(help="Parallel text to measure, of any kind that tokenizer.train reads."),
    ] = None,
    languages: Annotated[str, typer.Option(help="Source and target of --corpus.")] = "en,de",
) -> None:
    """Show how sentences split into tokens and bytes, or how well a corpus compresses."""
    if not (sentence or corpus) and sys.stdin.isatty():
        raise typer.BadParameter("Nothing to show: give a sentence, --corpus or lines on stdin.")
    console = Console()
    try:
        tokenizer = load_tokenizer(bundle)
        for text in sentence or ([] if corpus else read_sentences()):
            show_tokens(console, split(tokenizer, text))
        if corpus:
            names = tuple(name.strip() for name in languages.split(","))
            show_measures(console, measure_corpora(tokenizer, corpus, names))
    except (ValueError, OSError) as error:
        typer.echo(f"Error: {error}", err=True)
        sys.exit(1)


if __name__ == "__main__":
    typer.run(main)
