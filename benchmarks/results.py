"""How the benchmarks write RESULTS.md: tables, commands, and a section for each script."""

import shlex
from collections.abc import Callable, Iterable
from pathlib import Path


def table(header: list[str], rows: Iterable[list[str]]) -> str:
    """Write a Markdown table; the first three columns are words, the others numbers."""
    alignment = ["---"] * 3 + ["---:"] * (len(header) - 3)
    return "\n".join("| " + " | ".join(row) + " |" for row in [header, alignment, *rows])


def shown_command(script: str, arguments: list[str]) -> str:
    """Write the command for RESULTS.md, with the names of folders instead of their places."""
    shown = [Path(word).name if Path(word).is_absolute() else word for word in arguments]
    return shlex.join(["python", f"benchmarks/{script}", *shown])


def replace_section(path: Path, script: str, section: str) -> None:
    """Put a script's section between its markers, or at the end of a file that has none yet."""
    begin, end = (f"<!-- {script}: {word} -->" for word in ("begin", "end"))
    marked = f"{begin}\n{section}\n{end}\n"
    text = path.read_text(encoding="utf-8") if path.is_file() else "# Results\n"
    before, found, rest = text.partition(begin)
    if not found:
        path.write_text(f"{text.rstrip()}\n\n{marked}", encoding="utf-8")
        return
    _, found, after = rest.partition(end)
    if not found:
        raise ValueError(f"{path.name} must close the section {begin!r}: add the line {end!r}.")
    path.write_text(before + marked + after.removeprefix("\n"), encoding="utf-8")


def publish(
    report: str,
    script: str,
    folder: Path | None,
    title: str = "",
    draw: Callable[[Path], None] | None = None,
) -> None:
    """Print a report; where there is a folder, put it into RESULTS.md, above a script's chart."""
    print(report)
    if folder is None:
        return
    if draw is not None:
        chart = folder / Path(script).with_suffix(".png").name
        draw(chart)
        report = f"{report}\n\n![{title}]({chart.name})"
    replace_section(folder / "RESULTS.md", script, report)
