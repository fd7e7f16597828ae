"""What a configuration may hold: types, names and rules, and the sentences that refuse the rest.

The configuration asks here before anything is set, so that all reasons are given at once.
"""

import inspect
import reprlib
from collections.abc import Callable, Iterable, Iterator
from dataclasses import fields
from difflib import get_close_matches
from os import PathLike
from typing import Any, Literal, NamedTuple, cast, get_args, get_origin

import torch
import transformers
from huggingface_hub.dataclasses import type_validator
from transformers import PreTrainedConfig

logger = transformers.utils.logging.get_logger(__name__)

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
    "architectures": list[str] | None,
    "attn_implementation": str | dict | None,
    "num_labels": int | None,
    **dict.fromkeys(("auto_map", "custom_pipelines", "id2label", "label2id"), dict | None),
    **dict.fromkeys(("dtype", "torch_dtype"), str | torch.dtype | None),
    **dict.fromkeys(("name_or_path", "_name_or_path"), str | PathLike | None),
    "transformers_version": str | None,
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


def name_reasons(cls: type[PreTrainedConfig], values: dict[str, Any]) -> Iterator[str]:
    """Refuse names that would replace a part of the class, and values too deep to copy."""
    known = {field.name for field in fields(cls)} | OTHER_TYPES.keys()
    for name, value in values.items():
        part = None if name in known else inspect.getattr_static(cls, name, None)
        is_settable = part is None or getattr(part, "fset", None) is not None
        if name.startswith("__") or name in FOREIGN_NAMES or not is_settable:
            yield f"{shown(name)} is no value of this configuration: remove it."
        elif not _is_shallow(value):
            yield f"{shown(name)} must be nested at most {DEEPEST_NESTING} deep: remove it."


def warn_of_misspelt_names(cls: type[PreTrainedConfig], values: dict[str, Any]) -> None:
    """Say which unknown names look like one of ours; the library keeps them, and uses none."""
    known = [field.name for field in fields(cls)]
    for name in values.keys() - known - OTHER_TYPES.keys():
        if close := get_close_matches(name[:64], known, n=1, cutoff=0.85):
            logger.warning_once(f"{name!r} is kept but unused: did you mean {close[0]!r}?")


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


def value_reasons(cls: type[PreTrainedConfig], values: dict[str, Any]) -> Iterator[str]:
    """Check every type, then the rules that read only values of the right type."""
    sound, received = set(), {name: shown(value) for name, value in values.items()}
    for name, kind in _types(cls).items():
        if name not in values:
            continue
        if _has_type(values[name], kind):
            sound.add(name)
        else:
            advice = _advice(values[name], kind)
            yield f"{name} must be {_spelled(kind)}, got {received[name]}: {advice}"
    for rule in RULES:
        if sound.issuperset(rule.reads) and not rule.holds(*(values[name] for name in rule.reads)):
            yield rule.says.format(**received)
            if len(rule.reads) == 1:  # a wrong value says nothing about its relations
                sound.remove(*rule.reads)


def _types(cls: type[PreTrainedConfig]) -> dict[str, Any]:
    # The library's activations are looked up here and not above: they take a second to import.
    activations = cast(Any, Literal)[tuple(transformers.activations.ACT2FN)]
    annotated = {field.name: field.type for field in fields(cls)}
    return annotated | OTHER_TYPES | {"activation_function": activations}


def _has_type(value: object, kind: Any) -> bool:
    try:
        type_validator("", value, kind)
    except TypeError:
        return False
    return True


def _spelled(kind: Any) -> str:
    """Spell an annotation: `int | None`, or the choices of a Literal."""
    if get_origin(kind) is Literal:
        choices = ", ".join(map(repr, get_args(kind)))
        return f"one of {choices}" if len(get_args(kind)) > 1 else choices
    return kind.__name__ if isinstance(kind, type) else str(kind)


def _advice(value: object, kind: Any) -> str:
    if get_origin(kind) is Literal and isinstance(value, str):
        return f"did you mean {nearest(value, get_args(kind))!r}?"
    if isinstance(value, str) and value.isdecimal():
        return f"write {value[:20]} without quotes, or leave it out for the default."
    return "leave it out for the default."


def nearest(name: str, choices: Iterable[object]) -> str:
    """Find the choice that was probably meant."""
    return get_close_matches(name[:64], map(str, choices), n=1, cutoff=0.0)[0]


def shown(value: object) -> str:
    """Spell a value on one short line, whatever it is."""
    if isinstance(value, int) and value.bit_length() > 128:
        return f"an integer of {value.bit_length()} bits"  # Python refuses to print 4,300 digits
    return reprlib.repr(value)


def refuse(reasons: Iterable[str]) -> None:
    """Raise all reasons as one error, if there are any."""
    if text := "\n".join(reasons):
        raise ValueError(text)
