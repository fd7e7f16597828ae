"""The command `vanilla-transformer`: each function parses, calls the package and prints."""

import os
import sys
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Annotated, Literal

import typer

from .attention_command import attention
from .embedded_models import DEFAULT_MODEL

app = typer.Typer(add_completion=False, no_args_is_help=True, pretty_exceptions_enable=False)

# What several commands take.
BatchTokens = Annotated[
    int, typer.Option(min=1, help="Source tokens translated at once, padding counted.")
]
Beam = Annotated[
    int | None, typer.Option(min=1, help="Beam size; default: the model's own. 1: greedy.")
]
Precision = Annotated[
    Literal["bfloat16", "float32", "int8"],
    typer.Option(help="Precision; int8 is for CPUs, and a little less exact."),
]


@app.callback()
def vanilla_transformer() -> None:
    """The 2017 Transformer on the command line."""


@app.command()
def translate(  # noqa: PLR0913 - a parameter an option
    files: Annotated[
        list[Path] | None,
        typer.Argument(
            metavar="FILE", help="Text in UTF-8, a sentence or more a line; default, and -: stdin."
        ),
    ] = None,
    model: Annotated[
        str,
        typer.Option(help="Folder, name in this package, or name on the Hub: the first there is."),
    ] = DEFAULT_MODEL,
    output: Annotated[
        Path | None, typer.Option(help="File for the translations; default, and -: stdout.")
    ] = None,
    batch_tokens: BatchTokens = 4_096,
    beam: Beam = None,
    dtype: Precision = "float32",
    n_best: Annotated[
        int, typer.Option(min=1, help="Translations, so output lines, for each line.")
    ] = 1,
    scores: Annotated[
        bool, typer.Option("--scores", help="Write scores too (jsonl, tsv).")
    ] = False,
    alignment: Annotated[
        bool,
        typer.Option("--alignment", help="Write which characters belong together (jsonl, tsv)."),
    ] = False,
    format: Annotated[
        Literal["text", "jsonl", "tsv"],
        typer.Option(
            help="Of the output; tsv: text, score, alignment as source start-end:target start-end."
        ),
    ] = "text",
    resume: Annotated[
        bool, typer.Option("--resume", help="Continue an --output of the same input and options.")
    ] = False,
    force: Annotated[bool, typer.Option("--force", help="Replace --output.")] = False,
) -> None:
    """Translate text line by line: n lines in, n lines out, blank lines kept."""
    output = None if output == Path("-") else output
    if resume and (force or output is None):
        raise typer.BadParameter("--resume needs an --output, and no --force.")
    if format == "text" and (scores or alignment):
        raise typer.BadParameter("--scores and --alignment need --format jsonl or tsv.")
    if beam is not None and n_best > beam:
        raise typer.BadParameter("--n-best must be at most --beam.")
    with refusals():
        from .line_chunks import STDIN, count_lines
        from .steady_memory import keep_few_products
        from .translate import Options, check_paths, translate_files
        from .translate_in_parallel import join_processes, translate_in_parallel
        from .translators import load_translator

        options = Options(batch_tokens, beam, n_best, scores, alignment, format)
        keep_few_products()
        existing: Literal["refuse", "replace", "resume"] = "refuse"
        if resume or force:
            existing = "resume" if resume else "replace"
        check_paths(files or [], output, existing)
        total = count_lines(files or [])
        processes = join_processes()
        translator = load_translator(model, dtype, processes and processes.device)
        task = translator, files or [], output, options, existing
        if processes is None:
            if STDIN in (files or [STDIN]) and sys.stdin.isatty():
                tell("Type lines; Ctrl-D on an empty one translates them.")
            report(translate_files(*task), total)
        else:
            report(
                translate_in_parallel(processes, *task), None, hide=not processes.is_main_process
            )


@app.command()
def evaluate(  # noqa: PLR0913 - a parameter an option
    source: Annotated[
        Path,
        typer.Argument(
            metavar="SOURCE",
            help="Text in UTF-8, plain or .gz; or with its translations: .tsv, .jsonl, a dataset "
            "(folder::test, name:configuration:test).",
        ),
    ],
    reference: Annotated[
        Path | None,
        typer.Argument(metavar="[REFERENCE]", help="Its translations, detokenised; for text only."),
    ] = None,
    model: Annotated[
        list[str] | None,
        typer.Option(help="As for translate, but without a default; may be repeated."),
    ] = None,
    hypotheses: Annotated[
        list[Path] | None, typer.Option(help="Translations made elsewhere; may be repeated.")
    ] = None,
    languages: Annotated[
        str, typer.Option(help="Source and target in .jsonl and datasets.")
    ] = "en,de",
    batch_tokens: BatchTokens = 4_096,
    beam: Beam = None,
    dtype: Precision = "float32",
    tokenize: Annotated[
        str, typer.Option(help="How BLEU finds words: 13a, intl, char, zh, none, ...")
    ] = "13a",
    lowercase: Annotated[bool, typer.Option("--lowercase", help="Ignore case.")] = False,
    resamples: Annotated[int, typer.Option(min=1, help="Of the bootstrap.")] = 1_000,
    format: Annotated[Literal["text", "json"], typer.Option(help="Of the report.")] = "text",
    save_translations: Annotated[
        Path | None, typer.Option(help="New folder for what the models write.")
    ] = None,
) -> None:
    """BLEU and chrF with confidence; of several systems, compared with the first by bootstrap."""
    if not model and not hypotheses:
        raise typer.BadParameter("evaluate needs a --model or --hypotheses.")
    with refusals():
        from .model_comparison import Task, compare_models
        from .score_report import FORMATS
        from .steady_memory import keep_few_products

        keep_few_products()
        task = Task(
            source=source,
            reference=reference,
            languages=languages,
            models=model or [],
            hypotheses=hypotheses or [],
            batch_tokens=batch_tokens,
            beam=beam,
            dtype=dtype,
            tokenize=tokenize,
            lowercase=lowercase,
            resamples=resamples,
            save_translations=save_translations,
        )
        comparison = compare_models(task, report)
        typer.echo(FORMATS[format](task, comparison))


@app.command()
def publish(  # noqa: PLR0913 - a parameter an option
    model: Annotated[
        Path, typer.Argument(metavar="MODEL", help="Its folder, or en-de-small; only read.")
    ],
    to: Annotated[
        str | None, typer.Option(help="Repository, made if need be: user/name, or a name of yours.")
    ] = None,
    private: Annotated[
        bool, typer.Option("--private", help="Make a private repository; refuse a public one.")
    ] = False,
    dry_run: Annotated[
        bool, typer.Option("--dry-run", help="Leave the folder and say what would go; no network.")
    ] = False,
    folder: Annotated[
        Path | None, typer.Option(help="New folder for what is published; it stays.")
    ] = None,
    card: Annotated[
        Path | None,
        typer.Option(
            help="Facts for the model card, .yaml or .json, or a whole card, .md; default: MODEL's "
            "README.md, or what the training run tells."
        ),
    ] = None,
    exclude: Annotated[
        list[str] | None,
        typer.Option(help="Name or pattern of files in MODEL to leave out; may be repeated."),
    ] = None,
    message: Annotated[str, typer.Option(help="Of the commit.")] = "Publish by vanilla-transformer",
    space: Annotated[
        bool,
        typer.Option("--space", help="MODEL is a Space, space/ of a clone; the package goes too."),
    ] = False,
) -> None:
    """Bring a model, or the demo, to the Hub: a folder that needs nobody, in one commit."""
    with refusals():
        from .embedded_models import find_model
        from .publish import Options
        from .publish import publish as publish_model

        kind: Literal["model", "space"] = "space" if space else "model"
        source = Path(find_model(str(model)))
        options = Options(source, to, private, dry_run, folder, card, exclude or (), message, kind)
        publish_model(options, typer.echo, tell)


def tell(line: str) -> None:
    """Say on stderr what is being done."""
    typer.echo(line, err=True)


def report(
    steps: Iterator, total: int | None, name: str | None = None, *, hide: bool = False
) -> None:
    """Say on stderr how far it is and how fast it goes."""
    from tqdm import tqdm

    started, num_tokens = time.perf_counter(), 0
    hidden = {"disable": True} if hide else {}  # else as TQDM_DISABLE says
    with tqdm(total=total, unit="lines", unit_scale=True, desc=name, **hidden) as bar:
        for step in steps:
            if not step.tokens and not bar.disable:
                bar.initial += step.lines  # they took no time
            num_tokens += step.tokens
            speed = num_tokens / (time.perf_counter() - started)
            bar.set_postfix_str(f"{speed:,.0f} tokens/s", refresh=False)
            bar.update(step.lines)


@contextmanager
def refusals() -> Iterator[None]:
    """What is refused is one line on stderr and exit code 1."""
    try:
        yield
    except BrokenPipeError:  # nobody reads on; Python must not find that out again at its end
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
        raise typer.Exit(1) from None
    except (ValueError, OSError, ImportError) as error:
        typer.echo(f"Error: {' '.join(str(error).split())}", err=True)
        raise typer.Exit(1) from None


app.command()(refusals()(attention))


def main() -> None:
    """Run the command that was asked for."""
    app(prog_name="vanilla-transformer")


if __name__ == "__main__":
    main()
