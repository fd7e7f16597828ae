"""Makes the model that ships of a finished run: `python training/embed.py runs/en-de-small`.

The folder has the run's name and lies in the package: weights in bfloat16 (loaded as float32 where
nobody asks otherwise), the paper's decoding with the recipe's rule against repetitions, the
tokenizer, and a README that says whose text the model learned from. The code that other saved
folders carry stays out: the package has it.
"""

import json
import logging
import tempfile
from collections.abc import Iterator
from pathlib import Path
from string import Template
from typing import Annotated, Any

import torch
import typer

from vanilla_transformer import embedded_models
from vanilla_transformer.card_facts import read_facts
from vanilla_transformer.card_tables import data_table
from vanilla_transformer.cli import refusals
from vanilla_transformer.configuration_rules import refuse
from vanilla_transformer.generation_vanilla_transformer import paper_decoding
from vanilla_transformer.publishable_folder import CARD, check_source, load
from vanilla_transformer.publishing_checks import refusals_of
from vanilla_transformer.run_facts import MODEL, read_run_of

RECIPES = Path(__file__).with_name("recipes")
MOST_BYTES = 25_000_000
OF_CODE = ("auto_map", "custom_pipelines")
README = Template("""\
---
library_name: transformers
pipeline_tag: translation
language: [$languages]
license: $license
tags: [translation, vanilla-transformer]
---

# $name

$summary

```python
from transformers import pipeline

import vanilla_transformer

translate = pipeline("translation", model=vanilla_transformer.embedded("$name"))
```

## Licence and attributions

Licence: $license. It learned from:

$data

`model_card.md` in the repository of vanilla-transformer says more.
""")

logger = logging.getLogger(__name__)


def embed(run: Path, *, force: bool = False) -> Path:
    """Write the folder of an embedded model and return it; refuse what must not ship."""
    name, source = run.resolve().name, run / MODEL
    folder = embedded_models.EMBEDDED / name
    check_source(source)
    if read_run_of(source).steps is None:
        raise ValueError(f"RUN must be finished, got {run}: training/train.py --resume goes on.")
    if folder.exists() and not force:
        raise ValueError(f"{folder} is there already: replace it with --force.")
    readme = describe(name, read_facts(RECIPES / f"{name}.facts.yaml"))
    folder.parent.mkdir(exist_ok=True)
    with tempfile.TemporaryDirectory(prefix=".", dir=folder.parent) as unfinished:
        made = Path(unfinished) / name
        write_model(*load(source), made)
        (made / CARD).write_text(readme, encoding="utf-8")
        refuse(complaints_about(made))
        put(made, folder, aside=Path(unfinished) / "replaced")
    return folder


def put(made: Path, folder: Path, *, aside: Path) -> None:
    """Move a folder to its place; what was there goes aside, and comes back if that fails."""
    if folder.exists():
        folder.rename(aside)
    try:
        made.rename(folder)
    except OSError:
        if aside.exists():
            aside.rename(folder)
        raise


def write_model(model: Any, tokenizer: Any, folder: Path) -> None:
    """Save what loads where the package is, and no more."""
    paper_decoding(model.generation_config)
    model.to(torch.bfloat16).save_pretrained(folder)
    tokenizer.save_pretrained(folder)
    for code in folder.glob("*.py"):
        code.unlink()
    rewrite(folder / "config.json", dtype="float32")  # bfloat16 is slow where processors lack it
    rewrite(folder / "tokenizer_config.json")
    rewrite(folder / "tokenizer.json", indent=None)  # half the size


def rewrite(file: Path, *, indent: int | None = 2, **changes: str) -> None:
    """Change a file of JSON, and take out the names of code that does not lie beside it."""
    values = json.loads(file.read_text(encoding="utf-8")) | changes
    kept = {name: value for name, value in values.items() if name not in OF_CODE}
    text = json.dumps(kept, ensure_ascii=False, indent=indent)
    file.write_text(f"{text}\n", encoding="utf-8")


def describe(name: str, facts: dict[str, Any]) -> str:
    """The README: what the model is, and whose text it learned from."""
    return README.substitute(
        name=name,
        languages=", ".join(facts["languages"]),
        license=facts["license"],
        summary=facts["summary"].strip(),
        data=data_table(facts["training_data"]),
    )


def complaints_about(folder: Path) -> Iterator[str]:
    """Why a folder must not ship."""
    files = {file.name: file for file in folder.iterdir()}
    yield from refusals_of(files)
    size = sum(file.stat().st_size for file in files.values())
    if size > MOST_BYTES:
        yield f"An embedded model must have at most {MOST_BYTES:,} bytes, got {size:,}: shrink it."


def main(
    run: Annotated[Path, typer.Argument(help="The folder of a finished run.")],
    force: Annotated[bool, typer.Option("--force", help="Replace the model of that name.")] = False,
) -> None:
    """Make the model that ships of a finished run."""
    with refusals():
        logger.info(embed(run, force=force))


if __name__ == "__main__":
    logging.basicConfig(level=logging.INFO, format="%(message)s")
    typer.run(main)
