"""The model of a recipe: a row of the paper's Table 3, with what the recipe says otherwise."""

from typing import Any

from training.corpus_tokenizer import refuse_other_vocabulary
from training.evaluation import decoding
from training.recipe import Recipe
from vanilla_transformer import VanillaTransformerConfig, VanillaTransformerForConditionalGeneration


def build_model(recipe: Recipe, tokenizer: Any) -> VanillaTransformerForConditionalGeneration:
    """The model of a recipe, for a tokenizer's words."""
    fields = {"from_paper": "base", "vocab_size": len(tokenizer), **recipe.model}
    start = tokenizer.pad_token_id if tokenizer.bos_token_id is None else tokenizer.bos_token_id
    config = VanillaTransformerConfig.from_paper(
        fields.pop("from_paper"),
        pad_token_id=tokenizer.pad_token_id,
        bos_token_id=tokenizer.bos_token_id,
        eos_token_id=tokenizer.eos_token_id,
        decoder_start_token_id=start,
        **fields,
    )
    refuse_other_vocabulary(tokenizer, config.vocab_size)
    model = VanillaTransformerForConditionalGeneration(config)
    model.generation_config.update(**decoding(recipe.evaluation))
    return model
