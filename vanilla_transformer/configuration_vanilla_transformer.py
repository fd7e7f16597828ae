"""Every hyper-parameter of "Attention Is All You Need", its default and its validation.

The defaults are the paper's base model; `from_paper("C-3")` is any other row of its Table 3.
Wrong values are refused at construction, all reasons at once: foreign names, wrong types, broken
rules.
"""

import copy
import inspect
import reprlib
from collections.abc import Callable, Iterable, Iterator
from dataclasses import fields
from difflib import get_close_matches
from os import PathLike
from typing import Any, ClassVar, Literal, NamedTuple, Self, get_args, get_origin

import torch
from huggingface_hub.dataclasses import strict, type_validator
from huggingface_hub.errors import StrictDataclassError
from transformers import PreTrainedConfig
from transformers.activations import ACT2FN

AttentionScore = Literal[
    "scaled_dot_product", "dot_product", "general", "additive", "cosine", "location"
]
PositionEncoding = Literal["sinusoidal", "learned"]

EAGER_SCORES = ("additive", "location")  # not dot products: no fused kernel computes them
LARGEST_SIZE = 2**24
MOST_LAYERS = 2**12
MOST_LABELS = 2**16
MOST_WEIGHTS = 2**40  # of the embeddings, or of one stack: 4 TB in float32
DEEPEST_NESTING = 32

# Closed choices that no annotation below can spell, and what the library keeps without a check.
OTHER_TYPES: dict[str, Any] = {
    "model_type": Literal["vanilla_transformer"],
    "is_encoder_decoder": Literal[True],
    "activation_function": Literal[tuple(ACT2FN)],
    "architectures": list[str] | None,
    "attn_implementation": str | dict | None,
    "num_labels": int | None,
    **dict.fromkeys(("auto_map", "custom_pipelines", "id2label", "label2id"), dict | None),
    **dict.fromkeys(("dtype", "torch_dtype"), str | torch.dtype | None),
    **dict.fromkeys(("name_or_path", "_name_or_path", "transformers_version"), str | None),
    **dict.fromkeys(("output_attentions", "output_hidden_states", "return_dict"), bool | None),
}

# Names by which the library would attend, cache or look for values in another way than this model.
FOREIGN_NAMES = (
    *("decoder", "generator", "text_config", "text_encoder", "per_layer_config"),
    *("attention_chunk_size", "is_causal", "layer_types", "mlp_layer_types", "sliding_window"),
    *("rope_parameters", "rope_scaling", "rope_theta", "self"),
    *("_attn_implementation", "_heterogeneity_spec", "_output_attentions"),
)


class Rule(NamedTuple):
    """What the values it reads must fulfil; `says` is the reason, with the values in braces."""

    reads: tuple[str, ...]
    holds: Callable[..., bool]
    says: str


def _each(*names: str, holds: Callable[[Any], bool], must_be: str) -> list[Rule]:
    ending = "leave it out for the default."
    return [
        Rule((name,), holds, f"{name} must be {must_be}, got {{{name}}}: {ending}")
        for name in names
    ]


def _within(lowest: int, highest: int, *names: str) -> list[Rule]:
    return _each(
        *names,
        holds=lambda size: size is None or lowest <= size <= highest,
        must_be=f"from {lowest} to {highest:,}",
    )


def _token_ids(*names: str, size: Callable[[int, int], int], of: str) -> list[Rule]:
    return [
        Rule(
            (name, "vocab_size", "decoder_vocab_size"),
            lambda ids, source, target: all(
                0 <= index < size(source, target or source) for index in _listed(ids)
            ),
            f"{name} must be at least 0 and below the size of {of}, got {{{name}}} with "
            "vocab_size={vocab_size} and decoder_vocab_size={decoder_vocab_size}: "
            "take ids and sizes from the tokenizer.",
        )
        for name in names
    ]


def _stack(stack: str) -> list[Rule]:
    heads, layers, ffn_dim = f"{stack}_attention_heads", f"{stack}_layers", f"{stack}_ffn_dim"
    return [
        Rule(
            ("d_model", heads, "d_k", "d_v"),
            lambda width, num_heads, d_k, d_v: None not in (d_k, d_v) or width % num_heads == 0,
            f"d_model must be divisible by {heads} when d_k or d_v is not set, got {{d_model}} and "
            f"{{{heads}}}: choose heads that divide d_model, or set d_k and d_v.",
        ),
        Rule(
            ("d_model", layers, heads, ffn_dim, "d_k", "d_v"),
            lambda width, depth, num_heads, ffn, d_k, d_v: (
                2 * depth * width * (num_heads * ((d_k or 0) + (d_v or 0)) + width + ffn)
                <= MOST_WEIGHTS
            ),
            f"the {stack} must have at most {MOST_WEIGHTS:,} weights (4 TB in float32), got "
            f"{{d_model}} wide, {{{layers}}} layers, {{{heads}}} heads of {{d_k}} and {{d_v}}, "
            f"{ffn_dim}={{{ffn_dim}}}: choose smaller sizes.",
        ),
    ]


def _listed(ids: int | list[int] | None) -> list[int]:
    return ids if isinstance(ids, list) else [] if ids is None else [ids]


def _is_eager(asked: str | dict[str, str] | None) -> bool:
    return (asked.get("") if isinstance(asked, dict) else asked) in (None, "eager")


def _is_dtype(value: str | torch.dtype | None) -> bool:
    named = getattr(torch, value, None) if isinstance(value, str) else value
    return value is None or isinstance(named, torch.dtype)


RULES = (
    *_within(1, LARGEST_SIZE, "vocab_size", "decoder_vocab_size", "d_model", "d_k", "d_v"),
    *_within(1, LARGEST_SIZE, "encoder_attention_heads", "decoder_attention_heads"),
    *_within(1, LARGEST_SIZE, "encoder_ffn_dim", "decoder_ffn_dim"),
    *_within(1, LARGEST_SIZE, "max_position_embeddings", "attention_window"),
    *_within(1, MOST_LAYERS, "encoder_layers", "decoder_layers"),
    *_within(1, MOST_LABELS, "num_labels"),
    *_each(
        *("dropout", "attention_dropout", "activation_dropout", "label_smoothing"),
        holds=lambda fraction: 0 <= fraction < 1,
        must_be="at least 0 and below 1",
    ),
    *_each("dtype", "torch_dtype", holds=_is_dtype, must_be="a torch dtype such as 'bfloat16'"),
    *_stack("encoder"),
    *_stack("decoder"),
    Rule(
        ("d_model", "vocab_size", "decoder_vocab_size", "max_position_embeddings"),
        lambda width, *lengths: width * sum(filter(None, lengths)) <= MOST_WEIGHTS,
        f"the embeddings must have at most {MOST_WEIGHTS:,} weights (4 TB in float32), got "
        "{d_model} wide, {vocab_size} + {decoder_vocab_size} words, {max_position_embeddings} "
        "positions: choose smaller sizes.",
    ),
    Rule(
        ("d_model", "position_encoding"),
        lambda width, encoding: encoding != "sinusoidal" or width % 2 == 0,
        "d_model must be even for sinusoidal positions, which are pairs of sine and cosine, got "
        "{d_model}: choose an even d_model, or position_encoding='learned'.",
    ),
    Rule(
        ("share_encoder_decoder_embeddings", "decoder_vocab_size"),
        lambda is_shared, size: not is_shared or size is None,
        "decoder_vocab_size must stay None with share_encoder_decoder_embeddings=True, got "
        "{decoder_vocab_size}: set share_encoder_decoder_embeddings=False for two vocabularies.",
    ),
    *_token_ids("pad_token_id", "eos_token_id", size=min, of="both vocabularies"),
    *_token_ids(
        *("bos_token_id", "decoder_start_token_id"),
        size=lambda source, target: target,
        of="the target vocabulary",
    ),
    Rule(
        ("pad_token_id", "eos_token_id"),
        lambda pad, eos: pad not in _listed(eos),
        "pad_token_id must differ from eos_token_id, or ends of sentences would pass for padding, "
        "got {pad_token_id} and {eos_token_id}: give padding an id of its own.",
    ),
    Rule(
        ("attention_score", "attn_implementation"),
        lambda score, asked: score not in EAGER_SCORES or _is_eager(asked),
        "attention_score={attention_score} needs attn_implementation='eager', "
        "got {attn_implementation}.",
    ),
)


def _name_reasons(cls: type[PreTrainedConfig], values: dict[str, Any]) -> Iterator[str]:
    """Refuse names that would replace a part of the class, and values too deep to copy."""
    known = {field.name for field in fields(cls)} | OTHER_TYPES.keys()
    for name, value in values.items():
        part = None if name in known else inspect.getattr_static(cls, name, None)
        is_settable = part is None or getattr(part, "fset", None) is not None
        if name.startswith("__") or name in FOREIGN_NAMES or not is_settable:
            yield f"{_shown(name)} is no value of this configuration: remove it."
        elif not _is_shallow(value):
            yield f"{_shown(name)} must be nested at most {DEEPEST_NESTING} deep: remove it."


def _is_shallow(value: object) -> bool:
    level = [value]
    for _ in range(DEEPEST_NESTING):
        level = [
            inner
            for outer in level
            if isinstance(outer, dict | list | tuple)
            for inner in (outer.values() if isinstance(outer, dict) else outer)
        ]
    return not level


def _value_reasons(cls: type[PreTrainedConfig], values: dict[str, Any]) -> Iterator[str]:
    """Check every type, then the rules that read only values of the right type."""
    sound, shown = set(), {name: _shown(value) for name, value in values.items()}
    for name, kind in ({field.name: field.type for field in fields(cls)} | OTHER_TYPES).items():
        if name not in values:
            continue
        if _has_type(values[name], kind):
            sound.add(name)
        else:
            advice = _advice(values[name], kind)
            yield f"{name} must be {_spelled(kind)}, got {shown[name]}: {advice}"
    for rule in RULES:
        if sound.issuperset(rule.reads) and not rule.holds(*(values[name] for name in rule.reads)):
            yield rule.says.format(**shown)
            if len(rule.reads) == 1:  # a wrong value says nothing about its relations
                sound.remove(*rule.reads)


def _has_type(value: object, kind: Any) -> bool:  # noqa: ANN401 - annotations have no common type
    try:
        type_validator("", value, kind)
    except TypeError:
        return False
    return True


def _spelled(kind: Any) -> str:  # noqa: ANN401
    """Spell an annotation: `int | None`, or the choices of a Literal."""
    if get_origin(kind) is Literal:
        choices = ", ".join(map(repr, get_args(kind)))
        return f"one of {choices}" if len(get_args(kind)) > 1 else choices
    return kind.__name__ if isinstance(kind, type) else str(kind)


def _advice(value: object, kind: Any) -> str:  # noqa: ANN401
    if get_origin(kind) is Literal and isinstance(value, str):
        return f"did you mean {_nearest(value, get_args(kind))!r}?"
    return "leave it out for the default."


def _nearest(name: str, choices: Iterable[object]) -> str:
    return get_close_matches(name[:64], map(str, choices), n=1, cutoff=0.0)[0]


def _shown(value: object) -> str:
    if isinstance(value, int) and value.bit_length() > 128:
        return f"an integer of {value.bit_length()} bits"  # Python refuses to print 4,300 digits
    return reprlib.repr(value)


def _refuse(reasons: list[str]) -> None:
    if reasons:
        raise ValueError("\n".join(reasons))


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

    def __new__(cls, /, *positional: object, **values: Any) -> Self:  # noqa: ANN401 - judged here
        # The library stops at the first wrong type, in __init__: all reasons are collected before.
        if not values:  # sound defaults, or a copy that gets its values afterwards
            return super().__new__(cls)
        given = {cls.attribute_map.get(name, name): value for name, value in values.items()}
        defaults = {field.name: field.default for field in fields(cls)}
        _refuse([*_name_reasons(cls, given), *_value_reasons(cls, {**defaults, **given})])
        return super().__new__(cls)

    def __post_init__(self, **kwargs: Any) -> None:  # noqa: ANN401 - the library's signature
        kwargs.pop("model_type", None)  # it belongs to the class; a second copy broke equality
        super().__post_init__(**kwargs)

    @classmethod
    def from_paper(cls, name: str, **overrides: Any) -> Self:  # noqa: ANN401 - any field's value
        """Build a row of Table 3, as in `from_paper("C-3", vocab_size=32000)`."""
        if name not in TABLE_3:
            raise ValueError(
                f"name must be a row of the paper's Table 3 ({', '.join(TABLE_3)}), "
                f"got {_shown(name)}: did you mean {_nearest(str(name), TABLE_3)!r}?"
            )
        return cls(**{**TABLE_3[name], **overrides})

    @classmethod
    def from_dict(cls, config_dict: dict[str, Any], **kwargs: Any) -> Self:  # noqa: ANN401
        """Read a saved configuration; values given beside it are checked together with it."""
        own = {field.name for field in fields(cls)} - {"dtype"} | cls.attribute_map.keys()
        given = {name: kwargs.pop(name) for name in own & kwargs.keys()}
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
            raise ValueError(f"{json_file} must hold a JSON object, got {_shown(values)}.")
        return values

    def validate_values(self) -> None:
        """Check again what was assigned since, as the library does on saving."""
        values = {field.name: getattr(self, field.name) for field in fields(self)}
        _refuse([*_value_reasons(type(self), values)])

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
