"""The command `vanilla-transformer attention`: a sentence becomes a page or a picture."""

from pathlib import Path
from typing import Annotated, Literal

import typer

from .embedded_models import DEFAULT_MODEL


def attention(  # noqa: PLR0913 - a parameter an option
    sentence: Annotated[str, typer.Argument(help="One sentence; with --target, one line.")],
    model: Annotated[
        str,
        typer.Option(help="Folder, name in this package, or name on the Hub: the first there is."),
    ] = DEFAULT_MODEL,
    target: Annotated[
        str | None, typer.Option(help="A translation to look at; default: the model's own.")
    ] = None,
    src_lang: Annotated[
        str | None, typer.Option(help="Of the sentence, for models of many languages.")
    ] = None,
    tgt_lang: Annotated[
        str | None, typer.Option(help="Of the translation, for models of many languages.")
    ] = None,
    kind: Annotated[
        Literal["encoder", "decoder", "cross"] | None,
        typer.Option(help="Whose attention; default: cross, each written word at the source."),
    ] = None,
    layer: Annotated[int | None, typer.Option(min=1, help="Counted from 1.")] = None,
    head: Annotated[
        int | None, typer.Option(min=1, help="Counted from 1; default: all, or their mean.")
    ] = None,
    view: Annotated[
        Literal["grid", "layer", "head", "links", "alignment"] | None,
        typer.Option(
            help="grid: all heads, small; layer: its heads; head: one, or the mean, large; links: "
            "lines between words; alignment. A page begins with layer, head or links."
        ),
    ] = None,
    pieces: Annotated[
        bool, typer.Option("--pieces", help="Show what the model reads, not whole words.")
    ] = False,
    format: Annotated[
        Literal["html", "png", "svg"] | None,
        typer.Option(help="Default: what the ending of --output says, or html."),
    ] = None,
    output: Annotated[
        Path | None, typer.Option(help="File to write; default: attention.html; -: stdout.")
    ] = None,
    force: Annotated[bool, typer.Option("--force", help="Replace --output.")] = False,
) -> None:
    """Show who looks at whom: a page to click through (html), or a picture (png, svg)."""
    from .attention_file import Wish, check_output, write_output

    wish = Wish.of(format, output, view=view, kind=kind, layer=layer, head=head)
    output = output or Path(f"attention.{wish.format}")
    check_output(output, force=force)

    from .attention_maps import look_through
    from .translators import load_translator

    asked = {"src_lang": src_lang, "tgt_lang": tgt_lang}
    languages = {name: code for name, code in asked.items() if code is not None}
    maps = look_through(load_translator(model), sentence, target, pieces=pieces, **languages)
    write_output(output, wish.fulfil(maps), force=force)
    if output != Path("-"):
        typer.echo(f"Written: {output}", err=True)
