"""Fine-tunes a model on your own parallel text with the library's Trainer. Copy it and adapt it.

    python training/finetune.py MODEL --train pairs.tsv --validation val.tsv --output NEW-MODEL

Whole, or by small matrices beside its weights (`--lora`); under `accelerate launch` with many
processes. Every so many steps the model is scored on the validation set and saved; the best one by
chrF is left in NEW-MODEL. `--resume` goes on to the bit from the last whole checkpoint, if model,
text, options and number of processes are what they were. For long trainings use `train.py`, whose
checkpoints survive being killed at any moment.
"""

import logging
import os
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import Annotated, Any

import numpy as np
import torch
import typer
from datasets import Dataset
from peft import LoraConfig, get_peft_model
from transformers import (
    AutoModelForSeq2SeqLM,
    EvalPrediction,
    Seq2SeqTrainingArguments,
    set_seed,
)

from training.trainer_batches import TranslationTrainer
from training.trainer_folder import check_folder, clear_folder, last_whole_checkpoint
from vanilla_transformer.cli import refusals
from vanilla_transformer.embedded_models import find_model
from vanilla_transformer.parallel_text import Languages, find_corpora, read_languages
from vanilla_transformer.scoring import TranslationMetric
from vanilla_transformer.translators import ADAPTER, load_tokenizer, way_to_a_model
from vanilla_transformer.word_ids import IGNORED

logger = logging.getLogger("training")

MERGING = (
    "it holds an adapter, so load it with peft.AutoPeftModelForSeq2SeqLM and save what its "
    "merge_and_unload() gives, and the tokenizer, to another folder."
)
LORA_LAYERS = ["q_proj", "v_proj"]
LORA = LoraConfig(task_type="SEQ_2_SEQ_LM", target_modules=LORA_LAYERS)


@dataclass(frozen=True)
class Options:
    """What is fine-tuned on what, and how; the command line explains each."""

    model: Path
    train: list[str]
    validation: list[str]
    output: Path
    languages: Languages = ("en", "de")
    lora: bool = False
    max_steps: int = 1_000
    every_steps: int = 100
    learning_rate: float = 1e-4
    warmup_steps: int = 100
    tokens: int = 4_096
    accumulation: int = 1
    max_length: int = 256
    bf16: bool = False
    seed: int = 0


def fine_tune(options: Options, *, resume: bool = False, force: bool = False) -> dict[str, Any]:
    """Train, save the best model, and return its scores on the validation set."""
    arguments = training_arguments(options)
    check_processes(arguments.world_size)
    check_folder(options.output, options.model, resume=resume, force=force)
    checkpoint = None
    if resume:
        checkpoint = last_whole_checkpoint(
            options.output, processes=arguments.world_size, is_adapter=options.lora
        )
    set_seed(options.seed)
    tokenizer, model = load(options.model, lora=options.lora)
    train = read_pairs(options.train, options.languages, tokenizer)
    trainer = TranslationTrainer(
        model,
        arguments,
        source_tokens=options.tokens,
        target_tokens=options.tokens,
        train_dataset=without_long(train, options.max_length),
        eval_dataset=read_pairs(options.validation, options.languages, tokenizer),
        processing_class=tokenizer,
        compute_metrics=partial(score, tokenizer=tokenizer),
    )
    if force:
        with arguments.main_process_first():
            clear_folder(options.output)
    trainer.train(resume_from_checkpoint=checkpoint and str(checkpoint))
    trainer.save_model()  # of LoRA the adapter alone: small, and loaded beside the model it changes
    scores: dict[str, Any] = trainer.evaluate()
    return scores


def training_arguments(options: Options) -> Seq2SeqTrainingArguments:
    """How the Trainer trains; the rest of its hundred settings stays as it is."""
    return Seq2SeqTrainingArguments(
        output_dir=str(options.output),
        max_steps=options.max_steps,
        learning_rate=options.learning_rate,
        warmup_steps=options.warmup_steps,
        gradient_accumulation_steps=options.accumulation,
        bf16=options.bf16,
        dataloader_pin_memory=torch.cuda.is_available(),
        seed=options.seed,
        # The model smooths labels itself, as its configuration says: in pieces, without the whole
        # batch's logits in memory, which the Trainer's own smoother would ask for.
        label_smoothing_factor=0.0,
        eval_strategy="steps",
        eval_steps=options.every_steps,
        per_device_eval_batch_size=32,
        predict_with_generate=True,
        save_steps=options.every_steps,
        save_total_limit=3,
        metric_for_best_model="chrf",  # BLEU is 0 where targets have under four words
        load_best_model_at_end=True,
        logging_steps=min(50, options.every_steps),
        logging_nan_inf_filter=False,  # else a loss of NaN would be logged as the last sound one
    )


def check_processes(seen: int) -> None:
    """Refuse processes that would not know of each other, and all write the same folder."""
    launched = int(os.environ.get("WORLD_SIZE", "1"))
    if launched != seen:
        raise ValueError(
            f"Processes must know of each other, got {launched} launched and {seen} seen by the "
            "Trainer: on CPUs set ACCELERATE_USE_CPU=true."
        )


def load(folder: Path, *, lora: bool) -> tuple[Any, Any]:
    """The tokenizer and the model in a folder, ready to be trained whole or by LoRA."""
    if not (folder / "config.json").is_file():
        raise ValueError(
            f"MODEL must be the folder of a saved model, got {folder}, without a config.json: "
            + (MERGING if (folder / ADAPTER).is_file() else way_to_a_model(folder))
        )
    tokenizer = load_tokenizer(str(folder))
    model = AutoModelForSeq2SeqLM.from_pretrained(
        folder.resolve(),  # adapters remember the place
        dtype=torch.float32,  # small steps would be lost on 16 bits
    )
    words = min(
        model.get_input_embeddings().num_embeddings, model.get_output_embeddings().out_features
    )
    if len(tokenizer) > words:
        raise ValueError(
            f"A tokenizer must know no more words than its model, got {len(tokenizer):,} and "
            f"{words:,} in {folder}: use the one that the model was trained with."
        )
    return tokenizer, with_adapter(model) if lora else model


def with_adapter(model: Any) -> Any:
    """The model with small matrices beside its own, which alone are trained."""
    present = {name.rpartition(".")[2] for name, _ in model.named_modules()}
    if lacking := [name for name in LORA_LAYERS if name not in present]:
        raise ValueError(
            f"LoRA is put beside {' and '.join(LORA_LAYERS)}, got {type(model).__name__} without "
            f"{' and '.join(lacking)}: name its own in LORA_LAYERS of training/finetune.py (T5's "
            "are q and v), or leave --lora out."
        )
    return get_peft_model(model, LORA)


def read_pairs(places: list[str], languages: Languages, tokenizer: Any) -> Dataset:
    """All pairs of some corpora as token ids: `input_ids` of the source, `labels` of the target."""
    corpora = find_corpora(places, languages)
    pairs = [pair for corpus in corpora for pair in corpus]
    for corpus in corpora:
        for fault in corpus.skipped.describe():
            logger.warning("%s: left out %s", corpus.name, fault)
    if not pairs:
        raise ValueError(f"A corpus must hold a pair of sentences, got none in {places}.")
    sources, targets = zip(*pairs, strict=True)
    return Dataset.from_dict({"source": sources, "target": targets}).map(
        lambda rows: tokenizer(rows["source"], text_target=rows["target"], verbose=False),
        batched=True,
        remove_columns=["source", "target"],
    )


def without_long(pairs: Dataset, max_length: int) -> Dataset:
    """The pairs of which no side has more tokens."""
    kept = pairs.filter(lambda row: max(len(row["input_ids"]), len(row["labels"])) <= max_length)
    if len(kept) < len(pairs):
        logger.warning("left out %d with over %d tokens", len(pairs) - len(kept), max_length)
    return kept


def score(prediction: EvalPrediction, tokenizer: Any) -> dict[str, Any]:
    """BLEU and chrF of detokenised text, with their signatures."""
    translations, references = (
        tokenizer.batch_decode(
            np.where(ids == IGNORED, tokenizer.pad_token_id, ids), skip_special_tokens=True
        )
        for ids in (prediction.predictions, prediction.label_ids)
    )
    metric = TranslationMetric(keep_in_memory=True)  # every process has gathered all translations
    scores: dict[str, Any] = metric.compute(predictions=translations, references=references)
    return scores


def main(  # noqa: PLR0913 - a parameter an option
    model: Annotated[Path, typer.Argument(help="Folder of a model, or en-de-small.")],
    train: Annotated[
        list[str],
        typer.Option(
            help="Corpus to learn from, may be repeated: .tsv, .jsonl (or .gz of them), a dataset; "
            "of two text files first the source, then the target."
        ),
    ],
    validation: Annotated[list[str], typer.Option(help="Corpus to score on; likewise.")],
    output: Annotated[Path, typer.Option(help="New folder for checkpoints and the best model.")],
    languages: Annotated[str, typer.Option(help="Source and target in .jsonl.")] = "en,de",
    lora: Annotated[bool, typer.Option("--lora", help="Train small additions only.")] = False,
    max_steps: Annotated[int, typer.Option(min=1)] = Options.max_steps,
    every_steps: Annotated[
        int, typer.Option(min=1, help="Steps between scores, and checkpoints.")
    ] = Options.every_steps,
    learning_rate: Annotated[
        float, typer.Option(help="Reached after the warm-up, then falling to 0. LoRA wants more.")
    ] = Options.learning_rate,
    warmup_steps: Annotated[int, typer.Option(min=0)] = Options.warmup_steps,
    tokens: Annotated[
        int, typer.Option(min=1, help="Of a batch on a process, on either side, with padding.")
    ] = Options.tokens,
    accumulation: Annotated[
        int, typer.Option(min=1, help="Batches a step.")
    ] = Options.accumulation,
    max_length: Annotated[
        int, typer.Option(min=1, help="Pairs with more tokens on a side are not learned from.")
    ] = Options.max_length,
    bf16: Annotated[bool, typer.Option("--bf16", help="Compute in bfloat16.")] = False,
    seed: Annotated[int, typer.Option(help="Of order and dropout.")] = Options.seed,
    resume: Annotated[bool, typer.Option("--resume", help="Go on in --output.")] = False,
    force: Annotated[bool, typer.Option("--force", help="Replace the model in --output.")] = False,
) -> None:
    """Fine-tune a model on parallel text."""
    with refusals():
        options = Options(
            model=Path(find_model(str(model))),
            train=train,
            validation=validation,
            output=output,
            languages=read_languages(languages),
            lora=lora,
            max_steps=max_steps,
            every_steps=every_steps,
            learning_rate=learning_rate,
            warmup_steps=warmup_steps,
            tokens=tokens,
            accumulation=accumulation,
            max_length=max_length,
            bf16=bf16,
            seed=seed,
        )
        try:
            scores = fine_tune(options, resume=resume, force=force)
        except KeyboardInterrupt:
            told = f"stopped: --resume goes on after the last checkpoint in {output}"
            raise SystemExit(told) from None
        if os.environ.get("RANK", "0") == "0":
            bleu, chrf = scores["eval_bleu"], scores["eval_chrf"]
            typer.echo(f"the best is in {output}: BLEU {bleu:.2f}, chrF {chrf:.2f} on validation")


if __name__ == "__main__":
    typer.run(main)
