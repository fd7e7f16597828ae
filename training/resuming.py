"""What a resumed run must find as it was, lest it be another run; other changes are told."""

import hashlib
import json
import logging
from pathlib import Path
from typing import Any

import yaml

from training.corpus import Tokenized
from training.model import resolved_section
from training.recipe import Recipe, flat

logger = logging.getLogger(__name__)

FIXED = {"seed", "batching.source_tokens", "batching.target_tokens"}  # which batches there are
PRESENT_OR_ABSENT = "optimization.ema_decay"  # a moving average is kept from the first step, or not


def compare_recipes(saved: Path, recipe: Recipe) -> None:
    """Warn of what changed since a recipe was saved; refuse what makes it another run."""
    values = yaml.safe_load(saved.read_text(encoding="utf-8"))
    values["model"] = resolved_section(values["model"])  # earlier versions saved it as written
    before = flat(values)
    now = flat(yaml.safe_load(recipe.to_yaml()))
    changed = [name for name in {**before, **now} if before.get(name) != now.get(name)]
    told = {name: f"{name}: {before.get(name)} -> {now.get(name)}" for name in changed}
    if fixed := [told[name] for name in changed if _is_fixed(name, before, now)]:
        raise ValueError(
            f"A resumed run must keep its model, batches and seed, got {'; '.join(fixed)}: take "
            "that back, or begin anew with another --output."
        )
    for line in told.values():
        logger.warning("%s", line)


def digest_of_texts(corpus: Tokenized, tokenizer: Any) -> str:
    """Other training pairs, weights or words give another digest."""
    digest = hashlib.sha256(corpus.report.digest.encode())
    if corpus.weights is not None:
        digest.update(corpus.weights.tobytes())
    digest.update(json.dumps(sorted(tokenizer.get_vocab().items())).encode())
    return digest.hexdigest()


def compare_texts(before: str, now: str) -> None:
    """Refuse to go on in the middle of other texts."""
    if before != now:
        raise ValueError(
            "A resumed run must find the training pairs and the words of the tokenizer that it "
            "began with, got others: restore the corpus section and its files, or begin anew with "
            "another --output."
        )


def _is_fixed(name: str, before: dict[str, Any], now: dict[str, Any]) -> bool:
    if name == PRESENT_OR_ABSENT:
        return not before.get(name) or not now.get(name)
    return name in FIXED or (name.startswith("model.") and "dropout" not in name)
