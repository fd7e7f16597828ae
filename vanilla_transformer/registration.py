"""Makes the library know this model and `pipeline("translation")`; an import calls `register` once.

Calling it again changes nothing. The models themselves are imported when they are first asked for,
as the library does with its own: its modeling code takes a second to import, its pipelines another.
"""

import sys
from importlib import import_module
from typing import Any

from transformers import AutoConfig, AutoModel, AutoModelForSeq2SeqLM, AutoTokenizer
from transformers.models.auto import modeling_auto

from .after_import import after_import
from .configuration_vanilla_transformer import VanillaTransformerConfig
from .tokenization_vanilla_transformer import VanillaTransformerTokenizer
from .translation_tasks import TRANSLATION, languages_of

PIPELINES = "transformers.pipelines"
T5_BASE = {"model": ("google-t5/t5-base", "a9723ea")}
TASK: dict[str, Any] = {
    "impl": f"{__package__}.pipeline_translation.TranslationPipeline",
    "pt": (AutoModelForSeq2SeqLM,),
    "default": {("en", language): T5_BASE for language in ("de", "fr", "ro")},
    "type": "text",
}


def register() -> None:
    """Tell the library where configuration, tokenizer, models and pipeline are."""
    model_type = VanillaTransformerConfig.model_type
    AutoConfig.register(model_type, VanillaTransformerConfig, exist_ok=True)
    VanillaTransformerConfig.register_for_auto_class()
    AutoTokenizer.register(VanillaTransformerConfig, VanillaTransformerTokenizer, exist_ok=True)
    VanillaTransformerTokenizer.register_for_auto_class()
    for auto_class, class_name, names in (
        (AutoModel, "VanillaTransformerModel", modeling_auto.MODEL_MAPPING_NAMES),
        (
            AutoModelForSeq2SeqLM,
            "VanillaTransformerForConditionalGeneration",
            modeling_auto.MODEL_FOR_SEQ_TO_SEQ_CAUSAL_LM_MAPPING_NAMES,
        ),
    ):
        names[model_type] = class_name  # Trainer and the library's own tests read these tables too
        mapping = auto_class._model_mapping
        mapping._reverse_config_mapping[VanillaTransformerConfig.__name__] = model_type
        mapping._modules[model_type] = sys.modules[__package__]
    VanillaTransformerConfig.hides_pipelines = True
    after_import(PIPELINES, register_translation)


def register_translation() -> None:
    """Give the task that transformers 5 removed back to every sequence-to-sequence model."""
    pipelines = sys.modules[PIPELINES]
    getattr(pipelines, "REMOVED_TASKS", {}).pop(TRANSLATION, None)  # absent before 5.16
    registry = pipelines.PIPELINE_REGISTRY
    registry.supported_tasks[TRANSLATION] = TASK

    def check_task(task: str) -> tuple[str, dict[str, Any], Any]:
        languages = languages_of(task)
        if not languages and task != TRANSLATION:
            return type(registry).check_task(registry, task)
        module, _, name = TASK["impl"].rpartition(".")
        return TRANSLATION, {**TASK, "impl": getattr(import_module(module), name)}, languages

    registry.check_task = check_task
