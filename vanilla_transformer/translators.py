"""Loads a translator by folder or name, embedded or on the Hub. An adapter joins its base model."""

import re
from pathlib import Path
from typing import Any, Literal

import torch
from safetensors import SafetensorError
from transformers import AutoModelForSeq2SeqLM, AutoTokenizer

from .embedded_models import find_model
from .pipeline_translation import TranslationPipeline

ADAPTER = "adapter_config.json"
HUB_NAME = re.compile(r"\w[\w.-]*(/\w[\w.-]*)?")

# What damaged files end in where the library reads them, beside errors that say it themselves.
DAMAGE = (RuntimeError, SafetensorError, TypeError, LookupError, AttributeError)

Precision = Literal["bfloat16", "float32", "int8"]


def load_translator(
    model: str, precision: Precision = "float32", device: Any = None
) -> TranslationPipeline:
    """The pipeline of a folder, an embedded model or a Hub name."""
    model = find_model(model)
    tokenizer = load_tokenizer(model)
    loaded = load_model(model, torch.bfloat16 if precision == "bfloat16" else torch.float32)
    if precision == "int8":
        if not hasattr(loaded, "to_int8"):
            raise ValueError(
                f"dtype int8 needs a vanilla-transformer model, got {type(loaded).__name__}: use "
                "float32 or bfloat16."
            )
        loaded, device = loaded.to_int8(), "cpu"
    elif device is not None:
        loaded = loaded.to(device)
    return TranslationPipeline(model=loaded, tokenizer=tokenizer, device=device)


def load_tokenizer(model: str) -> Any:
    """The tokenizer of a folder or Hub name; what is neither is refused without asking the Hub."""
    folder = Path(model)
    is_folder = any((folder / name).is_file() for name in ("config.json", ADAPTER))
    if not is_folder and (folder.exists() or not HUB_NAME.fullmatch(model)):
        raise ValueError(
            f"model must be a folder with a config.json or a name on the Hub, got {model!r}: "
            + way_to_a_model(folder)
        )
    try:
        return AutoTokenizer.from_pretrained(model)
    except (OSError, ValueError, *DAMAGE) as error:
        way_out = "save one there with tokenizer.save_pretrained" if is_folder else "no such folder"
        said = _reason_of(error)
        raise ValueError(f"{model} must hold a tokenizer ({way_out}), got: {said}") from error


def way_to_a_model(folder: Path) -> str:
    """What to do with a folder that was taken for a model's and is none."""
    if (folder / "model" / "config.json").is_file():
        return f"did you mean {str(folder / 'model')!r}?"
    return "model.save_pretrained and tokenizer.save_pretrained make such a folder."


def load_model(model: str, dtype: torch.dtype | Literal["auto"]) -> Any:
    """The model of a folder or Hub name; with an adapter's folder its base model, changed by it."""
    load = _load_merged if Path(model, ADAPTER).is_file() else AutoModelForSeq2SeqLM.from_pretrained
    try:
        return load(model, dtype=dtype).eval()
    except DAMAGE as error:
        said = _reason_of(error)
        raise ValueError(f"{model} must hold a model that can be loaded, got: {said}") from error


def _reason_of(error: Exception) -> str:
    """What an error says; of a TypeError or its like, which were not meant for users, its name."""
    is_sentence = isinstance(error, OSError | ValueError | RuntimeError | SafetensorError)
    return str(error) if is_sentence else repr(error)


def _load_merged(adapter: str, **kwargs: Any) -> Any:
    try:
        from peft import AutoPeftModelForSeq2SeqLM
    except ImportError as error:
        raise ValueError(
            f"{adapter} holds an adapter, which needs peft: pip install peft"
        ) from error
    return AutoPeftModelForSeq2SeqLM.from_pretrained(adapter, **kwargs).merge_and_unload()
