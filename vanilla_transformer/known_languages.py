"""Which languages a tokenizer of many knows, asked before anything of it is changed."""

from difflib import get_close_matches
from typing import Any

SUGGESTED = 3


def check_languages(tokenizer: Any, languages: dict[str, str]) -> None:
    """Refuse languages that the tokenizer does not know; one of a single language knows none."""
    known = known_languages(tokenizer)
    for name, code in languages.items():
        if not known:
            raise ValueError(
                f"{name} must be left out with {type(tokenizer).__name__}, which knows no "
                f"languages, got {code!r}."
            )
        if not {code, f"__{code}__"} & {*known}:  # SeamlessM4T and PLBart take the bare code
            near = get_close_matches(code, known, SUGGESTED) or known[:SUGGESTED]
            raise ValueError(
                f"{name} must be one of the {len(known)} languages of {type(tokenizer).__name__}, "
                f"got {code!r}: say one such as {', '.join(near)}."
            )


def known_languages(tokenizer: Any) -> list[str]:
    """The codes of all languages between which a tokenizer tells its model to translate."""
    if not hasattr(tokenizer, "_build_translation_inputs"):
        return []
    codes = getattr(tokenizer, "lang_code_to_id", None)
    if codes is None:  # NLLB's are tokens beside those of every tokenizer, such as </s>
        codes = [token for token in tokenizer.all_special_tokens if not token.startswith("<")]
    return list(codes)
