"""The model of a recipe: a row of the paper's Table 3, with what the recipe says otherwise."""

from dataclasses import fields, replace
from typing import Any

from transformers import PreTrainedConfig

from training.corpus_tokenizer import refuse_other_vocabulary
from training.evaluation import decoding
from training.recipe import Recipe
from vanilla_transformer import VanillaTransformerConfig, VanillaTransformerForConditionalGeneration

SPECIAL_IDS = ("pad_token_id", "bos_token_id", "eos_token_id", "decoder_start_token_id")
NOT_OF_A_RECIPE = {one.name for one in fields(PreTrainedConfig)}
NOT_OF_A_RECIPE |= {"vocab_size", *SPECIAL_IDS}  # the tokenizer's


def configure(section: dict[str, Any]) -> VanillaTransformerConfig:
    """The configuration that a recipe's model section describes; what is wrong in it is refused."""
    section = {"from_paper": "base", **section}
    return VanillaTransformerConfig.from_paper(section.pop("from_paper"), **section)


def resolve(recipe: Recipe) -> Recipe:
    """A recipe that names every field of its model, defaults too."""
    return replace(recipe, model=resolved_section(recipe.model))


def resolved_section(section: dict[str, Any]) -> dict[str, Any]:
    """All fields of the model that a section describes: {"from_paper": "big"} -> d_model 1024."""
    config = configure(section)
    short_forms = {"from_paper", *config.attribute_map}
    written = {name: one for name, one in section.items() if name not in short_forms}
    names = [one.name for one in fields(config) if one.name not in NOT_OF_A_RECIPE]
    return {**written, **{name: getattr(config, name) for name in names}}


def build_model(recipe: Recipe, tokenizer: Any) -> VanillaTransformerForConditionalGeneration:
    """The model of a recipe, for a tokenizer's words."""
    section = {"vocab_size": len(tokenizer), **recipe.model}
    if taken := sorted(section.keys() & SPECIAL_IDS):
        raise ValueError(
            f"A model's special tokens must be its tokenizer's, got model.{taken[0]}="
            f"{section[taken[0]]}: leave it out."
        )
    config = configure({**special_ids(tokenizer), **section})
    refuse_other_vocabulary(tokenizer, config.vocab_size)
    model = VanillaTransformerForConditionalGeneration(config)
    model.generation_config.update(**decoding(recipe.evaluation))
    return model


def special_ids(tokenizer: Any) -> dict[str, int | None]:
    """The fields of a configuration that follow from the tokenizer."""
    start = tokenizer.pad_token_id if tokenizer.bos_token_id is None else tokenizer.bos_token_id
    ids = tokenizer.pad_token_id, tokenizer.bos_token_id, tokenizer.eos_token_id, start
    return dict(zip(SPECIAL_IDS, ids, strict=True))
