"""What a pipeline asks of `generate`: the caller's wishes before the model's, those before its own.

The version-4 pipeline translated with 4 beams and at most 256 tokens where nobody said otherwise.
"""

import copy
from typing import Any

from transformers import AutoModelForSeq2SeqLM, AutoTokenizer, GenerationConfig

PIPELINE_DECODING = {"max_new_tokens": 256, "num_beams": 4}
LENGTHS = {"max_length", "max_new_tokens"}  # two ways to say one thing: the later word counts
NO_SETTINGS = {  # what no `generation_config` can hold
    *("return_scores", "return_alignment", "streamer"),
    *("assistant_model", "assistant_tokenizer", "tokenizer"),
    *("logits_processor", "stopping_criteria", "prefix_allowed_tokens_fn"),
}
ONE_BY_ONE = {"assistant_model", "prompt_lookup_num_tokens", "streamer"}  # for a single sequence
OTHER_LIMITS = {"max_length", "max_extra_tokens"}  # a default of 256 tokens gives way to them


def overrule(earlier: dict[str, Any], later: dict[str, Any]) -> dict[str, Any]:
    """Both wishes, the later ones first; a `generation_config` replaces all settings before it."""
    if "generation_config" in later:
        earlier = {name: earlier[name] for name in NO_SETTINGS & earlier.keys()}
    if LENGTHS & later.keys():
        earlier = {name: value for name, value in earlier.items() if name not in LENGTHS}
    return {**earlier, **later}


def assistance(
    model: Any, tokenizer: Any, assistant: Any, assistant_tokenizer: Any
) -> dict[str, Any]:
    """What `generate` is told of a smaller model, or one by name, that guesses words ahead."""
    if assistant is None:
        return {}
    if isinstance(assistant, str):
        assistant_tokenizer = AutoTokenizer.from_pretrained(assistant)
        loaded = AutoModelForSeq2SeqLM.from_pretrained(assistant, dtype=model.dtype)
        assistant = loaded.to(model.device)
    told = {"assistant_model": assistant}
    sizes = {one.config.get_text_config().vocab_size for one in (model, assistant)}
    if len(sizes) > 1:
        told |= {"tokenizer": tokenizer, "assistant_tokenizer": assistant_tokenizer}
    return told


def generation_settings(
    model_defaults: GenerationConfig, wishes: dict[str, Any], padding: int | None
) -> dict[str, Any]:
    """Keyword arguments for `generate`."""
    wishes = dict(wishes)
    config: GenerationConfig | None = copy.deepcopy(wishes.pop("generation_config", None))
    if wishes.get("max_length") is not None:
        wishes.setdefault("max_new_tokens", None)  # the model's own must not win
    known = {**_set_in(model_defaults), **_set_in(config), **wishes}
    for name, value in {**PIPELINE_DECODING, "pad_token_id": padding}.items():
        is_limited = name == "max_new_tokens" and OTHER_LIMITS & known.keys()
        if name not in known and value is not None and not is_limited:
            wishes[name] = value
    if config is None:
        return wishes
    return {"generation_config": config, **config.update(**wishes)}


def _set_in(config: GenerationConfig | None) -> dict[str, Any]:
    """What a generation configuration says that is not the library's default."""
    values = {} if config is None else config.to_diff_dict()
    return {name: value for name, value in values.items() if value is not None}
