"""The tokenizer: byte-level BPE, from which every text comes back as it went in."""

from collections.abc import Iterator
from typing import Any
from weakref import WeakKeyDictionary

from transformers import BatchEncoding, TokenizersBackend

from .word_by_word import LazilyFastEncoding, WordByWord, settings_of, wants_only_ids

known_words: "WeakKeyDictionary[TokenizersBackend, WordByWord]" = WeakKeyDictionary()


class VanillaTransformerTokenizer(TokenizersBackend):
    """The library's fast tokenizer, which remembers words and says which text it cannot encode.

    All that it knows stands in `tokenizer.json` and `tokenizer_config.json`, so transformers reads
    the same folder without this class, as a plain `TokenizersBackend` that encodes alike.
    """

    @classmethod
    def from_pretrained(cls, *place: Any, **options: Any) -> "VanillaTransformerTokenizer":
        """Load a tokenizer that always splits a text the same way."""
        tokenizer = super().from_pretrained(*place, **options)
        # BPE dropout belongs to training; a tokenizer.json saved in the midst of one may hold it.
        tokenizer.backend_tokenizer.model.dropout = None
        return tokenizer

    def _encode_plus(
        self, text: Any, text_pair: Any = None, *, is_split_into_words: bool = False, **options: Any
    ) -> BatchEncoding:
        if isinstance(text, list | tuple) and not (text or text_pair or is_split_into_words):
            empty: dict[str, list[int]] = {name: [] for name in self.model_input_names}
            return BatchEncoding(empty, tensor_type=options.get("return_tensors"))

        def encode() -> BatchEncoding:
            return super(VanillaTransformerTokenizer, self)._encode_plus(
                text, text_pair, is_split_into_words=is_split_into_words, **options
            )

        try:
            plain = text_pair is None and not is_split_into_words and wants_only_ids(text, options)
            if plain and (words := self._words()):
                rows = words.encode(text)
                longest = max(rows, key=len)
                self._eventual_warn_about_too_long_sequence(
                    longest, options.get("max_length"), options.get("verbose", True)
                )
                return LazilyFastEncoding(rows, encode)
            return encode()
        except (TypeError, ValueError) as error:
            for complaint in (*_complaints(text, "text"), *_complaints(text_pair or "", "pair")):
                raise ValueError(complaint) from error
            raise

    def _words(self) -> WordByWord | None:
        """The words known so far, if texts can be encoded word by word."""
        settings = settings_of(self.backend_tokenizer)
        if settings is None or not self.split_special_tokens:
            return None
        words = known_words.get(self)
        if words is None or words.settings != settings:
            words = known_words[self] = WordByWord(self.backend_tokenizer)
        return words

    def _add_tokens(self, new_tokens: list[Any], special_tokens: bool = False) -> int:
        for token in map(str, new_tokens):
            if not token.isascii():
                raise ValueError(
                    f"An added token must be ASCII, got {token!r}, which the byte-level decoder "
                    "would garble: leave it out (any word can be written without it)."
                )
        return super()._add_tokens(new_tokens, special_tokens=special_tokens)

    def _decode(self, token_ids: Any, *options: Any, **more_options: Any) -> str:
        try:
            return super()._decode(token_ids, *options, **more_options)
        except OverflowError as error:
            raise ValueError(
                f"Token ids must be between 0 and {len(self) - 1}, got {token_ids}. Labels of -100 "
                "mean nothing: write pad_token_id in their place before decoding."
            ) from error


def _complaints(text: Any, name: str) -> Iterator[str]:
    """What keeps a text, or a batch of them, from being encoded; `name` says where it stands."""
    if isinstance(text, list | tuple):
        for index, part in enumerate(text):
            yield from _complaints(part, f"{name}[{index}]")
    elif isinstance(text, bytes):
        yield f"A text must be a str, got bytes as {name}: decode them first, .decode('utf-8')."
    elif hasattr(text, "__iter__") and not isinstance(text, str):
        yield f"A batch of texts must be a list, got a {type(text).__name__} as {name}: list(...)."
    elif not isinstance(text, str):
        yield (
            f"A text must be a str, got {text!r} as {name}: leave the row out or write '' for it."
        )
    else:
        for index, character in enumerate(text):
            if "\ud800" <= character <= "\udfff":
                yield (
                    f"A text must be valid Unicode, got the lone surrogate {character!a} at "
                    f"character {index} of {name}, half of a character whose other half is lost: "
                    "remove it, or join the halves where the text was cut."
                )
