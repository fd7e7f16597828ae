"""Importing the package is all it takes: the library then knows the model, and knows it once."""

import importlib
from pathlib import Path

import pytest
import torch
from scripts.fresh_process import REPOSITORY, run_fresh
from transformers import (
    AutoConfig,
    AutoModel,
    AutoModelForSeq2SeqLM,
    MarianConfig,
    MarianMTModel,
)
from transformers.models.auto.configuration_auto import CONFIG_MAPPING
from transformers.models.auto.modeling_auto import (
    MODEL_FOR_SEQ_TO_SEQ_CAUSAL_LM_MAPPING_NAMES,
    MODEL_MAPPING_NAMES,
)

import vanilla_transformer
from vanilla_transformer import (
    VanillaTransformerConfig,
    VanillaTransformerForConditionalGeneration,
    VanillaTransformerModel,
    registration,
)

CLASSES = {
    AutoModel: VanillaTransformerModel,
    AutoModelForSeq2SeqLM: VanillaTransformerForConditionalGeneration,
}
each_auto_class = pytest.mark.parametrize("auto_class", CLASSES)


def assert_registered():
    assert type(AutoConfig.for_model("vanilla_transformer")) is VanillaTransformerConfig
    for auto_class, model_class in CLASSES.items():
        assert auto_class._model_mapping[VanillaTransformerConfig] is model_class
        assert model_class._auto_class == auto_class.__name__
    assert VanillaTransformerConfig._auto_class == "AutoConfig"


def all_registrations():
    """What the library has noted anywhere, copied."""
    return (
        dict(CONFIG_MAPPING._extra_content),
        *(dict(auto_class._model_mapping._extra_content) for auto_class in CLASSES),
        dict(MODEL_MAPPING_NAMES),
        dict(MODEL_FOR_SEQ_TO_SEQ_CAUSAL_LM_MAPPING_NAMES),
    )


def test_an_import_registers_every_class():
    assert_registered()


@pytest.mark.parametrize(
    "first",
    [
        "import vanilla_transformer.configuration_vanilla_transformer",
        "import vanilla_transformer.tokenization_vanilla_transformer",
        "import vanilla_transformer.modeling_vanilla_transformer",
        "import vanilla_transformer.pipeline_translation",
        "import transformers.models.auto.modeling_auto, vanilla_transformer",
        "import vanilla_transformer, transformers.models.auto.tokenization_auto",
    ],
)
def test_whatever_is_imported_first_every_part_is_registered(first, tmp_path):
    program = f"""
{first}
from transformers import AutoConfig, AutoModelForSeq2SeqLM, AutoTokenizer
from transformers.models.auto.tokenization_auto import TOKENIZER_MAPPING
from vanilla_transformer import VanillaTransformerConfig as Config
assert type(AutoConfig.for_model("vanilla_transformer")) is Config
assert Config.hides_pipelines and Config._auto_class == "AutoConfig"
assert AutoModelForSeq2SeqLM._model_mapping[Config].__module__.startswith("vanilla_transformer.")
assert "VanillaTransformerTokenizer" in str(TOKENIZER_MAPPING[Config])
"""

    run_fresh("-c", program, folder=tmp_path, PYTHONPATH=str(REPOSITORY))


def test_the_name_is_a_configuration():
    config = AutoConfig.for_model("vanilla_transformer", d_model=64)

    assert config == VanillaTransformerConfig(d_model=64)


@each_auto_class
def test_an_auto_class_builds_the_model_of_a_configuration(auto_class, tiny_config):
    model = auto_class.from_config(tiny_config)

    assert type(model) is CLASSES[auto_class]
    assert model.config.to_dict() == tiny_config.to_dict()


@each_auto_class
@pytest.mark.parametrize("spell", [str, Path])
def test_an_auto_class_loads_a_saved_folder(auto_class, spell, tiny_model, tmp_path):
    tiny_model.save_pretrained(tmp_path)

    model, report = auto_class.from_pretrained(spell(tmp_path), output_loading_info=True)

    saved = tiny_model if auto_class is AutoModelForSeq2SeqLM else tiny_model.model
    assert type(model) is CLASSES[auto_class]
    assert not any(report.values())
    torch.testing.assert_close(dict(model.state_dict()), dict(saved.state_dict()), rtol=0, atol=0)


@pytest.mark.parametrize("spell", [str, Path])
def test_auto_config_loads_a_saved_folder(spell, tiny_config, tmp_path):
    tiny_config.save_pretrained(tmp_path)

    config = AutoConfig.from_pretrained(spell(tmp_path), dropout=0.3)

    assert type(config) is VanillaTransformerConfig
    assert config.to_diff_dict() == {**tiny_config.to_diff_dict(), "dropout": 0.3}


def test_the_library_s_name_tables_name_the_classes():
    names = [
        table["vanilla_transformer"]
        for table in (MODEL_MAPPING_NAMES, MODEL_FOR_SEQ_TO_SEQ_CAUSAL_LM_MAPPING_NAMES)
    ]

    assert names == ["VanillaTransformerModel", "VanillaTransformerForConditionalGeneration"]


@pytest.mark.parametrize(
    "again",
    [
        registration.register,
        lambda: importlib.reload(registration),
        lambda: importlib.reload(vanilla_transformer),
    ],
    ids=["register", "reload registration", "reload package"],
)
def test_registering_again_changes_nothing(again):
    before = all_registrations()
    again()
    again()

    assert all_registrations() == before
    assert_registered()


def test_models_of_the_library_are_found_as_before():
    assert AutoModelForSeq2SeqLM._model_mapping[MarianConfig] is MarianMTModel
    assert MODEL_MAPPING_NAMES["marian"] == "MarianModel"
