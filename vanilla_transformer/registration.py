"""Makes the library know this model and `pipeline("translation")`; an import calls `register` once.

Calling it again changes nothing. Nothing is imported for it: each part is registered as soon as the
module that keeps its register has been imported, so nobody can look before it is there.
"""

import sys
from importlib import import_module
from typing import Any

from .after_import import after_import
from .translation_tasks import TRANSLATION, languages_of

MODEL_TYPE = "vanilla_transformer"
AUTO, PIPELINES = "transformers.models.auto", "transformers.pipelines"
T5_BASE = {"model": ("google-t5/t5-base", "a9723ea")}


def register() -> None:
    """Tell the library where configuration, tokenizer, models and pipeline are."""
    after_import(f"{__package__}.configuration_vanilla_transformer", mark_configuration)
    after_import(f"{__package__}.tokenization_vanilla_transformer", mark_tokenizer)
    after_import(f"{__package__}.saved_folder", mark_models)
    after_import(f"{AUTO}.configuration_auto", register_configuration)
    after_import(f"{AUTO}.tokenization_auto", register_tokenizer)
    after_import(f"{AUTO}.modeling_auto", register_models)
    after_import(PIPELINES, register_translation)


def mark_configuration() -> None:
    """Saved configurations name their class; the package's pipeline is taken, not a folder's."""
    from .configuration_vanilla_transformer import VanillaTransformerConfig

    VanillaTransformerConfig.register_for_auto_class()
    VanillaTransformerConfig.hides_pipelines = True


def mark_tokenizer() -> None:
    """Saved tokenizers name their class."""
    from .tokenization_vanilla_transformer import VanillaTransformerTokenizer

    VanillaTransformerTokenizer.register_for_auto_class()


def mark_models() -> None:
    """Pushed models have a card that says what is known of them."""
    from .saved_folder import SavedFolderModel

    def write_card(model: Any, repository: str) -> str:
        from .model_card import write_card_of

        return write_card_of(model, repository)

    SavedFolderModel.write_card = write_card


def register_configuration() -> None:
    """Give `AutoConfig` the configuration."""
    from .configuration_vanilla_transformer import VanillaTransformerConfig

    auto = sys.modules[f"{AUTO}.configuration_auto"]
    auto.AutoConfig.register(MODEL_TYPE, VanillaTransformerConfig, exist_ok=True)


def register_tokenizer() -> None:
    """Give `AutoTokenizer` the tokenizer."""
    from .configuration_vanilla_transformer import VanillaTransformerConfig
    from .tokenization_vanilla_transformer import VanillaTransformerTokenizer

    auto = sys.modules[f"{AUTO}.tokenization_auto"]
    auto.AutoTokenizer.register(
        VanillaTransformerConfig, VanillaTransformerTokenizer, exist_ok=True
    )


def register_models() -> None:
    """Give `AutoModel` and `AutoModelForSeq2SeqLM` the models, imported when first asked for."""
    auto = sys.modules[f"{AUTO}.modeling_auto"]
    for auto_class, class_name, names in (
        (auto.AutoModel, "VanillaTransformerModel", auto.MODEL_MAPPING_NAMES),
        (
            auto.AutoModelForSeq2SeqLM,
            "VanillaTransformerForConditionalGeneration",
            auto.MODEL_FOR_SEQ_TO_SEQ_CAUSAL_LM_MAPPING_NAMES,
        ),
    ):
        names[MODEL_TYPE] = class_name  # Trainer and the library's own tests read these tables too
        mapping = auto_class._model_mapping
        mapping._reverse_config_mapping["VanillaTransformerConfig"] = MODEL_TYPE
        mapping._modules[MODEL_TYPE] = sys.modules[__package__]


def register_translation() -> None:
    """Give the task that transformers 5 removed back to every sequence-to-sequence model."""
    pipelines = sys.modules[PIPELINES]
    getattr(pipelines, "REMOVED_TASKS", {}).pop(TRANSLATION, None)  # absent before 5.16
    registry = pipelines.PIPELINE_REGISTRY
    implementation = f"{__package__}.pipeline_translation.TranslationPipeline"
    task_settings: dict[str, Any] = {
        "impl": implementation,
        "pt": (pipelines.AutoModelForSeq2SeqLM,),
        "default": {("en", language): T5_BASE for language in ("de", "fr", "ro")},
        "type": "text",
    }
    registry.supported_tasks[TRANSLATION] = task_settings

    def check_task(task: str) -> tuple[str, dict[str, Any], Any]:
        languages = languages_of(task)
        if not languages and task != TRANSLATION:
            return type(registry).check_task(registry, task)
        module, _, name = implementation.rpartition(".")
        found = {**task_settings, "impl": getattr(import_module(module), name)}
        return TRANSLATION, found, languages

    registry.check_task = check_task
