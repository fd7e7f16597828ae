"""One sentence on its way through a model, with all attentions kept."""

from dataclasses import dataclass
from typing import Any

import torch
from torch import Tensor

from .known_languages import check_languages
from .pipeline_translation import TranslationPipeline
from .sentence_splits import Passage, num_sentences
from .source_reading import tokenizer_lock
from .translation_call import complaint_about
from .translation_records import Hypothesis, written
from .word_alignment import best_aligning, watched_twin
from .word_ids import shift_right

LANGUAGES = ("src_lang", "tgt_lang")
OUTPUTS = {
    "encoder": "encoder_attentions",
    "decoder": "decoder_attentions",
    "cross": "cross_attentions",
}


@dataclass(frozen=True)
class WatchedTranslation:
    """A sentence and a translation as tokens, and each token's attention."""

    passage: Passage
    source: list[int]
    target: list[int]  # from the start token on: it is read to its last token but one
    attentions: dict[str, Tensor]  # by kind, [layers, heads, rows, columns]

    def record(self, translator: TranslationPipeline) -> dict[str, Any]:
        """What the pipeline returns for it, with alignment where there is cross-attention."""
        cross = self.attentions.get("cross")
        aligning = None if cross is None else cross[best_aligning(len(cross))].mean(dim=0)
        hypothesis = Hypothesis(torch.tensor(self.target), attention=aligning)
        [record] = translator.postprocess(
            (self.passage, [[hypothesis]]), return_alignment=cross is not None
        )
        return record


def watch_translation(
    translator: TranslationPipeline, sentence: str, target: str | None, languages: dict[str, str]
) -> WatchedTranslation:
    """Translate a sentence, or read a translation, and run the model over both."""
    check_line(sentence, "sentence")
    check_languages(translator.tokenizer, languages)
    own = translator._preprocess_params
    languages = {name: own[name] for name in LANGUAGES if name in own} | languages
    passage = translator.preprocess(sentence, on_long_input="truncate", **languages)
    [piece] = passage.pieces
    check_length(piece.uncut_length, translator, "sentence")
    if target is None:
        if own.get("on_long_input", "split") == "split":
            check_sentence(sentence)
        settings: dict[str, Any] = {
            "on_long_input": "truncate",
            "return_tensors": True,
            **languages,
        }
        tokens = translator(sentence, **settings)[0]["translation_token_ids"].tolist()
    else:
        check_line(target, "target")
        tokens = target_tokens(translator, target, languages)
        check_length(len(tokens), translator, "target")
    source = piece.ids or []
    return WatchedTranslation(passage, source, tokens, watch(translator.model, source, tokens))


@torch.no_grad()
def watch(model: Any, source: list[int], target: list[int]) -> dict[str, Tensor]:
    """The attentions of one eager forward pass in evaluation mode."""
    inputs = torch.tensor([source], device=model.device)
    outputs = watched_twin(model).eval()(
        input_ids=inputs,
        attention_mask=torch.ones_like(inputs),
        decoder_input_ids=torch.tensor([target[:-1]], device=model.device),
        output_attentions=True,
        use_cache=False,
    )
    found = {}
    for kind, name in OUTPUTS.items():
        layers = [layer for layer in getattr(outputs, name, None) or () if layer is not None]
        if layers:
            check_shapes(layers, kind, (source, target[:-1]), model)
            found[kind] = torch.cat(layers).float().cpu()
    if not found:
        raise ValueError(
            f"look needs a model that returns its attentions, got {type(model).__name__}, which "
            "has none: load one whose forward knows output_attentions=True."
        )
    return found


def check_shapes(
    layers: list[Tensor], kind: str, texts: tuple[list[int], list[int]], model: Any
) -> None:
    """Refuse attention that has not a row and a column for every token."""
    source, target = map(len, texts)
    expected = {"encoder": (source, source), "decoder": (target, target), "cross": (target, source)}
    for layer in layers:
        if layer.dim() != 4 or layer.shape[-2:] != expected[kind]:
            rows, columns = expected[kind]
            raise ValueError(
                f"look needs attention of {rows} rows and {columns} columns, a number for every "
                f"two tokens, got {kind} attention of shape {[*layer.shape]} from "
                f"{type(model).__name__}: look at a model with full attention."
            )


def target_tokens(
    translator: TranslationPipeline, target: str, languages: dict[str, str]
) -> list[int]:
    """A given translation as the model would have written it, the start token first."""
    tokenizer, model = translator.tokenizer, translator.model
    with tokenizer_lock:
        own = getattr(tokenizer, "tgt_lang", None)
        if languages.get("tgt_lang"):
            tokenizer.tgt_lang = languages["tgt_lang"]
        try:
            ids: list[int] = tokenizer(text_target=target.strip(), verbose=False)["input_ids"]
        finally:
            if languages.get("tgt_lang"):
                tokenizer.tgt_lang = own
    labels = torch.tensor([ids])
    if shift := getattr(model, "prepare_decoder_input_ids_from_labels", None):
        read = shift(labels)
    else:
        read = shift_right(labels, tokenizer.pad_token_id, model.config.decoder_start_token_id)
    whole = torch.tensor([int(read[0, 0]), *ids])
    ends = translator._setting("eos_token_id", {})
    tokens: list[int] = written(whole, ends, None).tolist()  # mBART's labels end in a language
    return tokens


def check_line(text: Any, name: str) -> None:
    """Refuse what is no line of words."""
    complaint = complaint_about(text)
    if (
        complaint is None
        and len(lines := [line for line in text.splitlines() if line.strip()]) != 1
    ):
        found = "several" if lines else "none"
        complaint = (
            f"must be one line with a word in it, got {found} in {text[:30]!r}: look at one."
        )
    if complaint:
        raise ValueError(f"{name} {complaint}")


def check_sentence(text: str) -> None:
    """Refuse what a pipeline translates in parts, none of which sees the others."""
    if (count := num_sentences(text)) > 1:
        raise ValueError(
            f"sentence must be one sentence, got {count} in {text[:30]!r}, which are translated "
            "each alone: look at one, or give a target to look at them together."
        )


def check_length(num_tokens: int, translator: TranslationPipeline, name: str) -> None:
    """Refuse what would be cut."""
    limit = translator.reader.longest_input
    if num_tokens > limit:
        raise ValueError(
            f"{name} must have at most {limit} tokens, got {num_tokens}: look at a shorter one."
        )
