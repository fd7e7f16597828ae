"""Makes the library's Auto classes know this model; importing the package calls `register` once.

Calling it again changes nothing.
"""

from transformers import AutoConfig, AutoModel, AutoModelForSeq2SeqLM
from transformers.models.auto import modeling_auto

from .configuration_vanilla_transformer import VanillaTransformerConfig
from .modeling_vanilla_transformer import (
    VanillaTransformerForConditionalGeneration,
    VanillaTransformerModel,
)


def register() -> None:
    """Register with the Auto classes, and have every save carry the code for the Hub."""
    model_type = VanillaTransformerConfig.model_type
    AutoConfig.register(model_type, VanillaTransformerConfig, exist_ok=True)
    VanillaTransformerConfig.register_for_auto_class()
    # Trainer and the library's own tests look class names up in these tables.
    for auto_class, model_class, names in (
        (AutoModel, VanillaTransformerModel, modeling_auto.MODEL_MAPPING_NAMES),
        (
            AutoModelForSeq2SeqLM,
            VanillaTransformerForConditionalGeneration,
            modeling_auto.MODEL_FOR_SEQ_TO_SEQ_CAUSAL_LM_MAPPING_NAMES,
        ),
    ):
        auto_class.register(VanillaTransformerConfig, model_class, exist_ok=True)
        model_class.register_for_auto_class(auto_class.__name__)
        names[model_type] = model_class.__name__
