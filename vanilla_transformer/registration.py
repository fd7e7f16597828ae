"""Makes the library's Auto classes know this model; importing the package calls `register` once.

Calling it again changes nothing. The models themselves are imported when they are first asked for,
as the library does with its own: its modeling code takes a second to import.
"""

import sys

from transformers import AutoConfig, AutoModel, AutoModelForSeq2SeqLM, AutoTokenizer
from transformers.models.auto import modeling_auto

from .configuration_vanilla_transformer import VanillaTransformerConfig
from .tokenization_vanilla_transformer import VanillaTransformerTokenizer


def register() -> None:
    """Tell the Auto classes where configuration, tokenizer and models are."""
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
