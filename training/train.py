"""Trains the paper's model: `python training/train.py --config RECIPE --output RUN [--resume]`.

Under `accelerate launch` the same with many processes. A run that was stopped, by whatever, goes on
with `--resume` as if it had never been. It ends with code 75 if it was asked to stop while it
trained, and saved; before and after there is nothing to save.
"""

import logging
import sys
import time
from contextlib import ExitStack
from datetime import timedelta
from functools import partial
from pathlib import Path
from typing import Annotated, Any

import torch
import typer
from accelerate import Accelerator
from accelerate.utils import InitProcessGroupKwargs, set_seed
from tqdm.contrib.logging import logging_redirect_tqdm
from transformers.utils.logging import disable_progress_bar

from training.checkpoints import Checkpoint, Checkpoints
from training.corpus import (
    Tokenized,
    batches_of,
    open_held_out,
    prepare_training,
    read_held_out,
)
from training.corpus_checks import RefusedCorpusError
from training.corpus_tokenizer import prepare_tokenizer
from training.evaluation import Evaluation, Score
from training.failures import explain
from training.interruption import INTERRUPTED, Interruption
from training.learner import Learner
from training.loader import Loader, Work
from training.model import build_model, resolve
from training.placement import refuse_other_settings
from training.processes import MainProcessError, on_main
from training.progress import Progress
from training.recipe import Recipe, load_recipe
from training.reporter import Reporter, refuse_missing
from training.resuming import compare_recipes, compare_texts, digest_of_texts
from training.run_folder import (
    claim_folder,
    write_corpus_report,
    write_final_report,
    write_model,
    write_recipe,
    write_results,
)
from vanilla_transformer import VanillaTransformerForConditionalGeneration
from vanilla_transformer.run_facts import MODEL, RECIPE
from vanilla_transformer.steady_memory import keep_few_products, keep_freed_memory
from vanilla_transformer.stored_weights import digest_of_weights

logger = logging.getLogger("training")

MOST_SKIPPED_IN_A_ROW = 10
LONGEST_WAIT = timedelta(hours=12)  # for the main process to tokenize; libraries wait 10 to 30 min
BYTES_A_NUMBER = 4  # float32: weights, the optimizer's two moments, perhaps a moving average


class Run:
    """A recipe at work in a folder."""

    def __init__(self, recipe: Recipe, folder: Path, accelerator: Accelerator) -> None:
        self.recipe, self.folder, self.accelerator = recipe, folder, accelerator
        self.tokenizer = self._prepare_tokenizer()
        self.corpus = corpus = self._prepare_corpus()
        self.batches = batches_of(corpus, recipe)
        set_seed(recipe.seed)
        model = build_model(recipe, self.tokenizer)
        self.learner = Learner(model, recipe.optimization, recipe.seed, accelerator)
        self.loader = Loader(corpus, self.batches, recipe.batching, model.config, accelerator)
        self.evaluation = self._evaluation_on(recipe.corpus.validation)
        self.checkpoints = Checkpoints(
            folder / "checkpoints",
            keep_last=recipe.checkpoints.keep_last,
            keep_best=recipe.checkpoints.keep_best,
            every_steps=recipe.checkpoints.every_steps,
        )
        self.reporter = Reporter(folder, recipe, accelerator)
        self.progress = Progress(texts=digest_of_texts(corpus, self.tokenizer))

    def resume(self) -> None:
        """Go on after the last whole checkpoint, if there is one."""
        latest = on_main(self.accelerator, self.checkpoints.latest)
        if latest:
            progress = Progress.read(latest.training / "progress.json")
            compare_texts(progress.texts, self.progress.texts)
            saved = latest.folder / RECIPE
            on_main(self.accelerator, lambda: compare_recipes(saved, self.recipe))
            on_main(self.accelerator, lambda: self.checkpoints.tidy(latest.step))
            self.learner.load(latest.folder)
            self.progress = progress
            logger.info("going on after step %s", f"{self.progress.step:,}")

    def train(self, interruption: Interruption) -> bool:
        """Train to the end, or until somebody asks to stop; returns whether it is the end."""
        self.reporter.start(
            self.progress,
            parameters=self.learner.num_parameters,
            precision=str(self.learner.dtype).removeprefix("torch."),
            padding=self.batches.padding(),
        )
        began = time.perf_counter()
        for work in self.loader.after(self.progress.place):
            if self._is_over():
                break
            stops = self._step(work, interruption.requested, began)
            self._look_and_save(stops)
            if stops:
                logger.info("saved after step %s: --resume goes on", f"{self.progress.step:,}")
                return False
            began = time.perf_counter()
        return True

    def _is_over(self) -> bool:
        return self.progress.step >= self.recipe.optimization.max_steps or self._lost_patience()

    def _lost_patience(self) -> bool:
        patience = self.recipe.evaluation.patience
        return bool(patience) and self.progress.evaluations_since_best >= patience

    def _step(self, work: Work, wants_to_stop: bool, began: float) -> bool:
        """Learn from a batch; returns whether some process was asked to stop."""
        progress = self.progress
        progress.step += 1
        outcome = self.learner.step(
            progress.step, work.pieces, work.target_tokens, must_stop=wants_to_stop
        )
        progress.place = work.place
        progress.target_tokens += work.target_tokens
        progress.note_finite(outcome.is_finite)
        if not outcome.is_finite:
            self.reporter.skipped(progress, outcome, work.pairs.tolist())
        if progress.skipped_in_a_row == MOST_SKIPPED_IN_A_ROW:
            raise ValueError(
                f"Loss and gradients must be finite, got {MOST_SKIPPED_IN_A_ROW} steps in a row "
                f"where they were not, the last one step {progress.step}: lower "
                "optimization.peak_learning_rate, raise warmup_steps or clip gradients "
                "(max_gradient_norm). The last checkpoint is finite."
            )
        seconds = time.perf_counter() - began
        progress.seconds += seconds
        self.reporter.step(progress, outcome, work.target_tokens, seconds)
        return outcome.must_stop

    def _look_and_save(self, stops: bool) -> None:
        """Evaluate and save when it is time, at the end, and before stopping."""
        step, recipe = self.progress.step, self.recipe
        is_end = step >= recipe.optimization.max_steps
        score = None
        if is_end or step % recipe.evaluation.every_steps == 0:
            score = self._evaluate()
        if stops or score or step % recipe.checkpoints.every_steps == 0:
            self._save(score)

    def _evaluate(self) -> Score:
        with self.learner.best_weights() as model:
            score = self.evaluation.of(model)
        self.progress.note_quality(score.quality(self.recipe.evaluation.best_by))
        self.reporter.evaluation(self.progress, score, samples=self.evaluation.samples(score))
        return score

    def _save(self, score: Score | None) -> None:
        quality = score.quality(self.recipe.evaluation.best_by) if score else None
        numbers = 4 if self.learner.average else 3  # for each weight
        bytes_needed = BYTES_A_NUMBER * numbers * self.learner.num_parameters
        collected = self.learner.collect()  # by all processes, wherever the weights lie
        on_main(
            self.accelerator,
            lambda: self.checkpoints.save(
                self.progress.step,
                lambda folder: self._write(folder, collected),
                quality,
                bytes_needed,
            ),
        )

    def _write(self, folder: Path, collected: Any) -> None:
        """All that a resumed run needs, in a folder that `from_pretrained` loads."""
        self.learner.save(folder, collected)
        self.tokenizer.save_pretrained(folder)
        write_recipe(self.recipe, folder)
        self.progress.write(folder / "training" / "progress.json")

    def finish(self) -> None:
        """Average the last checkpoints, and say how good the result is."""
        averaged = on_main(self.accelerator, lambda: write_model(self._chosen(), self.folder))
        kind: Any = VanillaTransformerForConditionalGeneration
        model = kind.from_pretrained(self.folder / MODEL, dtype=self.learner.dtype)
        model = model.to(self.accelerator.device)
        places = {"validation": self.recipe.corpus.validation, **self.recipe.corpus.tests}
        scores = {name: self._evaluation_on(place).of(model) for name, place in places.items()}
        figures = {name: score.figures() for name, score in scores.items()}
        weights = on_main(self.accelerator, lambda: digest_of_weights(self.folder / MODEL))
        self.reporter.result(self.progress, averaged=averaged, scores=figures, weights=weights)
        on_main(self.accelerator, lambda: write_results(figures, self.folder))
        for name, score in scores.items():
            told = name, score.bleu, score.chrf, score.exact
            logger.info("%s: BLEU %.2f, chrF %.2f, %.2f %% exact", *told)
        on_main(self.accelerator, lambda: write_final_report(self.folder))

    def _chosen(self) -> list[Checkpoint]:
        """The checkpoints that the result is made of: the last ones, or the best before patience.

        Those after it were not better, which is what ended the run.
        """
        best = self.checkpoints.best() if self._lost_patience() else None
        if best is None:
            return self.checkpoints.last(self.recipe.checkpoints.average_last)
        logger.info("nothing was better than step %s, the result", f"{best.step:,}")
        return [best]

    def _prepare_tokenizer(self) -> Any:
        """The one that the recipe names, or one learned from the corpus; the main process first."""
        section, folder = self.recipe.corpus, self.folder / "tokenizer"
        on_main(self.accelerator, lambda: prepare_tokenizer(section, folder) and None)
        return prepare_tokenizer(section, folder)

    def _prepare_corpus(self) -> Tokenized:
        """All pairs as token ids, made by the main process, or by an earlier run."""
        recipe = self.recipe
        prepare = partial(
            prepare_training,
            recipe.corpus,
            self.tokenizer,
            self.folder / "corpus",
            bpe_dropout=recipe.optimization.bpe_dropout,
            seed=recipe.seed,
        )

        def prepare_and_tell() -> None:
            try:
                prepare()
            except RefusedCorpusError as refused:
                write_corpus_report(refused.report, self.folder)
                raise

        on_main(self.accelerator, prepare_and_tell)
        return prepare()

    def _evaluation_on(self, places: tuple[str, ...]) -> Evaluation:
        held_out = read_held_out(self.recipe.corpus, places)
        return Evaluation(held_out, self.tokenizer, self.recipe.evaluation, self.accelerator)


def main(
    config: Annotated[Path, typer.Option(help="The recipe, a YAML file.")],
    output: Annotated[Path, typer.Option(help="The run's folder; made if need be.")],
    resume: Annotated[
        bool, typer.Option("--resume", help="Go on after the last checkpoint, if there is one.")
    ] = False,
    changes: Annotated[
        list[str] | None, typer.Option("--set", help="section.key=value, the value in YAML.")
    ] = None,
) -> None:
    """Train a model by a recipe."""
    logging.basicConfig(format="%(message)s")
    disable_progress_bar()  # of saving, which is quick
    keep_few_products()  # batches have hundreds of shapes
    keep_freed_memory()
    try:
        recipe = load_recipe(config, tuple(changes or ()))
        refuse_missing(recipe.log.trackers)
        refuse_other_settings(recipe)
        accelerator = Accelerator(
            cpu=not torch.accelerator.is_available(),  # `accelerate launch` would not say so
            log_with=list(recipe.log.trackers) or None,
            project_dir=output,
            kwargs_handlers=[InitProcessGroupKwargs(timeout=LONGEST_WAIT)],
        )
        for name in ("training", "vanilla_transformer"):  # others would tell of every request
            told = logging.INFO if accelerator.is_main_process else logging.WARNING
            logging.getLogger(name).setLevel(told)
        is_end = run(recipe, output, accelerator, resumes=resume)
    except MainProcessError:
        sys.exit(1)
    except Exception as error:
        if (reason := explain(error)) is None:
            raise
        typer.echo(f"Error: {reason}", err=True)
        sys.exit(1)
    sys.exit(0 if is_end else INTERRUPTED)


def run(recipe: Recipe, folder: Path, accelerator: Accelerator, resumes: bool) -> bool:
    """Train in a folder that no other run uses; returns whether the run came to its end."""
    with ExitStack() as held, logging_redirect_tqdm():
        # What may be wrong first, as learning a tokenizer and reading the corpus may take long.
        recipe = on_main(accelerator, lambda: resolve(recipe))
        on_main(accelerator, lambda: open_held_out(recipe.corpus))
        on_main(accelerator, lambda: claim_folder(folder, resumes, held))
        one = Run(recipe, folder, accelerator)
        if resumes:
            one.resume()
        on_main(accelerator, lambda: write_corpus_report(one.corpus.report, folder))
        on_main(accelerator, lambda: write_recipe(recipe, folder))
        try:
            with Interruption() as interruption:
                is_end = one.train(interruption)
            if is_end:
                one.finish()
        finally:
            one.reporter.close()
    return is_end


if __name__ == "__main__":
    app = typer.Typer(add_completion=False, pretty_exceptions_enable=False)
    app.command()(main)
    app()
