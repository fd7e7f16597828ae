"""`pipeline("translation")` does what version 4 did, and what it says beyond that."""

import copy
from unittest.mock import Mock

import pytest
import torch
from toy_models import BARTLIKE, DOCUMENT, LINE, OTHER, TEXTS, each_family, text_of, texts_of
from transformers import (
    AutoModelForSeq2SeqLM,
    GenerationConfig,
    GPT2Config,
    GPT2LMHeadModel,
    M2M100Config,
    NllbTokenizer,
    TextStreamer,
    pipeline,
)
from transformers.pipelines import PIPELINE_REGISTRY, check_task
from transformers.pipelines.base import get_default_model_and_revision

from vanilla_transformer.pipeline_translation import TranslationPipeline

T5_TASKS = {"translation_en_to_de": {"prefix": "source0 source0 ", "max_length": 9, "num_beams": 2}}


def by_hand(model, toy_tokenizer, text, **settings):
    inputs = toy_tokenizer(text, return_tensors="pt")
    settings = {"num_beams": 4, "max_new_tokens": 12, **settings}
    sequence = model.generate(inputs.input_ids, attention_mask=inputs.attention_mask, **settings)
    return toy_tokenizer.decode(sequence[0], skip_special_tokens=True)


def test_the_task_is_back():
    for task in ("translation", "translation_en_to_de"):
        name, found, languages = check_task(task)
        assert name == "translation"
        assert found["impl"] is TranslationPipeline
        assert languages == (("en", "de") if "_" in task else None)
    assert "translation" in PIPELINE_REGISTRY.get_supported_tasks()
    with pytest.raises(KeyError):
        check_task("translation_en_de")


def test_a_model_is_known_for_three_pairs_only():
    for task in ("translation_en_to_de", "translation_en_to_fr", "translation_en_to_ro"):
        name, _ = get_default_model_and_revision(*check_task(task)[1:])
        assert name == "google-t5/t5-base"
    for task in ("translation", "translation_cn_to_ar"):
        with pytest.raises(ValueError, match="default"):
            pipeline(task)


@each_family
def test_a_stop_sequence_is_its_first_word(family, translators, toy_models, toy_tokenizer):
    translate = translators[family]
    text = text_of(translate(LINE)).split()
    ids = toy_tokenizer.convert_tokens_to_ids(text[-1])

    expected = by_hand(toy_models[family], toy_tokenizer, LINE, eos_token_id=ids)
    assert text_of(translate(LINE, stop_sequence=text[-1])) == expected
    with pytest.warns(UserWarning, match="stop_sequence"):
        assert text_of(translate(LINE, stop_sequence=f"{text[-1]} source1")) == expected
    with pytest.raises(ValueError, match="stop_sequence must be one token, got none in ''"):
        translate(LINE, stop_sequence="")


@each_family
def test_a_text_gives_a_list_of_one_record(family, translators):
    [record] = translators[family](LINE)

    assert list(record) == ["translation_text"]
    assert isinstance(record["translation_text"], str)


@each_family
def test_it_is_tokenizer_generate_and_decode(family, translators, toy_models, toy_tokenizer):
    for text in TEXTS[:4]:
        assert text_of(translators[family](text)) == by_hand(
            toy_models[family], toy_tokenizer, text
        )


@each_family
@pytest.mark.parametrize("batch_size", [None, 1, 2, 5])
def test_a_batch_gives_what_each_text_gives_alone_in_their_order(family, batch_size, translators):
    translate = translators[family]
    alone = [translate(text)[0] for text in TEXTS]

    assert translate(TEXTS, batch_size=batch_size) == alone


@each_family
def test_a_document_is_its_translated_sentences_between_its_blanks(family, translators):
    translate = translators[family]
    first, second = text_of(translate(f"{LINE}.")), text_of(translate(f"{OTHER}!"))
    line, other = text_of(translate(LINE)), text_of(translate(OTHER))
    upper = DOCUMENT.replace("! ", "!")

    joined = text_of(translate(upper.replace(". source9", ". “source9")))

    assert joined.startswith("  ")
    assert joined.endswith(f"\n\n\t{line}\r\n \n{other}  ")
    assert text_of(translate(f"{LINE}.\n{OTHER}!")) == f"{first}\n{second}"


@pytest.mark.parametrize("blank", ["", " ", "\n", " \n\t\r\n "])
def test_blank_in_is_blank_out_without_the_model(blank, translate, monkeypatch):
    monkeypatch.setattr(translate.model, "generate", None)

    assert text_of(translate(blank)) == blank
    assert texts_of(translate([blank, blank])) == [blank, blank]
    [record] = translate(blank, return_tensors=True, return_scores=True, return_alignment=True)
    assert record.pop("translation_token_ids").tolist() == []
    assert record == {"score": 0.0, "alignment": []}


@each_family
def test_tensors_are_the_tokens_of_the_text(family, translators, toy_tokenizer):
    translate = translators[family]
    [both] = translate(LINE, return_tensors=True, return_text=True)
    [tensors] = translate(LINE, return_tensors=True)

    assert set(both) == {"translation_text", "translation_token_ids"}
    assert set(tensors) == {"translation_token_ids"}
    ids = tensors["translation_token_ids"]
    assert ids.dim() == 1
    assert toy_tokenizer.decode(ids, skip_special_tokens=True) == text_of(translate(LINE))
    assert translate(TEXTS[:1], return_text=True) == translate(TEXTS[:1])


@each_family
def test_limits_of_the_call_come_first(family, translators, toy_models, toy_tokenizer):
    translate = translators[family]

    assert text_of(translate(LINE, max_length=5)) == by_hand(
        toy_models[family], toy_tokenizer, LINE, max_length=5, max_new_tokens=None
    )
    assert len(translate(LINE, max_new_tokens=3, return_tensors=True)[0].popitem()[1]) <= 4
    config = toy_models[family].generation_config.__class__(max_new_tokens=2, num_beams=1)
    given = translate(LINE, generation_config=config, return_tensors=True)
    assert len(given[0]["translation_token_ids"]) <= 3


def test_our_model_keeps_the_paper_s_limit(toy_models, toy_tokenizer):
    translate = pipeline("translation", model=toy_models["ours"], tokenizer=toy_tokenizer)

    expected = toy_models["ours"].generate(**toy_tokenizer(LINE, return_tensors="pt"))
    assert text_of(translate(LINE)) == toy_tokenizer.decode(expected[0], skip_special_tokens=True)


@each_family
@pytest.mark.parametrize("num_beams", [1, 3])
def test_n_best_and_scores(family, num_beams, translators):
    translate = translators[family]
    wishes = {"num_beams": num_beams, "return_scores": True}
    [one] = translate(LINE, **wishes)

    assert isinstance(one["score"], float)
    assert one["score"] < 0
    if num_beams == 1:
        return
    several = translate([LINE, OTHER], num_return_sequences=3, **wishes)
    assert [len(records) for records in several] == [3, 3]
    assert several[0][0]["score"] == pytest.approx(one["score"], abs=1e-4)
    for records in several:
        scores = [record["score"] for record in records]
        assert scores == sorted(scores, reverse=True)
    assert len(translate("\n", num_return_sequences=3, **wishes)) == 3


@each_family
def test_scores_are_those_of_generate(family, translators, toy_models, toy_tokenizer):
    found = toy_models[family].generate(
        **toy_tokenizer(LINE, return_tensors="pt"),
        num_beams=4,
        max_new_tokens=12,
        return_dict_in_generate=True,
        output_scores=True,
    )
    [record] = translators[family](LINE, return_scores=True)

    assert record["score"] == pytest.approx(found.sequences_scores.item(), abs=1e-5)


SEARCHES = [{"num_beams": 1}, {"num_beams": 3}, {"num_beams": 3, "do_sample": True}]


@each_family
@pytest.mark.parametrize("search", SEARCHES, ids=str)
def test_scores_take_one_search(family, search, translators, monkeypatch):
    translate = translators[family]
    generate, searches = translate.model.generate, []

    def counted(**settings):
        searches.append(settings)
        return generate(**settings)

    monkeypatch.setattr(translate.model, "generate", counted)
    [record] = translate(LINE, return_scores=True, **search)

    assert record["score"] < 0
    assert len(searches) == 1


@each_family
def test_an_assistant_by_name_or_in_person_changes_no_word(
    family, translators, toy_models, toy_tokenizer, tmp_path
):
    model, expected = toy_models[family], translators[family](DOCUMENT, num_beams=1)
    model.save_pretrained(tmp_path)
    toy_tokenizer.save_pretrained(tmp_path)
    settings = {"model": model, "tokenizer": toy_tokenizer, "max_new_tokens": 12, "num_beams": 1}
    config = GenerationConfig(max_new_tokens=12, num_beams=1)

    for assistant in (str(tmp_path), copy.deepcopy(model)):
        assisted = pipeline("translation", assistant_model=assistant, **settings)
        assert assisted(DOCUMENT) == expected
        hook = Mock(return_value=None)
        assisted._forward_params["assistant_model"].register_forward_hook(hook)
        assert assisted(DOCUMENT, generation_config=config) == expected
        assert hook.called
    assert translators[family](DOCUMENT, num_beams=1, prompt_lookup_num_tokens=2) == expected


def test_a_streamer_reads_a_document_from_its_beginning(translate, toy_tokenizer, capsys):
    streamer = TextStreamer(toy_tokenizer, skip_special_tokens=True)
    [record] = translate(DOCUMENT, num_beams=1, streamer=streamer)

    assert capsys.readouterr().out.split() == record["translation_text"].split()


@each_family
def test_an_alignment_names_words_of_both_texts(family, translators):
    document = f" {LINE}\n\n  {OTHER}"
    [record] = translators[family](document, return_alignment=True)

    text, alignment = record["translation_text"], record["alignment"]
    assert [text[start:end] for _, _, start, end in alignment] == text.split()
    border = text.index("\n")
    for source_start, source_end, target_start, _ in alignment:
        assert document[source_start:source_end] in document.split()
        assert (source_start < document.index("\n")) == (target_start < border)


def test_an_alignment_follows_the_attention(translate, monkeypatch):
    from vanilla_transformer import pipeline_translation

    def diagonal(model, inputs, targets):
        rows, columns = targets.shape[1] - 1, inputs["input_ids"].shape[1]
        return torch.eye(rows, columns).expand(len(targets), -1, -1)

    monkeypatch.setattr(pipeline_translation, "cross_attention", diagonal)
    [record] = translate(LINE, return_alignment=True)

    words = [LINE[start:end] for start, end, _, _ in record["alignment"][:3]]
    assert words == LINE.split()


@each_family
def test_an_alignment_leaves_the_model_as_it_was(family, toy_models, toy_tokenizer):
    config = copy.deepcopy(toy_models[family].config)
    model = AutoModelForSeq2SeqLM.from_config(config, attn_implementation="sdpa").eval()
    model.load_state_dict(toy_models[family].state_dict())
    fused = pipeline("translation", model=model, tokenizer=toy_tokenizer, max_new_tokens=4)
    eager = pipeline(
        "translation", model=toy_models[family], tokenizer=toy_tokenizer, max_new_tokens=4
    )

    assert fused(LINE, return_alignment=True) == eager(LINE, return_alignment=True)
    assert model.config._attn_implementation == "sdpa"
    assert not any(module._forward_hooks for module in model.modules())


def test_the_prefix_and_settings_of_t5_s_task_are_used(toy_models, toy_tokenizer):
    model = toy_models["t5"]
    model.config.task_specific_params = T5_TASKS
    try:
        with pytest.warns(UserWarning, match="translation_en_to_de"):
            translate = pipeline("translation", model=model, tokenizer=toy_tokenizer)
        named = pipeline("translation_en_to_de", model=model, tokenizer=toy_tokenizer)
    finally:
        model.config.task_specific_params = None

    assert T5_TASKS["translation_en_to_de"]["prefix"]
    assert translate.task == "translation_en_to_de"
    assert translate._preprocess_params == {"src_lang": "en", "tgt_lang": "de"}
    prefixed = "source0 source0 " + LINE
    limits = {"max_length": 9, "max_new_tokens": None, "num_beams": 2}
    assert text_of(translate(LINE)) == by_hand(model, toy_tokenizer, prefixed, **limits)
    assert named(LINE) == translate(LINE)
    [record] = named(LINE, return_alignment=True)
    assert {LINE[start:end] for start, end, _, _ in record["alignment"]} <= set(LINE.split())


class Multilingual:
    """A tokenizer that, as those of NLLB, M2M100 and mBART, writes its language before a text."""

    def __init__(self, toy_tokenizer):
        self.tokenizer = toy_tokenizer
        self.src_lang = None

    def __getattr__(self, name):
        if name in ("tokenizer", "__setstate__"):
            raise AttributeError(name)
        return getattr(self.tokenizer, name)

    def _build_translation_inputs(
        self, raw_inputs, return_tensors, src_lang, tgt_lang, **extra_kwargs
    ):
        if src_lang is None or tgt_lang is None:
            raise ValueError("Translation requires a `src_lang` and a `tgt_lang` for this model")
        self.src_lang = src_lang
        inputs = self(raw_inputs, return_tensors=return_tensors, **extra_kwargs)
        inputs["forced_bos_token_id"] = self.tokenizer.convert_tokens_to_ids(tgt_lang)
        return inputs

    def __call__(self, texts, **options):
        return self.tokenizer([f"{self.src_lang} {text}" for text in texts], **options)


def test_a_multilingual_tokenizer_is_told_both_languages(toy_models, toy_tokenizer):
    model, multilingual = toy_models["bart"], Multilingual(toy_tokenizer)
    options = {"model": model, "tokenizer": multilingual, "max_new_tokens": 6}
    plain = TranslationPipeline(task="translation", **options)
    by_name = TranslationPipeline(task="translation_source7_to_target3", **options)
    at_start = TranslationPipeline(
        task="translation", src_lang="source7", tgt_lang="target3", **options
    )
    forced = toy_tokenizer.convert_tokens_to_ids("target3")

    with pytest.raises(ValueError, match="src_lang"):
        plain(LINE)
    expected = plain([LINE, OTHER], src_lang="source7", tgt_lang="target3")
    assert by_name([LINE, OTHER]) == at_start([LINE, OTHER]) == expected
    assert expected[0]["translation_text"] == by_hand(
        model, toy_tokenizer, f"source7 {LINE}", forced_bos_token_id=forced, max_new_tokens=6
    )
    assert expected[0]["translation_text"].split()[0] == "target3"
    assert by_name._preprocess_params == {"src_lang": "source7", "tgt_lang": "target3"}


def test_a_decoder_alone_is_refused(toy_tokenizer):
    model = GPT2LMHeadModel(GPT2Config(n_embd=8, n_layer=1, n_head=1, vocab_size=52))

    with pytest.raises(ValueError, match="sequence-to-sequence"):
        TranslationPipeline(model=model, tokenizer=toy_tokenizer)


def test_dtype_and_device_are_those_asked_for(toy_models, toy_tokenizer, tmp_path):
    toy_models["ours"].save_pretrained(tmp_path)
    toy_tokenizer.save_pretrained(tmp_path)
    translate = pipeline(
        "translation",
        model=str(tmp_path),
        dtype="bfloat16",
        device="cpu",
        model_kwargs={"attn_implementation": "eager"},
    )

    assert translate.model.dtype == torch.bfloat16
    assert translate.model.config._attn_implementation == "eager"
    assert text_of(translate(LINE, max_new_tokens=5))


def test_nllb_writes_in_the_language_it_is_asked_for():
    words = ["<s>", "<pad>", "</s>", "<unk>", "▁", "a", "b", "▁a", "▁b"]
    tokenizer = NllbTokenizer(
        vocab={word: index for index, word in enumerate(words)}, merges=[("▁", "a"), ("▁", "b")]
    )
    config = M2M100Config(**{**BARTLIKE, "vocab_size": len(tokenizer), "pad_token_id": 1})
    model = AutoModelForSeq2SeqLM.from_config(config).eval()
    wishes = {"max_length": 6, "return_tensors": True}
    named = pipeline("translation_eng_Latn_to_fra_Latn", model=model, tokenizer=tokenizer)
    told = pipeline("translation", model=model, tokenizer=tokenizer)

    with pytest.raises(ValueError, match="tgt_lang"):
        told("a b", src_lang="eng_Latn")
    texts, languages = ["a b", "b a\na"], {"src_lang": "eng_Latn", "tgt_lang": "fra_Latn"}
    for record, same in zip(
        told(texts, **languages, **wishes), named(texts, **wishes), strict=True
    ):
        ids = record["translation_token_ids"]
        assert ids[1] == tokenizer.convert_tokens_to_ids("fra_Latn")
        assert torch.equal(ids, same["translation_token_ids"])
