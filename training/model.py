"""The model of a recipe: a row of the paper's Table 3, with what the recipe says otherwise."""

from typing import Any

from training.corpus_tokenizer import refuse_other_vocabulary
from training.evaluation import decoding
from training.recipe import Recipe
from vanilla_transformer import VanillaTransformerConfig, VanillaTransformerForConditionalGeneration


def configure(fields: dict[str, Any]) -> VanillaTransformerConfig:
    """The configuration that a recipe's model section describes; what is wrong in it is refused."""
    fields = {"from_paper": "base", **fields}
    return VanillaTransformerConfig.from_paper(fields.pop("from_paper"), **fields)


def build_model(recipe: Recipe, tokenizer: Any) -> VanillaTransformerForConditionalGeneration:
    """The model of a recipe, for a tokenizer's words."""
    fields = {"vocab_size": len(tokenizer), **recipe.model}
    special = special_ids(tokenizer)
    if taken := sorted(fields.keys() & special):
        raise ValueError(
            f"A model's special tokens must be its tokenizer's, got model.{taken[0]}="
            f"{fields[taken[0]]}: leave it out."
        )
    config = configure({**special, **fields})
    refuse_other_vocabulary(tokenizer, config.vocab_size)
    model = VanillaTransformerForConditionalGeneration(config)
    model.generation_config.update(**decoding(recipe.evaluation))
    return model


def special_ids(tokenizer: Any) -> dict[str, int | None]:
    """The fields of a configuration that follow from the tokenizer."""
    start = tokenizer.pad_token_id if tokenizer.bos_token_id is None else tokenizer.bos_token_id
    return {
        "pad_token_id": tokenizer.pad_token_id,
        "bos_token_id": tokenizer.bos_token_id,
        "eos_token_id": tokenizer.eos_token_id,
        "decoder_start_token_id": start,
    }
