"""Weights lie and compute as launcher, recipe and hardware want it."""

import pytest
import torch
from accelerate import Accelerator

from training import placement
from training.placement import (
    LAUNCHED,
    has_bfloat16,
    place_weights,
    refuse_other_settings,
    way_of_sharing,
)
from training.recipe import BatchingSection, CorpusSection, OptimizationSection, Recipe


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


def settings_of_accelerate(patch, **settings):
    for name in ("mixed_precision", "gradient_accumulation_steps"):
        patch.delenv(f"ACCELERATE_{name.upper()}", raising=False)
    for name, value in settings.items():
        patch.setenv(f"ACCELERATE_{name.upper()}", value)


def recipe_with(precision="float32", accumulation=1):
    return Recipe(
        CorpusSection(train=("a",), validation=("b",)),
        batching=BatchingSection(accumulation=accumulation),
        optimization=OptimizationSection(precision=precision),
    )


@pytest.mark.parametrize(
    ("name", "value", "expected"),
    [
        ("mixed_precision", "fp16", "mixed_precision=fp16 where the recipe has no"),
        ("mixed_precision", "bf16", "optimization.precision"),
        ("gradient_accumulation_steps", "4", "batching.accumulation"),
    ],
)
def test_what_accelerate_would_do_otherwise_is_refused(name, value, expected, monkeypatch):
    settings_of_accelerate(monkeypatch, **{name: value})

    with pytest.raises(ValueError, match=expected):
        refuse_other_settings(recipe_with())


@pytest.mark.parametrize(
    "settings",
    [
        {},
        {"mixed_precision": "no", "gradient_accumulation_steps": "1"},
        {"mixed_precision": "bf16", "gradient_accumulation_steps": "4"},
    ],
)
def test_what_accelerate_wants_likewise_passes(settings, monkeypatch):
    settings_of_accelerate(monkeypatch, **settings)

    refuse_other_settings(recipe_with("bfloat16", 4))
