"""Saves what an optimizer remembers, to the bit, without any pickle.

`save_state(tree, folder / "optimizer")` writes two files: the tensors to `optimizer.safetensors`,
all the rest to `optimizer.json`, where each tensor has a number:

    {"steps": 3, "exp_avg": {"fc1.weight": tensor}}
    {"steps": 3, "exp_avg": {"fc1.weight": {"$tensor": "0"}}}
"""

import json
from pathlib import Path
from typing import Any

import torch
from safetensors import safe_open
from safetensors.torch import save_file
from torch import Tensor

TENSOR = "$tensor"


def save_state(tree: Any, path: Path) -> None:
    """Write nested dicts of tensors, numbers, strings, booleans and None."""
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
    if isinstance(value, dict) and all(type(key) is str and key != TENSOR for key in value):
        return {key: _to_json(one, tensors, f"{place}[{key!r}]") for key, one in value.items()}
    if value is None or type(value) in (bool, int, float, str):
        return value
    raise ValueError(
        "a saved state must be made of tensors, numbers, strings, booleans, None and dicts with "
        f"names for keys, got {type(value).__qualname__} at {place}: convert it first."
    )


def _from_json(value: Any, tensors: dict[str, Tensor]) -> Any:
    if not isinstance(value, dict):
        return value
    if TENSOR in value:
        return tensors[value[TENSOR]]
    return {key: _from_json(one, tensors) for key, one in value.items()}


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
