"""What is restored equals what was saved: every bit, every type, every order of keys."""

import math
import struct

import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st

from training.saved_state import load_state, save_state

DTYPES = [
    torch.float64, torch.float32, torch.float16, torch.bfloat16, torch.float8_e4m3fn,
    torch.complex64, torch.int64, torch.int32, torch.int16, torch.int8, torch.uint8, torch.bool,
]  # fmt: skip


def bits(value):
    """A form in which two trees are equal only if they are equal to the bit, in type and order."""
    if isinstance(value, torch.Tensor):
        value = value.resolve_conj()
        content = value.reshape(-1).contiguous().view(torch.uint8) if value.numel() else value
        return ("tensor", value.dtype, tuple(value.shape), bytes(content.flatten().tolist()))
    if isinstance(value, dict):
        return ("dict", [(bits(key), bits(item)) for key, item in value.items()])
    if isinstance(value, float):
        return (float, "nan" if math.isnan(value) else struct.pack("d", value))
    return (type(value), value)


def tensors(dtype):
    shapes = st.lists(st.integers(0, 3), max_size=3)
    return shapes.map(lambda shape: (torch.randn(shape) * 3).to(dtype))


leaves = st.one_of(
    st.none(), st.booleans(), st.integers(), st.floats(), st.text(),
    st.just("$tensor"), st.sampled_from(DTYPES).flatmap(tensors),
)  # fmt: skip
keys = st.one_of(st.text(max_size=3), st.sampled_from(["tensor", "__metadata__", "a.b"]))
trees = st.recursive(leaves, lambda inner: st.dictionaries(keys, inner, max_size=3), max_leaves=12)


def restored(tree, folder):
    save_state(tree, folder / "state")
    return load_state(folder / "state")


@given(tree=trees)
def test_any_tree_is_restored_to_the_bit(tree, tmp_path):
    assert bits(restored(tree, tmp_path)) == bits(tree)


def test_views_and_tensors_met_twice_are_restored(tmp_path):
    whole = torch.arange(12.0).reshape(3, 4)
    views = [whole, whole, whole[1], whole.T, whole[:, ::2], torch.tensor(1j).conj()]
    tree = {str(number): one for number, one in enumerate(views)}

    assert bits(restored(tree, tmp_path)) == bits(tree)


def test_the_state_outlives_its_files(tmp_path):
    """Rotation deletes a checkpoint while the optimizer still works with what it read there."""
    saved = torch.randn(10_000)
    state = restored({"sum": saved}, tmp_path)
    with (tmp_path / "state.safetensors").open("r+b") as file:
        file.write(bytes(50_000))

    assert torch.equal(state["sum"].add_(1), saved + 1)


@pytest.mark.parametrize(
    ("value", "named"),
    [
        ({1, 2}, "set at state['a']"),
        ((1, 2), "tuple at state['a']"),
        ({0: 1}, "dict at state['a']"),
        ({"$tensor": 1}, "dict at state['a']"),
        (torch.Size([1]), "Size at state['a']"),
        (torch.float32, "dtype at state['a']"),
        (torch.eye(2).to_sparse(), "sparse_coo, cpu, torch.float32 at state['a']"),
        (torch.empty(2, device="meta"), "meta, torch.float32 at state['a']"),
    ],
)
def test_what_cannot_be_restored_is_refused_by_its_place(value, named, tmp_path):
    with pytest.raises(ValueError, match="must be") as refused:
        save_state({"a": value}, tmp_path / "state")

    assert named in str(refused.value)
    assert list(tmp_path.iterdir()) == []
