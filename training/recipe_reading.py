"""Reads plain values, as YAML gives them, into frozen dataclasses, or says what is wrong with them.

Unknown keys are refused with the nearest known one; `section.key=value` changes one value.
"""

import difflib
import types
from dataclasses import MISSING, fields, is_dataclass
from typing import Any, Literal, NoReturn, get_args, get_origin, get_type_hints

import yaml


def refuse(rule: str, value: object) -> NoReturn:
    """Say the rule and the value that broke it."""
    raise ValueError(f"{rule}, got {value!r}.")


def at_least(least: int, section: str, values: object, *names: str) -> None:
    """Refuse the first of these values that is smaller."""
    for name in names:
        if not getattr(values, name) >= least:  # NaN is not
            refuse(f"{section}.{name} must be at least {least}", getattr(values, name))


def share_below_one(section: str, values: object, *names: str) -> None:
    """Refuse the first of these values that is no share, or all."""
    for name in names:
        if not 0 <= getattr(values, name) < 1:
            refuse(f"{section}.{name} must be from 0 to below 1", getattr(values, name))


class Loader(yaml.SafeLoader):
    """YAML, where a key that a section has twice is refused: the library would forget the first."""

    def construct_mapping(self, node: Any, deep: bool = False) -> dict[Any, Any]:
        lines: dict[str, int] = {}
        for key, _ in node.value:
            name, line = str(key.value), key.start_mark.line + 1
            if name in lines:
                raise yaml.YAMLError(
                    f"the key {name!r} in line {line}, though it stands in line {lines[name]}: "
                    "write it once, with all that belongs to it"
                )
            lines[name] = line
        read: dict[Any, Any] = super().construct_mapping(node, deep)
        return read


def read_yaml(text: str) -> Any:
    """What YAML says."""
    return yaml.load(text, Loader)


def apply_change(change: str, values: dict[str, Any]) -> None:
    """Put `section.key=value`, the value in YAML, into the values of a file."""
    name, sign, text = change.partition("=")
    if not sign or not name:
        refuse("A change is written section.key=value", change)
    *sections, key = name.split(".")
    for section in sections:
        values = values.setdefault(section, {})
        if not isinstance(values, dict):
            refuse(f"{section} holds no keys that {name} could be one of", values)
    try:
        values[key] = read_yaml(text)
    except yaml.YAMLError as error:
        raise ValueError(f"The value of {name} must be YAML, got {text!r}: {error}.") from error


def read_as(wanted: Any, value: Any, place: str = "") -> Any:
    """The value as the type it is declared with; `place` is its name in errors."""
    if is_dataclass(wanted):
        return _read_section(wanted, value, place)
    origin, inner = get_origin(wanted), get_args(wanted)
    if origin is types.UnionType:
        return None if value is None else read_as(inner[0], value, place)
    if origin is Literal:
        return value if value in inner else refuse(f"{place} must be one of {_list(inner)}", value)
    if origin is tuple:
        items = value if isinstance(value, list | tuple) else [value]
        return tuple(read_as(inner[0], one, f"{place}[{n}]") for n, one in enumerate(items))
    if origin is dict:
        if not isinstance(value, dict):
            refuse(f"{place} must hold keys and values, such as {{name: value}}", value)
        return {str(key): read_as(inner[1], one, f"{place}.{key}") for key, one in value.items()}
    return _scalar(wanted, value, place)


def _read_section(section: Any, value: Any, place: str) -> Any:
    known = {one.name: one for one in fields(section)}
    if not isinstance(value, dict):
        first = next(iter(known))  # the one value that a short form may give alone
        if not getattr(section, "has_short_form", False):
            refuse(f"{place or 'A recipe'} must hold some of {_list(known)}", value)
        value = {first: value}
    for key in value:
        if key not in known:
            near = difflib.get_close_matches(str(key), known, n=1) or _places_of(key, section)
            hint = f"did you mean {near[0]!r}?" if near else f"known are {_list(known)}."
            raise ValueError(f"There is no {key!r} in {place or 'a recipe'}: {hint}")
    missing = [name for name in known if name not in value and _has_no_default(known[name])]
    if missing:
        raise ValueError(f"{place or 'A recipe'} needs {_list(missing)}.")
    types_of, prefix = get_type_hints(section), f"{place}." if place else ""
    return section(**{key: read_as(types_of[key], one, prefix + key) for key, one in value.items()})


def _places_of(key: str, section: Any) -> list[str]:
    """The sections of a section that know a key: `max_steps` -> ["optimization.max_steps"]."""
    inner = {name: one for name, one in get_type_hints(section).items() if is_dataclass(one)}
    return [f"{name}.{key}" for name, one in inner.items() if key in get_type_hints(one)]


def _has_no_default(one: Any) -> bool:
    return one.default is MISSING and one.default_factory is MISSING


def _scalar(wanted: Any, value: Any, place: str) -> Any:
    """YAML reads 5e-4 as text and 3 as a whole number: both are numbers where one is wanted."""
    if wanted is Any:
        return value
    if wanted is float and isinstance(value, int | float | str) and not isinstance(value, bool):
        try:
            return float(value)
        except ValueError:
            refuse(f"{place} must be a number", value)
    if not isinstance(value, wanted) or (wanted is int and isinstance(value, bool)):
        refuse(f"{place} must be {wanted.__name__}", value)
    return value


def _list(names: Any) -> str:
    return ", ".join(map(str, names))
