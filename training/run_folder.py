"""What lies in the folder of a run beside its log and its checkpoints.

RUN/
recipe.yaml     every value, defaults too
corpus.txt      what the checks of the corpus found
tokenizer/      if the recipe had one learned
corpus/         the corpus as token ids; may be deleted
model/          the result: the last checkpoints averaged (6.1), or where patience ended, the best
results.json    what it scores
report.html, report.png
"""

import json
import logging
import shutil
from contextlib import ExitStack
from pathlib import Path
from typing import Any

from training.averaging import write_average
from training.checkpoints import Checkpoint
from training.corpus_report import CorpusReport
from training.recipe import Recipe
from training.report import write_report
from training.run_lock import RunLock
from vanilla_transformer.file_replacement import replace_file
from vanilla_transformer.run_facts import CORPUS, MODEL, RECIPE, RESULTS

logger = logging.getLogger(__name__)


def claim_folder(folder: Path, resumes: bool, held: ExitStack) -> None:
    """Lock the run's folder, which must not hold another run, nor anybody's results."""
    held.enter_context(RunLock(folder))
    has_run = any((folder / "checkpoints").glob("step-*"))
    if has_run and not resumes:
        raise ValueError(
            f"A new run needs a folder of its own, got {folder} with checkpoints in it: go on with "
            "--resume, or name another --output."
        )
    if results := [name for name in (MODEL, RESULTS) if not has_run and (folder / name).exists()]:
        raise ValueError(
            f"A run that begins would replace what is in its folder, got {folder} with "
            f"{' and '.join(results)} and no checkpoints: name another --output, or move them."
        )


def write_recipe(recipe: Recipe, folder: Path) -> None:
    """Write every value that this run has, defaults too."""
    replace_file(folder / RECIPE, recipe.to_yaml().encode())


def write_corpus_report(report: CorpusReport, folder: Path) -> None:
    """Say what the checks found: in a few lines here, in all detail in RUN/corpus.txt."""
    for line in report.summary():
        logger.info(line)
    replace_file(folder / CORPUS, report.to_text().encode("utf-8", "backslashreplace"))


def write_model(checkpoints: list[Checkpoint], folder: Path) -> list[int]:
    """Average checkpoints into a model folder; returns their steps."""
    replaced = folder / f".replaced-{MODEL}"
    shutil.rmtree(replaced, ignore_errors=True)
    if (folder / MODEL).exists():
        (folder / MODEL).rename(replaced)
    write_average([one.folder for one in checkpoints], folder / MODEL)
    shutil.rmtree(replaced, ignore_errors=True)
    return [one.step for one in checkpoints]


def write_results(scores: dict[str, Any], folder: Path) -> None:
    """Write what the model scores on validation and tests."""
    text = json.dumps(scores, indent=1, ensure_ascii=False)
    replace_file(folder / RESULTS, text.encode())


def write_final_report(folder: Path) -> None:
    """Write the report, which is no reason to fail: `training/report.py` writes it at any time."""
    try:
        page, *_ = write_report(folder)
        logger.info("the result is in %s, the report in %s", folder / MODEL, page)
    except (ValueError, OSError) as error:
        logger.warning("There is no report: %s", error)
