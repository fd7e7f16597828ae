"""Puts what others wrote into Markdown as what it is: text, tables and code, never markup."""

import json
import math
import re
from collections.abc import Iterable, Sequence

SPECIAL = re.compile(r"([\\`*_{}\[\]<>#|~$&])")
TAG = re.compile(r"<(?=[A-Za-z/!?])")
NOTHING = "\N{EN DASH}"


def plain(value: object) -> str:
    """One line of text; nothing in it means anything to Markdown or HTML."""
    return SPECIAL.sub(r"\\\1", " ".join(str(value).split()))


def prose(text: str) -> str:
    """Markdown of several lines, in which HTML is shown, not obeyed."""
    return TAG.sub("&lt;", text.strip())


def code(value: object) -> str:
    """A piece of code in a line: its fence is longer than any run of backticks in it."""
    text = " ".join(str(value).split())
    runs = [len(run) for run in re.findall(r"`+", text)]
    fence = "`" * (max(runs, default=0) + 1)
    space = " " if text.startswith("`") or text.endswith("`") else ""
    return f"{fence}{space}{text}{space}{fence}"


def literal(text: str) -> str:
    """A string as Python writes it, in one line."""
    return json.dumps(text, ensure_ascii=False)


def number(value: object, digits: int = 2) -> str:
    """A figure for a table: 1234.5 -> 1,234.50; a dash where there is none."""
    if isinstance(value, bool) or not isinstance(value, int | float) or not math.isfinite(value):
        return NOTHING
    return f"{value:,}" if isinstance(value, int) else f"{value:,.{digits}f}"


def link(name: str, url: str | None) -> str:
    """A name, linked where there is an address of the web."""
    if url is None or not re.fullmatch(r"https?://[^\s<>()\"']+", url):
        return plain(name)
    return f"[{plain(name)}](<{url}>)"


def table(head: Sequence[str], rows: Iterable[Sequence[str]], numbers: bool = False) -> str:
    """A table; its cells are ready, by `plain` or `number`; figures stand to the right."""
    line = ["---", *(["---:" if numbers else "---"] * (len(head) - 1))]
    return "\n".join("| " + " | ".join(row) + " |" for row in (head, line, *rows))
