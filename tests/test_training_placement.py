"""Weights lie and compute as launcher, recipe and hardware want it."""

import pytest
import torch
from accelerate import Accelerator

from training import placement
from training.placement import LAUNCHED, has_bfloat16, place_weights, way_of_sharing
from training.recipe import OptimizationSection


@pytest.mark.parametrize("has_instructions", [True, False])
def test_a_processor_that_only_imitates_bfloat16_computes_in_float32(
    has_instructions, tiny_model, monkeypatch
):
    monkeypatch.setattr(placement.platform, "machine", lambda: "x86_64")
    monkeypatch.setattr(torch.cpu, "_is_avx512_bf16_supported", lambda: has_instructions)
    monkeypatch.setattr(torch.cpu, "_is_amx_tile_supported", lambda: False)

    weights = place_weights(tiny_model, OptimizationSection(), Accelerator(cpu=True))

    assert has_bfloat16(torch.device("cpu")) is has_instructions
    assert weights.dtype is (torch.bfloat16 if has_instructions else torch.float32)
    assert {one.dtype for one in weights.exact} == {torch.float32}


def test_the_launcher_says_how_weights_are_shared(monkeypatch):
    for name in LAUNCHED.values():
        monkeypatch.delenv(name, raising=False)
    assert way_of_sharing() == "replicated"

    for way, name in LAUNCHED.items():
        with monkeypatch.context() as patch:
            patch.setenv(name, "true")
            assert way_of_sharing() == way
