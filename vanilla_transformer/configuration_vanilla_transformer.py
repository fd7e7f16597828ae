"""Every hyper-parameter of "Attention Is All You Need", and its default.

The defaults are the paper's base model; `from_paper("C-3")` is any other row of its Table 3.
Wrong values are refused at construction, all reasons at once.
"""

import copy
from dataclasses import fields
from os import PathLike
from typing import Any, ClassVar, Literal, Self

from huggingface_hub.dataclasses import strict
from huggingface_hub.errors import StrictDataclassError
from transformers import PreTrainedConfig

from .configuration_rules import (
    name_reasons,
    nearest,
    refuse,
    shown,
    value_reasons,
    warn_of_misspelt_names,
)
from .translation_tasks import TRANSLATION, FolderPipelines

AttentionScore = Literal[
    "scaled_dot_product", "dot_product", "general", "additive", "cosine", "location"
]
PositionEncoding = Literal["sinusoidal", "learned"]


@strict
class VanillaTransformerConfig(PreTrainedConfig):
    """The shape of a Transformer as in 2017; without arguments, the base model."""

    model_type = "vanilla_transformer"
    keys_to_ignore_at_inference = ["past_key_values"]
    attribute_map = {
        "hidden_size": "d_model",
        "num_attention_heads": "encoder_attention_heads",
        "num_hidden_layers": "encoder_layers",
    }
    # Both stacks and the model share this configuration: the plans stand on their classes.
    base_model_tp_plan: ClassVar[dict[str, Any]] = {}
    # True where the package is imported: its pipeline is taken, not the one that a folder carries.
    hides_pipelines: ClassVar[bool] = False

    vocab_size: int = 37000
    decoder_vocab_size: int | None = None  # None: one vocabulary for source and target
    share_encoder_decoder_embeddings: bool = True  # 3.4: source, target ...
    tie_word_embeddings: bool = True  # ... and the projection before the softmax are one matrix
    scale_embedding: bool = True  # 3.4: embeddings times sqrt(d_model)
    d_model: int = 512
    encoder_layers: int = 6  # the paper's N, for each stack
    decoder_layers: int = 6
    encoder_attention_heads: int = 8  # the paper's h
    decoder_attention_heads: int = 8
    d_k: int | None = None  # None: d_model / heads
    d_v: int | None = None
    encoder_ffn_dim: int = 2048  # the paper's d_ff
    decoder_ffn_dim: int = 2048
    activation_function: str = "relu"
    dropout: float | int = 0.1  # 5.4: on sub-layer outputs, and on embeddings plus positions
    attention_dropout: float | int = 0.0
    activation_dropout: float | int = 0.0
    label_smoothing: float | int = 0.1
    attention_score: AttentionScore = "scaled_dot_product"
    attention_window: int | None = None  # section 4: words seen to either side; None: all of them
    position_encoding: PositionEncoding = "sinusoidal"
    max_position_embeddings: int = 1024  # a table only for learned positions and location scores
    use_cache: bool = True
    is_encoder_decoder: bool = True
    pad_token_id: int | None = 0
    bos_token_id: int | None = 1
    eos_token_id: int | list[int] | None = 2
    decoder_start_token_id: int = 1

    def __new__(cls, /, *positional: object, **values: Any) -> Self:
        # The library stops at the first wrong type, in __init__: all reasons are collected before.
        if not values:  # sound defaults, or a copy that gets its values afterwards
            return super().__new__(cls)
        given = {cls.attribute_map.get(name, name): value for name, value in values.items()}
        defaults = {field.name: field.default for field in fields(cls)}
        refuse([*name_reasons(cls, given), *value_reasons(cls, {**defaults, **given})])
        warn_of_misspelt_names(cls, given)
        return super().__new__(cls)

    def __post_init__(self, **kwargs: Any) -> None:
        kwargs.pop("model_type", None)  # it belongs to the class; a second copy broke equality
        super().__post_init__(**kwargs)

    def to_dict(self) -> dict[str, Any]:
        """All values, and the pipelines that the folder carries."""
        values = super().to_dict()
        if hidden := values.pop("_hidden_pipelines", None):
            values["custom_pipelines"] = {**values.get("custom_pipelines", {}), **hidden}
        return values

    @classmethod
    def from_paper(cls, name: str, **overrides: Any) -> Self:
        """Build a row of Table 3, as in `from_paper("C-3", vocab_size=32000)`."""
        if name not in TABLE_3:
            raise ValueError(
                f"name must be a row of the paper's Table 3 ({', '.join(TABLE_3)}), "
                f"got {shown(name)}: did you mean {nearest(str(name), TABLE_3)!r}?"
            )
        config = cls(**{**TABLE_3[name], **overrides})
        known = {field.name for field in fields(cls)} | cls.attribute_map.keys()
        refuse(
            f"overrides must be fields of the configuration, got {shown(override)}: "
            f"did you mean {nearest(override, known)!r}?"
            for override in overrides
            if override not in known
        )
        return config

    @classmethod
    def from_dict(cls, config_dict: dict[str, Any], **kwargs: Any) -> Self:
        """Read a saved configuration; values given beside it are checked together with it."""
        own = {field.name for field in fields(cls)} - {"dtype"} | cls.attribute_map.keys()
        given = {name: kwargs.pop(name) for name in own & kwargs.keys()}
        pipelines = config_dict.get("custom_pipelines")
        if isinstance(pipelines, dict) and TRANSLATION in pipelines:
            given["custom_pipelines"] = pipelines = FolderPipelines(pipelines)
            if cls.hides_pipelines:
                given["_hidden_pipelines"] = {TRANSLATION: pipelines.pop(TRANSLATION)}
        try:
            return super().from_dict({**config_dict, **given}, **kwargs)
        except (StrictDataclassError, LookupError, TypeError, AttributeError) as error:
            raise ValueError(f"this configuration cannot be read: {error!r}") from error

    @classmethod
    def _dict_from_json_file(cls, json_file: str | PathLike[str]) -> dict[str, Any]:
        try:
            values = super()._dict_from_json_file(json_file)
        except RecursionError as error:
            raise ValueError(f"{json_file} is nested too deep for a configuration.") from error
        if not isinstance(values, dict):
            raise ValueError(f"{json_file} must hold a JSON object, got {shown(values)}.")
        return values

    def validate_values(self) -> None:
        """Check again what was assigned since, as the library does on saving."""
        values = {field.name: getattr(self, field.name) for field in fields(self)}
        refuse([*value_reasons(type(self), values)])

    def get_text_config(self, decoder: bool | None = None, encoder: bool | None = None) -> Self:
        """Give the library's view of one stack, in which its fields have lost their prefix."""
        if not decoder or encoder or self.decoder_vocab_size is not None:
            return super().get_text_config(decoder=decoder, encoder=encoder)
        filled = copy.copy(self)
        filled.decoder_vocab_size = self.vocab_size  # else None would become the vocab_size
        return super(VanillaTransformerConfig, filled).get_text_config(decoder=True)

    @property
    def target_vocab_size(self) -> int:
        """Number of words that the decoder reads and writes."""
        return self.decoder_vocab_size or self.vocab_size

    def head_widths(self, num_heads: int) -> tuple[int, int]:
        """Widths of one head's keys and values, the paper's d_k and d_v."""
        return self.d_k or self.d_model // num_heads, self.d_v or self.d_model // num_heads


def _both(**values: int) -> dict[str, Any]:
    """Repeat for both stacks: layers=2 -> {"encoder_layers": 2, "decoder_layers": 2}."""
    return {
        f"{stack}_{name}": size for stack in ("encoder", "decoder") for name, size in values.items()
    }


# Differences from the base model, in the order of the paper's Table 3. Where d_k and d_v are not
# named they are d_model / heads, as the table prints them too.
TABLE_3: dict[str, dict[str, Any]] = {
    "base": {},
    "A-1": _both(attention_heads=1),
    "A-2": _both(attention_heads=4),
    "A-3": _both(attention_heads=16),
    "A-4": _both(attention_heads=32),
    "B-1": {"d_k": 16},
    "B-2": {"d_k": 32},
    "C-1": _both(layers=2),
    "C-2": _both(layers=4),
    "C-3": _both(layers=8),
    "C-4": {"d_model": 256},
    "C-5": {"d_model": 1024},
    "C-6": _both(ffn_dim=1024),
    "C-7": _both(ffn_dim=4096),
    "D-1": {"dropout": 0.0},
    "D-2": {"dropout": 0.2},
    "D-3": {"label_smoothing": 0.0},
    "D-4": {"label_smoothing": 0.2},
    "E": {"position_encoding": "learned"},
    "big": {"d_model": 1024, "dropout": 0.3} | _both(attention_heads=16, ffn_dim=4096),
}

__all__ = ["VanillaTransformerConfig"]
