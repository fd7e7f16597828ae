"""Proves that a folder needs nobody: read without this package, it computes what its model does."""

import json
import os
import signal
import subprocess
import sys
import tempfile
from pathlib import Path
from typing import Any

import torch
from safetensors.torch import load_file

from .pipeline_translation import TranslationPipeline

READER = Path(__file__).with_name("lone_reader.py")
TEXTS = ["Where is the train station?", "Two dogs are playing in the snow."]
TOLERANCE = {torch.float32: 1e-4}  # relative to the largest logit; kernels may differ in order
COARSE_TOLERANCE = 5e-2
SECONDS = 1_800
LINES_SHOWN = 3


def verify_folder(folder: Path, model: Any, tokenizer: Any) -> None:
    """Refuse a folder that does not load alone, or computes something else than the model."""
    expected = _logits_of(model, tokenizer)  # first: a model that cannot says why itself
    # Who draws words translates anew each time; that is settled here by taking the likeliest.
    decoding = {"do_sample": False} if model.generation_config.do_sample else {}
    logits, translations = _read_alone(folder, decoding)
    if logits.shape != expected.shape:
        raise ValueError(
            f"The folder must compute what the model does, got logits of {[*logits.shape]} instead "
            f"of {[*expected.shape]}: publish with the tokenizer that the model was trained with."
        )
    allowed = TOLERANCE.get(expected.dtype, COARSE_TOLERANCE) * expected.float().abs().max()
    difference = (logits.float() - expected.float()).abs().max()
    if not difference <= allowed:
        raise ValueError(
            f"The folder must compute what the model does, got logits that differ by "
            f"{difference:.3g}: {folder} is damaged, make it again."
        )
    ours = [
        record["translation_text"]
        for record in TranslationPipeline(model=model, tokenizer=tokenizer)(TEXTS, **decoding)
    ]
    if translations != ours:
        raise ValueError(
            f"The folder must translate as the model does, got {translations} instead of {ours}: "
            "save model and tokenizer again."
        )


def _logits_of(model: Any, tokenizer: Any) -> torch.Tensor:
    batch = tokenizer(TEXTS, return_tensors="pt", padding=True)
    inputs = {name: batch[name] for name in ("input_ids", "attention_mask")}
    targets = inputs["input_ids"].clamp(max=model.config.target_vocab_size - 1)
    with torch.no_grad():
        logits: torch.Tensor = model(**inputs, decoder_input_ids=targets).logits
    return logits


def _read_alone(folder: Path, decoding: dict[str, Any]) -> tuple[torch.Tensor, list[str]]:
    """What another process finds in the folder: offline, and without what this one has cached."""
    with tempfile.TemporaryDirectory() as scratch:
        logits = Path(scratch, "logits.safetensors")
        task = {
            "folder": str(folder.resolve()),
            "texts": TEXTS,
            "decoding": decoding,
            "logits": str(logits),
            "threads": torch.get_num_threads(),
            "path": [str(Path(place).resolve()) for place in sys.path if place],
        }
        translations = json.loads(_run_reader(task, scratch).strip().splitlines()[-1])
        return load_file(logits)["logits"], translations


def _run_reader(task: dict[str, Any], scratch: str) -> str:
    """What the other process prints; how it ended, if that was not well, is refused."""
    ours = {"HF_HUB_OFFLINE": "1", "HF_MODULES_CACHE": str(Path(scratch, "modules"))}
    try:
        finished = subprocess.run(
            [sys.executable, "-I", str(READER)],
            input=json.dumps(task),
            env=os.environ | ours,
            cwd=scratch,
            capture_output=True,
            text=True,
            encoding="utf-8",
            timeout=SECONDS,
            check=False,
        )
    except subprocess.TimeoutExpired as error:
        raise ValueError(
            f"The proof must end within {SECONDS:,} seconds, got none by then: publish where less "
            "else is running."
        ) from error
    if finished.returncode < 0:
        name = signal.strsignal(-finished.returncode) or "unknown"
        raise ValueError(
            f"The proof must come to its end, got signal {-finished.returncode} ({name}): it wants "
            "about as much memory as the model takes, beside what is in use."
        )
    if finished.returncode:
        said = " | ".join(finished.stderr.strip().splitlines()[-LINES_SHOWN:])
        raise ValueError(
            f"The folder must load without vanilla-transformer installed, got: {said}."
        )
    return finished.stdout
