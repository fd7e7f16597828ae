"""Trains the paper's model: `python training/train.py --config RECIPE --output RUN [--resume]`.

Under `accelerate launch` the same with many processes. A run that was stopped, by whatever, goes on
with `--resume` as if it had never been. It ends with code 75 if it was asked to stop and saved.
"""

import json
import logging
import sys
from dataclasses import asdict, dataclass, field
from pathlib import Path
from typing import Annotated, Any

import typer
from accelerate import Accelerator
from accelerate.utils import set_seed
from tqdm.auto import tqdm
from transformers import AutoTokenizer

from training.batching import Batches, Place
from training.checkpoints import Checkpoint, Checkpoints
from training.corpus import prepare_training, read_held_out
from training.evaluation import Evaluation, Score
from training.interruption import INTERRUPTED, Interruption
from training.learner import Learner
from training.loader import Loader
from training.recipe import Recipe, load_recipe
from training.run_lock import RunLock
from training.saved_state import load_state, save_state
from vanilla_transformer import VanillaTransformerConfig, VanillaTransformerForConditionalGeneration

logger = logging.getLogger("training")


@dataclass
class Progress:
    """How far a run is: all that a resumed one needs beside weights and optimizer."""

    step: int = 0
    place: Place = Place()
    best: float | None = None
    evaluations_without_better: int = 0
    skipped_steps: int = 0
    history: list[dict[str, Any]] = field(default_factory=list)


class Run:
    """A recipe at work in a folder."""

    def __init__(self, recipe: Recipe, folder: Path, accelerator: Accelerator) -> None:
        self.recipe, self.folder, self.accelerator = recipe, folder, accelerator
        self.tokenizer = AutoTokenizer.from_pretrained(recipe.corpus.tokenizer)
        corpus, report = self._read_corpus()
        self.batches = Batches(
            corpus.source_lengths,
            corpus.target_lengths,
            corpus.weights,
            source_tokens=recipe.batching.source_tokens,
            target_tokens=recipe.batching.target_tokens,
            seed=recipe.seed,
        )
        set_seed(recipe.seed)
        model = self._build_model()
        self.learner = Learner(model, recipe.optimization, recipe.seed, accelerator)
        self.loader = Loader(corpus, self.batches, model.config, accelerator, recipe)
        held_out = read_held_out(recipe.corpus, recipe.corpus.validation)
        self.evaluation = Evaluation(held_out, self.tokenizer, recipe.evaluation, accelerator)
        section = recipe.checkpoints
        self.checkpoints = Checkpoints(
            folder / "checkpoints", keep_last=section.keep_last, keep_best=section.keep_best
        )
        self.progress = Progress()
        for line in report:
            logger.info(line)
        logger.info("padding: %.1f%% of all places in batches", 100 * self.batches.padding())

    def _read_corpus(self) -> Any:
        with self.accelerator.main_process_first():
            return prepare_training(self.recipe.corpus, self.tokenizer, self.folder / "corpus")

    def _build_model(self) -> VanillaTransformerForConditionalGeneration:
        fields = {"vocab_size": len(self.tokenizer)} | self.recipe.model
        config = VanillaTransformerConfig(
            pad_token_id=self.tokenizer.pad_token_id,
            eos_token_id=self.tokenizer.eos_token_id,
            **fields,
        )
        return VanillaTransformerForConditionalGeneration(config)

    def go(self, interruption: Interruption) -> bool:
        """Train to the end, or until somebody asks to stop; returns whether it is the end."""
        section, progress = self.recipe.optimization, self.progress
        shown = tqdm(
            total=section.max_steps,
            initial=progress.step,
            disable=not self.accelerator.is_main_process,
            unit=" steps",
        )
        for work in self.loader.after(progress.place):
            if progress.step >= section.max_steps:
                return True
            progress.step += 1
            outcome = self.learner.step(progress.step, work.pieces, work.target_tokens)
            progress.place = work.place
            progress.skipped_steps += not outcome.is_finite
            shown.update()
            shown.set_postfix(loss=f"{outcome.loss:.3f}", lr=f"{outcome.learning_rate:.2e}")
            self._look_and_save(interruption.requested)
            if interruption.requested:
                return False
        return True

    def _look_and_save(self, stops: bool) -> None:
        step, recipe = self.progress.step, self.recipe
        is_end = step >= recipe.optimization.max_steps
        score = None
        if is_end or step % recipe.evaluation.every_steps == 0:
            score = self._evaluate()
        if stops or is_end or score or step % recipe.checkpoints.every_steps == 0:
            self.save(score)

    def _evaluate(self) -> Score:
        score = self.evaluation.of(self.learner.model)
        entry = {"step": self.progress.step} | {
            name: getattr(score, name) for name in ("loss", "perplexity", "bleu", "chrf")
        }
        self.progress.history.append(entry)
        logger.info(json.dumps(entry))
        return score

    def save(self, score: Score | None) -> Checkpoint:
        """Save all that a resumed run needs, in a folder that `from_pretrained` loads."""
        quality = score.quality(self.recipe.evaluation.best_by) if score else None
        return self.checkpoints.save(self.progress.step, self._write, quality)

    def _write(self, folder: Path) -> None:
        weights = dict(self.learner.weights.named())
        self.learner.model.save_pretrained(folder, state_dict=weights)
        self.tokenizer.save_pretrained(folder)
        (folder / "recipe.yaml").write_text(self.recipe.to_yaml(), encoding="utf-8")
        save_state(self.learner.optimizer.state_dict(), folder / "training" / "optimizer")
        progress = asdict(self.progress)
        (folder / "training" / "progress.json").write_text(json.dumps(progress), encoding="utf-8")

    def resume(self) -> None:
        """Go on after the last whole checkpoint, if there is one."""
        checkpoint = self.checkpoints.latest()
        if checkpoint is None:
            return
        from safetensors.torch import load_file

        self.learner.weights.load(load_file(checkpoint.folder / "model.safetensors"))
        self.learner.optimizer.load_state_dict(load_state(checkpoint.training / "optimizer"))
        values = json.loads((checkpoint.training / "progress.json").read_text(encoding="utf-8"))
        self.progress = Progress(**values | {"place": Place(**values["place"])})
        logger.info("going on after step %d", self.progress.step)


def main(
    config: Annotated[Path, typer.Option(help="The recipe, a YAML file.")],
    output: Annotated[Path, typer.Option(help="The run's folder; made if need be.")],
    resume: Annotated[bool, typer.Option(help="Go on after the last checkpoint.")] = False,
    set: Annotated[list[str] | None, typer.Option(help="section.key=value, in YAML.")] = None,
) -> None:
    """Train a model by a recipe."""
    logging.basicConfig(level=logging.INFO, format="%(message)s")
    recipe = load_recipe(config, tuple(set or ()))
    accelerator = Accelerator()
    with RunLock(output), Interruption() as interruption:
        run = Run(recipe, output, accelerator)
        if resume:
            run.resume()
        is_end = run.go(interruption)
    sys.exit(0 if is_end else INTERRUPTED)


if __name__ == "__main__":
    typer.run(main)
