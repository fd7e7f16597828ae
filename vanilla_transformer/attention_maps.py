"""Who looks at whom: the attention of every layer and head of a model on a sentence.

`look(model, tokenizer, "Where is it?")` translates the sentence, runs the model over both once more
and keeps all weights. In a notebook the result shows itself, as a page to click through.
"""

from dataclasses import dataclass
from html import escape
from typing import TYPE_CHECKING, Any

from torch import Tensor

from .attention_labels import Side, label_tokens
from .pipeline_translation import TranslationPipeline
from .source_reading import tokenizer_lock
from .watched_translation import watch_translation
from .word_alignment import Span, best_aligning, num_prefix_words

if TYPE_CHECKING:
    from .attention_figures import Drawing

FRAME = (
    '<iframe srcdoc="{page}" sandbox="allow-scripts" title="Attention maps" '
    'style="width: 100%; height: 48rem; border: 0"></iframe>'
)


@dataclass(frozen=True)
class AttentionMaps:
    """Weights by kind, `[layers, heads, rows, columns]`: a row's word looks at the columns' words.

    "encoder": the source looks at itself. "decoder": the words read while writing, the start token
    first, look at themselves and those before. "cross": each word that is written looks at the
    source.
    """

    weights: dict[str, Tensor]
    source: Side
    read: Side
    written: Side
    source_text: str
    target_text: str
    spans: tuple[Span, ...] = ()
    prefix_words: int = 0  # of the source, before its text: T5's "translate English to German:"

    def sides(self, kind: str) -> tuple[Side, Side]:
        """What stands beside the rows and the columns of a kind."""
        kinds = {
            "encoder": (self.source, self.source),
            "decoder": (self.read, self.read),
            "cross": (self.written, self.source),
        }
        return kinds[kind]

    def of(self, kind: str, layer: int, head: int | None = None) -> Tensor:
        """Weights `[rows, columns]` of a head, or the mean of all; counted from 1, as in titles."""
        self.check(kind, layer, head)
        heads = self.weights[kind][layer - 1]
        return heads.mean(dim=0) if head is None else heads[head - 1]

    def check(self, kind: str, layer: int | None = None, head: int | None = None) -> None:
        """Refuse a kind, layer or head that there is not."""
        if kind not in self.weights:
            raise ValueError(f"kind must be one of {', '.join(self.weights)}, got {kind!r}.")
        for name, number, count in zip(
            ("layer", "head"), (layer, head), self.weights[kind].shape, strict=False
        ):
            if number is not None and not 1 <= number <= count:
                raise ValueError(
                    f"{name} must be between 1 and {count} (of kind {kind!r}), got {number}."
                )

    def default_kind(self) -> str:
        """Cross-attention, where there is some."""
        return "cross" if "cross" in self.weights else next(iter(self.weights))

    def default_layer(self, kind: str) -> int:
        """The layer whose cross-attention aligns best; counted from 1."""
        return best_aligning(len(self.weights[kind])) + 1

    def alignment(self) -> list[Span]:
        """For each word of the target, where it and its source word stand in their texts.

        The same as `pipeline(..., return_alignment=True)` gives: by the mean over the heads of the
        layer whose cross-attention aligns best.
        """
        return list(self.spans)

    def links(self) -> list[tuple[int, int]]:
        """The alignment as numbers of words in `Side.words`: (target, source)."""
        return [
            (_num_words(self.target_text[:target]), _num_words(self.source_text[:start]) + before)
            for before in [self.prefix_words]
            for start, _, target, _ in self.spans
        ]

    def draw(
        self,
        view: str | None = None,
        kind: str | None = None,
        layer: int | None = None,
        head: int | None = None,
    ) -> "Drawing":
        """A picture: "grid", "layer", "head", "links" or "alignment"; needs matplotlib."""
        from .attention_figures import draw

        return draw(self, view, kind, layer, head)

    def page(
        self,
        view: str | None = None,
        kind: str | None = None,
        layer: int | None = None,
        head: int | None = None,
    ) -> str:
        """An HTML page of all maps, with nothing outside of it; the arguments say how it begins."""
        from .attention_page import compose_page

        return compose_page(self, view, kind, layer, head)

    def _repr_html_(self) -> str:
        return FRAME.format(page=escape(self.page()))


def look(
    model: Any,
    tokenizer: Any,
    sentence: str,
    target: str | None = None,
    *,
    pieces: bool = False,
    **languages: str,
) -> AttentionMaps:
    """The attention of a model on a sentence and its translation, its own or `target`.

    Args:
        model: Any sequence-to-sequence model that returns attentions; it stays as it is.
        tokenizer: Its tokenizer.
        sentence: One line; of one sentence, if there is no target, as each is translated alone.
        target: A translation to look at; without it, what the model writes.
        pieces: Whether to show the pieces that the model reads instead of whole words.
        **languages: `src_lang` and `tgt_lang`, for models of many languages.
    """
    is_spread = hasattr(model, "hf_device_map")
    translator = TranslationPipeline(
        model=model, tokenizer=tokenizer, device=None if is_spread else model.device
    )
    return look_through(translator, sentence, target, pieces=pieces, **languages)


def look_through(
    translator: TranslationPipeline,
    sentence: str,
    target: str | None = None,
    *,
    pieces: bool = False,
    **languages: str,
) -> AttentionMaps:
    """The same with the model, tokenizer and settings of a pipeline."""
    watched = watch_translation(translator, sentence, target, languages)
    record = watched.record(translator)

    def decode(ids: list[int]) -> str:
        with tokenizer_lock:
            text: str = translator.tokenizer.decode(
                ids, skip_special_tokens=True, clean_up_tokenization_spaces=False
            )
        return text

    def label(ids: list[int], text: str | None = None) -> Side:
        text = decode(ids) if text is None else text
        return label_tokens(translator.tokenizer, ids, text, decode, pieces=pieces)

    prefix = translator.prefix
    read = prefix + sentence.strip()
    maps = AttentionMaps(
        weights={},
        source=label(watched.source, read),
        read=label(watched.target[:-1]),
        written=label(watched.target[1:]),
        source_text=sentence,
        target_text=record["translation_text"],
        spans=tuple(record.get("alignment", ())),
        prefix_words=num_prefix_words(prefix, read),
    )
    for kind, weights in watched.attentions.items():
        rows, columns = maps.sides(kind)
        maps.weights[kind] = rows.merge_rows(columns.merge_columns(_of_sum_1(weights)))
    return maps


def _of_sum_1(weights: Tensor) -> Tensor:
    """Rows that sum to 1 though they were rounded to 16 bits; one that is hidden stays 0."""
    totals = weights.sum(dim=-1, keepdim=True)
    return weights / totals.where(totals > 0, 1)


def _num_words(text: str) -> int:
    return len(text.split())
