"""Saves what an optimizer or a generator remembers, to the bit, without any pickle.

`save_state(tree, folder / "optimizer")` writes two files: the tensors to `optimizer.safetensors`,
all the rest to `optimizer.json`. JSON knows neither tensors, tuples nor keys that are no strings:

    {"step": 3, "betas": (0.9, 0.98), "state": {0: tensor}}
    {"step": 3, "betas": {"$tuple": [0.9, 0.98]}, "state": {"$dict": [[0, {"$tensor": "0"}]]}}
"""

import json
from pathlib import Path
from typing import Any

import torch
from safetensors import safe_open
from safetensors.torch import save_file
from torch import Tensor

TENSOR, TUPLE, DICT = "$tensor", "$tuple", "$dict"


def save_state(tree: Any, path: Path) -> None:
    """Write nested dicts, lists and tuples of tensors, numbers, strings, booleans and None.

    Two places that hold one tensor are restored as two tensors; an OrderedDict as a dict.
    """
    tensors: dict[str, Tensor] = {}
    text = json.dumps(_to_json(tree, tensors, "state"), indent=1)
    save_file(_apart(tensors), path.with_name(f"{path.name}.safetensors"))
    path.with_name(f"{path.name}.json").write_text(text, encoding="utf-8")


def load_state(path: Path) -> Any:
    """Read what `save_state` wrote there; the tensors arrive on the CPU, in memory of their own."""
    text = path.with_name(f"{path.name}.json").read_text(encoding="utf-8")
    with safe_open(path.with_name(f"{path.name}.safetensors"), framework="pt") as saved:
        # A copy: what safe_open gives still lies in the file, which rotation will remove.
        tensors = {name: saved.get_tensor(name).clone() for name in saved.keys()}  # noqa: SIM118
    return _from_json(json.loads(text), tensors)


def _to_json(value: Any, tensors: dict[str, Tensor], place: str) -> Any:
    """Move the tensors out of a tree; `place` is its address in an error."""
    if isinstance(value, Tensor):
        name = str(len(tensors))
        tensors[name] = _savable(value, place)
        return {TENSOR: name}
    if isinstance(value, dict):
        return _dict_to_json(value, tensors, place)
    if type(value) in (list, tuple):
        items = [_to_json(item, tensors, f"{place}[{n}]") for n, item in enumerate(value)]
        return items if type(value) is list else {TUPLE: items}
    if value is None or type(value) in (bool, int, float, str):
        return value
    raise ValueError(
        f"a saved state must be made of tensors, numbers, strings, booleans, None, lists, tuples "
        f"and dicts, got {type(value).__qualname__} at {place}: convert it first."
    )


def _dict_to_json(tree: dict[Any, Any], tensors: dict[str, Tensor], place: str) -> Any:
    values = [_to_json(value, tensors, f"{place}[{key!r}]") for key, value in tree.items()]
    if all(type(key) is str and not key.startswith("$") for key in tree):
        return dict(zip(tree, values, strict=True))
    keys = [_to_json(key, tensors, f"{place}, key {key!r}") for key in tree]
    return {DICT: [list(pair) for pair in zip(keys, values, strict=True)]}


def _from_json(value: Any, tensors: dict[str, Tensor]) -> Any:
    if isinstance(value, list):
        return [_from_json(item, tensors) for item in value]
    if not isinstance(value, dict):
        return value
    if TENSOR in value:
        return tensors[value[TENSOR]]
    if TUPLE in value:
        return tuple(_from_json(item, tensors) for item in value[TUPLE])
    if DICT in value:
        return {_from_json(k, tensors): _from_json(v, tensors) for k, v in value[DICT]}
    return {key: _from_json(item, tensors) for key, item in value.items()}


def _savable(tensor: Tensor, place: str) -> Tensor:
    if tensor.layout != torch.strided or tensor.is_meta or tensor.dtype == torch.complex128:
        raise ValueError(
            f"a saved tensor must be dense, with values, and not complex128, got {tensor.layout}, "
            f"{tensor.device}, {tensor.dtype} at {place}: convert it first."
        )
    return tensor.detach().cpu().resolve_conj().resolve_neg().contiguous()


def _apart(tensors: dict[str, Tensor]) -> dict[str, Tensor]:
    """Copy what shares memory, which safetensors refuses: views, and a tensor met twice."""
    taken: set[int] = set()
    apart = {}
    for name, tensor in tensors.items():
        storage = tensor.untyped_storage()
        is_alone = storage.nbytes() == tensor.nbytes and storage.data_ptr() not in taken
        taken.add(storage.data_ptr())
        apart[name] = tensor if is_alone else tensor.clone()
    return apart
