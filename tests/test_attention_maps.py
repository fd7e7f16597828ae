"""The maps hold what an eager forward pass computes, word by word; links are the pipeline's."""

import copy
from types import SimpleNamespace

import pytest
import torch
from toy_models import COMMON, HEADS, LAYERS, LINE, OTHER, T5_SIZES, each_family
from transformers import (
    AutoModelForSeq2SeqLM,
    LEDConfig,
    LongT5Config,
    ProphetNetConfig,
    pipeline,
)

from vanilla_transformer import VanillaTransformerForConditionalGeneration, watched_translation
from vanilla_transformer.attention_maps import look, look_through
from vanilla_transformer.attention_scores import SCORES

SENTENCE = "The quick brown fox isn't naïve, 1,234.50 日本 🙂"
TARGET = "Der schnelle  braune Fuchs"
OUTPUTS = {
    "encoder": "encoder_attentions",
    "decoder": "decoder_attentions",
    "cross": "cross_attentions",
}
# A window hides most of a long text; learned positions and other scores change every number.
VARIANTS = [
    *({"attention_score": score} for score in SCORES),
    {"attention_score": "additive", "attention_window": 1},
    {"attention_window": 2, "position_encoding": "learned"},
]


@pytest.fixture
def build(build_tiny, tiny_tokenizer):
    def build(**changes):
        return build_tiny(vocab_size=len(tiny_tokenizer), max_position_embeddings=64, **changes)

    return build


def eager_pass(model, tokenizer, source, target):
    """All attentions of a model built anew, with padding in its batch."""
    twin = VanillaTransformerForConditionalGeneration._from_config(
        copy.deepcopy(model.config), attn_implementation="eager"
    ).eval()
    twin.load_state_dict(model.state_dict())
    batch = tokenizer([source, f"{source} and more"], padding=True, return_tensors="pt")
    labels = tokenizer([target], return_tensors="pt")["input_ids"].expand(2, -1)
    with torch.no_grad():
        outputs = twin(**batch, labels=labels, output_attentions=True)
    length = len(tokenizer(source)["input_ids"])
    found = {kind: torch.stack(outputs[name])[:, 0] for kind, name in OUTPUTS.items()}
    return {
        "encoder": found["encoder"][..., :length, :length],
        "decoder": found["decoder"],
        "cross": found["cross"][..., :length],
    }


@pytest.mark.parametrize(
    "changes", VARIANTS, ids=lambda changes: "-".join(map(str, changes.values()))
)
def test_pieces_have_the_attentions_of_an_eager_forward_pass(changes, build, tiny_tokenizer):
    model = build(**changes)
    maps = look(model, tiny_tokenizer, SENTENCE, TARGET, pieces=True)

    expected = eager_pass(model, tiny_tokenizer, SENTENCE, TARGET)

    assert maps.weights.keys() == expected.keys()
    for kind, weights in maps.weights.items():
        torch.testing.assert_close(weights, expected[kind], rtol=0, atol=1e-6)


def groups_of(side):
    """Which tokens stand behind each label."""
    tokens = iter(range(sum(side.tokens)))
    return [[next(tokens) for _ in range(count)] for count in side.tokens]


def test_a_word_gets_what_its_pieces_get_and_looks_where_they_look_on_average(
    build, tiny_tokenizer
):
    model = build()
    pieces = look(model, tiny_tokenizer, SENTENCE, TARGET, pieces=True)
    words = look(model, tiny_tokenizer, SENTENCE, TARGET)

    for kind, weights in words.weights.items():
        rows, columns = map(groups_of, words.sides(kind))
        assert max(map(len, rows)) > 1
        for row, its_rows in enumerate(rows):
            for column, its_columns in enumerate(columns):
                got = sum(
                    pieces.weights[kind][:, :, one, other]
                    for one in its_rows
                    for other in its_columns
                )
                torch.testing.assert_close(weights[:, :, row, column], got / len(its_rows))


def test_labels_are_the_words_of_the_texts_and_special_tokens(build, tiny_tokenizer):
    maps = look(build(), tiny_tokenizer, f"  {SENTENCE} ", TARGET)

    assert maps.source.labels == (*SENTENCE.split(), "</s>")
    assert maps.read.labels == ("<s>", *TARGET.split())
    assert maps.written.labels == (*TARGET.split(), "</s>")


def test_pieces_put_together_are_the_words(build, tiny_tokenizer):
    model = build()
    words = look(model, tiny_tokenizer, SENTENCE, TARGET)
    pieces = look(model, tiny_tokenizer, SENTENCE, TARGET, pieces=True)

    joined = ["".join(pieces.source.labels[i] for i in group) for group in groups_of(words.source)]
    escaped = [text.replace("·", "").encode() for text in joined]

    assert joined[-3] == r"·\xe6\x97\xa5\xe6\x9c\xac"  # no byte of them is a character
    assert words.source.labels == tuple(
        text.decode("unicode_escape").encode("latin-1").decode() for text in escaped
    )


@each_family
@pytest.mark.parametrize("pieces", [False, True])
def test_rows_sum_to_1_and_nobody_sees_the_future(family, pieces, translators):
    maps = look_through(translators[family], LINE, pieces=pieces)

    for kind, weights in maps.weights.items():
        rows, columns = maps.sides(kind)
        assert weights.shape[2:] == (len(rows.labels), len(columns.labels))
        torch.testing.assert_close(weights.sum(dim=-1), torch.ones(weights.shape[:3]))
    assert maps.weights["decoder"].triu(1).count_nonzero() == 0


def test_words_outside_the_window_are_not_seen(build, tiny_tokenizer):
    maps = look(build(attention_window=2), tiny_tokenizer, SENTENCE, TARGET)

    groups = groups_of(maps.source)
    for row, its_rows in enumerate(groups):
        for column, its_columns in enumerate(groups):
            gap = max(its_columns[0] - its_rows[-1], its_rows[0] - its_columns[-1])
            seen = maps.weights["encoder"][:, :, row, column].count_nonzero() > 0
            assert seen == (gap <= 2)


@each_family
@pytest.mark.parametrize("sentence", [LINE, f"  {OTHER} source3\n"])
def test_the_alignment_is_the_pipeline_s(family, sentence, translators):
    translate = translators[family]
    [record] = translate(sentence, return_alignment=True)

    maps = look_through(translate, sentence)

    assert maps.target_text == record["translation_text"]
    assert maps.alignment() == record["alignment"]
    assert linked_words(maps) == [
        (sentence[start:end], maps.target_text[first:last])
        for start, end, first, last in record["alignment"]
    ]


def test_a_given_target_is_aligned_as_one_that_the_model_wrote(translate):
    maps = look_through(translate, LINE)

    assert look_through(translate, LINE, maps.target_text).alignment() == maps.alignment()


def linked_words(maps):
    return [
        (maps.source.labels[maps.source.words.index(source)],
         maps.written.labels[maps.written.words.index(target)])
        for target, source in maps.links()
    ]  # fmt: skip


@pytest.mark.parametrize("family", ["bert", "byt5", "marian", "ours", "t5"])
@pytest.mark.parametrize(
    "text", ["the cat 日本 sees the dog", "It isn't a dog.", "a  b   c\td", "кот сидит тут"]
)
def test_a_word_is_linked_with_what_its_row_of_the_map_looks_at_most(
    family, text, tokenizers, build_tiny
):
    tokenizer = tokenizers[family]
    model = build_tiny(vocab_size=len(tokenizer), max_position_embeddings=64)

    maps = look(model, tokenizer, text, "the cat sees a dog")

    assert [label for label in maps.source.labels if label in text.split()] == text.split()
    weights = maps.of("cross", maps.default_layer("cross"))
    columns = [index for index, word in enumerate(maps.source.words) if word is not None]
    best = weights[:, columns].argmax(dim=1)
    assert maps.links() == [
        (word, maps.source.words[columns[index]])
        for word, index in zip(maps.written.words, best, strict=True)
        if word is not None
    ]


def test_with_a_target_sentences_are_looked_at_together(toy_models, toy_tokenizer):
    maps = look(toy_models["ours"], toy_tokenizer, f"{LINE}. {OTHER.title()}", OTHER)

    assert maps.source.words[-2:] == (4, None)


@pytest.mark.parametrize("on_long_input", ["truncate", "error"])
def test_a_pipeline_that_reads_lines_whole_is_watched_so(on_long_input, toy_models, toy_tokenizer):
    model, line = toy_models["ours"], f"{LINE}. {OTHER.title()}"
    translate = pipeline(
        "translation", model=model, tokenizer=toy_tokenizer, on_long_input=on_long_input
    )
    [record] = translate(line, return_alignment=True)

    assert look_through(translate, line).alignment() == record["alignment"]


def test_a_prefix_is_shown_but_nothing_is_aligned_with_it(toy_models, toy_tokenizer):
    model = copy.deepcopy(toy_models["t5"])
    model.config.prefix = "source0 source0 "

    maps = look(model, toy_tokenizer, LINE, OTHER)

    assert maps.source.labels == ("source0", "source0", *LINE.split(), "</s>")
    assert min(source for _, source in maps.links()) >= 2


def test_of_is_a_head_or_the_mean_of_all(toy_models, toy_tokenizer):
    maps = look(toy_models["ours"], toy_tokenizer, LINE, OTHER)
    weights = maps.weights["cross"]

    assert torch.equal(maps.of("cross", 2, 4), weights[1, 3])
    assert torch.equal(maps.of("cross", 1), weights[0].mean(dim=0))


def test_the_model_stays_as_it_was(toy_models, toy_tokenizer):
    model = copy.deepcopy(toy_models["marian"])
    model.set_attn_implementation("sdpa")
    maps = look(model, toy_tokenizer, LINE, OTHER)
    model.train()

    again = look(model, toy_tokenizer, LINE, OTHER)

    assert model.training
    assert model.config._attn_implementation == "sdpa"
    assert not any(module._forward_hooks for module in model.modules())
    assert torch.equal(again.weights["cross"], maps.weights["cross"])


def test_a_model_of_many_languages_is_told_them(toy_models, toy_tokenizer):
    asked = []

    class Multilingual:
        src_lang = tgt_lang = "xx"
        lang_code_to_id = {"en": 6, "de": 7}

        def __getattr__(self, name):
            return getattr(toy_tokenizer, name)

        def __call__(self, *texts, **options):
            asked.append(self.tgt_lang)
            return toy_tokenizer(*texts, **options)

        def _build_translation_inputs(self, texts, return_tensors, src_lang, tgt_lang, **options):
            return {**self(texts, **options), "forced_bos_token_id": 7}

    tokenizer = Multilingual()
    languages = {"src_lang": "en", "tgt_lang": "de"}

    written = look(toy_models["ours"], tokenizer, LINE, **languages)
    look(toy_models["ours"], tokenizer, LINE, OTHER, **languages)

    assert written.written.labels[0] == toy_tokenizer.decode([7])
    assert "de" in asked
    assert tokenizer.tgt_lang == "xx"


REFUSED = {
    "no words": (" \n", None, "sentence must be one line with a word in it, got none"),
    "two lines": ("a\nb", None, "sentence must be one line with a word in it, got several"),
    "two sentences": (f"{LINE}. {OTHER.title()}!", None, "must be one sentence, got 2 in 'source1"),
    "no text": (None, None, "sentence must be a str, got None"),
    "half a character": ("a \ud800", None, "sentence must be valid Unicode"),
    "no words in the target": (LINE, "", "target must be one line with a word in it, got none"),
    "a long sentence": ("source1 " * 64, None, "sentence must have at most 64 tokens, got 65"),
    "a long target": (LINE, "target1 " * 64, "target must have at most 64 tokens, got 66"),
}


@pytest.mark.parametrize(("sentence", "target", "complaint"), REFUSED.values(), ids=REFUSED)
def test_a_text_that_cannot_be_looked_at_is_refused(
    sentence, target, complaint, toy_models, toy_tokenizer
):
    with pytest.raises(ValueError, match=complaint):
        look(toy_models["ours"], toy_tokenizer, sentence, target)


@pytest.mark.parametrize(
    ("choice", "complaint"),
    [
        (("inner", 1), "kind must be one of encoder, decoder, cross, got 'inner'"),
        (("cross", 3), r"layer must be between 1 and 2 \(of kind 'cross'\), got 3"),
        (("encoder", 0), "layer must be between 1 and 2"),
        (("decoder", 1, 5), "head must be between 1 and 4"),
    ],
)
def test_what_there_is_not_is_refused(choice, complaint, toy_models, toy_tokenizer):
    with pytest.raises(ValueError, match=complaint):
        look(toy_models["ours"], toy_tokenizer, LINE, OTHER).of(*choice)


SIZES = {"encoder_ffn_dim": 16, "decoder_ffn_dim": 16, "max_position_embeddings": 64}
NARROW = {
    "led": LEDConfig(**COMMON, **LAYERS, **HEADS, attention_window=4, decoder_start_token_id=0),
    "longt5": LongT5Config(**COMMON, **T5_SIZES, local_radius=3),
    "prophetnet": ProphetNetConfig(
        **{**COMMON, **SIZES, "decoder_start_token_id": 0, "hidden_size": 16},
        num_encoder_layers=2,
        num_decoder_layers=2,
        num_encoder_attention_heads=2,
        num_decoder_attention_heads=2,
    ),
}


@pytest.mark.parametrize(
    ("family", "complaint"),
    [
        ("led", r"4 rows and 4 columns.* encoder attention of shape \[1, 2, 4, 5\] from LEDFor"),
        ("longt5", r"encoder attention of shape \[1, 1, 2, 4, 12\] from LongT5For"),
        ("prophetnet", r"cross attention of shape \[1, 2, 9, 4\] from ProphetNetFor"),
    ],
)
def test_attention_that_is_not_rows_by_columns_is_refused(family, complaint, toy_tokenizer):
    model = AutoModelForSeq2SeqLM.from_config(NARROW[family]).eval()

    with pytest.raises(ValueError, match=complaint):
        look(model, toy_tokenizer, LINE, OTHER)


def test_rows_of_16_bits_sum_to_1_too(build, tiny_tokenizer):
    maps = look(build().to(torch.bfloat16), tiny_tokenizer, SENTENCE, TARGET)

    for weights in maps.weights.values():
        torch.testing.assert_close(weights.sum(dim=-1), torch.ones(weights.shape[:3]))
    assert maps.weights["decoder"].triu(1).count_nonzero() == 0


def test_a_model_without_attentions_is_refused(toy_models, toy_tokenizer, monkeypatch):
    silent = SimpleNamespace(eval=lambda: lambda **inputs: SimpleNamespace(cross_attentions=None))
    monkeypatch.setattr(watched_translation, "watched_twin", lambda model: silent)

    with pytest.raises(ValueError, match="a model that returns its attentions, got T5For"):
        look(toy_models["t5"], toy_tokenizer, LINE, OTHER)
