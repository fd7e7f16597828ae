"""What a saved folder must hold: its code by name, and weights that are whole, fitting, no pickles.

The library names only one class in a folder. It warns, and goes on with random numbers, where
weights are missing, and reads pickles, which can run code, where it finds no safetensors.
"""

import copy
import json
from collections.abc import Callable, Collection, Iterator
from os import PathLike
from pathlib import Path
from typing import TYPE_CHECKING, Any, ClassVar, Self

from transformers import PreTrainedModel

from .configuration_rules import refuse

if TYPE_CHECKING:  # the library copies into a folder what it sees imported here
    from .pipeline_translation import TranslationPipeline  # noqa: F401  # needed only over there

OUR_PARTS = {"shared", "encoder", "decoder", "lm_head"}
AUTO_MAP = {
    "AutoModel": "modeling_vanilla_transformer.VanillaTransformerModel",
    "AutoModelForSeq2SeqLM": (
        "modeling_vanilla_transformer.VanillaTransformerForConditionalGeneration"
    ),
}
CUSTOM_PIPELINES = {
    "translation": {
        "impl": "pipeline_translation.TranslationPipeline",
        "pt": ["AutoModelForSeq2SeqLM"],
        "type": "text",
    }
}
LOAD_ANYWAY = "pass output_loading_info=True to load it all the same, with a report"
NAMES_SHOWN = 5
BLANK = "[More Information Needed]"  # in the form that the library gives out as a model card


class SavedFolderModel(PreTrainedModel):
    """A model that is strict about the folders it loads from, and complete in those it saves."""

    # Of a model and its repository; the package sets it, so folders read without it have none.
    write_card: ClassVar[Callable[[PreTrainedModel, str], str] | None] = None

    @classmethod
    def from_pretrained(
        cls,
        pretrained_model_name_or_path: str | PathLike[str] | None,
        *model_args: Any,
        output_loading_info: bool = False,
        ignore_mismatched_sizes: bool = False,
        **kwargs: Any,
    ) -> Self | tuple[Self, dict[str, Any]]:
        """Load safetensors that are complete and fit; refuse all others, unless asked for them."""
        if kwargs.get("use_safetensors") is None:  # False: the caller trusts a pickle
            kwargs["use_safetensors"] = True
            if pretrained_model_name_or_path is not None:
                folder = Path(pretrained_model_name_or_path, kwargs.get("subfolder") or "")
                _refuse_unsafe(folder, kwargs.get("variant"))
        try:
            model, report = super().from_pretrained(
                pretrained_model_name_or_path,
                *model_args,
                output_loading_info=True,
                ignore_mismatched_sizes=True,
                **kwargs,
            )
        except Exception as error:
            if type(error).__name__ != "SafetensorError":  # of a package the shelf cannot import
                raise
            raise _broken(pretrained_model_name_or_path, str(error)) from error
        begins_anew = kwargs.get("state_dict") == {}  # the library's way to ask for fresh weights
        if not output_loading_info and not begins_anew:
            refuse([*_incomplete(cls, report)])
        if not ignore_mismatched_sizes:
            refuse([*_misshaped(report)])
        return (model, report) if output_loading_info else model

    def save_pretrained(
        self, save_directory: str | PathLike[str], *args: Any, **kwargs: Any
    ) -> None:
        """Save the folder, and in it the names by which the library finds its code."""
        if self.is_remote_code():
            config = self.config
            pipelines = "_hidden_pipelines" if config.hides_pipelines else "custom_pipelines"
            for name, ours in (("auto_map", AUTO_MAP), (pipelines, CUSTOM_PIPELINES)):
                known = getattr(config, name, None) or {}
                setattr(config, name, {**known, **copy.deepcopy(ours)})
        super().save_pretrained(save_directory, *args, **kwargs)

    def _upload_modified_files(
        self, working_dir: str | PathLike[str], repo_id: str, *args: Any, **kwargs: Any
    ) -> Any:
        """Push a card of this model instead of a blank form; a card that says something stays."""
        card = Path(working_dir, "README.md")
        write_card = type(self).write_card
        if write_card and card.is_file() and BLANK in card.read_text(encoding="utf-8"):
            card.write_text(write_card(self, repo_id), encoding="utf-8")
        return super()._upload_modified_files(working_dir, repo_id, *args, **kwargs)


def _refuse_unsafe(source: Path, variant: str | None) -> None:
    """Refuse a file, or the files a folder's weights are in, if they are not safetensors."""
    ending = f".{variant}" if variant else ""
    whole, index = f"model{ending}.safetensors", f"model.safetensors.index{ending}.json"
    files: Collection[str] = [source.name] if source.is_file() else []
    if (source / index).is_file() and not (source / whole).is_file():
        files = _parts_of(source / index)
    elif source.is_dir() and not any(source.glob("model*.safetensors")):
        files = [file.name for file in source.glob("pytorch_model*.bin")]
    pickles = [file for file in files if not file.endswith(".safetensors")]
    if pickles:
        raise ValueError(
            f"weights must be safetensors, got {_some(pickles)}: a pickle can run code. Convert it "
            "(load with use_safetensors=False if you trust its maker, then save_pretrained)."
        )


def _parts_of(index: Path) -> set[str]:
    try:
        content = json.loads(index.read_text(encoding="utf-8"))
        parts = {str(part) for part in content["weight_map"].values()}
        absent = [part for part in parts if not (index.parent / part).is_file()]
    except (ValueError, LookupError, TypeError, AttributeError) as error:
        raise _broken(index, repr(error)) from error
    if absent or "metadata" not in content:
        raise _broken(index, f"{_some(absent) or 'its metadata'} not found")
    return parts


def _broken(source: object, reason: str) -> ValueError:
    return ValueError(
        f"weights must be whole safetensors, got {source}, where reading stopped with: {reason}: "
        "download or save them again."
    )


def _incomplete(cls: type[PreTrainedModel], report: dict[str, Any]) -> Iterator[str]:
    # A head that somebody adds begins at random, as it does everywhere in the library.
    missing = [name for name in report["missing_keys"] if _part(name) in OUR_PARTS]
    if missing:
        yield (
            f"weights of {cls.__name__} must be complete, got none for {_some(missing)}: "
            f"save the whole model again, or {LOAD_ANYWAY}."
        )
    if unexpected := report["unexpected_keys"]:
        yield (
            f"weights must all belong to {cls.__name__}, got also {_some(unexpected)}: "
            f"load them with the class that saved them, or {LOAD_ANYWAY}."
        )


def _misshaped(report: dict[str, Any]) -> Iterator[str]:
    shapes = [
        f"{name} {[*saved]} instead of {[*wanted]}"
        for name, saved, wanted in report["mismatched_keys"]
    ]
    if shapes:
        yield (
            f"weights must have the shapes of the configuration, got {_some(shapes)}: use the "
            "configuration they were saved with, or pass ignore_mismatched_sizes=True to begin "
            "those anew."
        )


def _part(name: str) -> str:
    return name.removeprefix("model.").split(".")[0]


def _some(names: Collection[str]) -> str:
    """Name a few: {"c", "a", "b"} -> "a, b, c", with a count of those left out."""
    shown = ", ".join(sorted(names)[:NAMES_SHOWN])
    return f"{shown} and {len(names) - NAMES_SHOWN} more" if len(names) > NAMES_SHOWN else shown
