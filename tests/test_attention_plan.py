"""Which way attention is computed in which circumstances, and that no way changes a result."""

import pytest
import torch
from torch.testing import assert_close
from transformers import DynamicCache, EncoderDecoderCache

from vanilla_transformer import VanillaTransformerConfig
from vanilla_transformer.attention_plan import plan_decoder, plan_encoder, records_layers
from vanilla_transformer.token_layout import PackedLayout

PACKED, PRODUCTS, KERNEL = "packed", "products", "kernel"
RIGHT = torch.tensor([[1, 1, 1, 1, 1], [1, 1, 0, 0, 0]])
LEFT = RIGHT.flip(1)
PAIRWISE = RIGHT.bool()[:, None, None, :].expand(2, 1, 5, 5)
ATTENTIONS, HIDDEN_STATES = {"output_attentions": True}, {"output_hidden_states": True}
LONG_FOR_PRODUCTS, LONG_FOR_PACKING = 200, 300


def way_of(plan):
    if isinstance(plan.layout, PackedLayout):
        return PACKED
    return PRODUCTS if plan.explicit else KERNEL


def configured(implementation="sdpa", **fields):
    config = VanillaTransformerConfig(**fields)
    config._attn_implementation = implementation
    return config


def words(length=5, device=None):
    """What a plan looks at of two sentences: their shape, type and place."""
    return torch.empty(2, length, 0, device=device)


def plan_both(config, mask, length, kwargs, device=None):
    """The plan of an encoder, and of a decoder whose source it is."""
    template = words(length, device)
    return (
        plan_encoder(config, template, mask, kwargs, may_pack=True),
        plan_decoder(config, template, None, template, mask, None, kwargs, may_pack=True),
    )


@pytest.fixture
def uncompiled():
    """Flex attention as it reads: the kernel that torch would build for it takes 20 s."""
    with torch.compiler.set_stance("force_eager"):
        yield


@pytest.mark.parametrize("stack", [0, 1], ids=["encoder", "decoder"])
@pytest.mark.parametrize(
    ("config", "mask", "length", "kwargs", "way"),
    [
        pytest.param({}, RIGHT, 5, {}, PACKED, id="padding at the end"),
        pytest.param({}, None, 5, {}, PACKED, id="no padding"),
        pytest.param({"implementation": "eager"}, RIGHT, 5, {}, PACKED, id="eager"),
        pytest.param({"attention_score": "cosine"}, RIGHT, 5, {}, PACKED, id="a dot product"),
        pytest.param({"attention_window": 2}, RIGHT, 5, {}, PACKED, id="a window"),
        pytest.param({}, LEFT, 5, {}, PRODUCTS, id="padding at the start"),
        pytest.param({}, PAIRWISE, 5, {}, PRODUCTS, id="a mask of pairs"),
        pytest.param({}, RIGHT, 5, ATTENTIONS, PRODUCTS, id="attentions recorded"),
        pytest.param({}, RIGHT, 5, HIDDEN_STATES, PRODUCTS, id="hidden states recorded"),
        pytest.param(ATTENTIONS, RIGHT, 5, {}, PRODUCTS, id="attentions configured"),
        pytest.param(
            {"implementation": "eager", "attention_score": "additive"}, RIGHT, 5, {}, PRODUCTS,
            id="no dot product",
        ),
        pytest.param({}, None, LONG_FOR_PRODUCTS, {}, PACKED, id="not too long to pack"),
        pytest.param(
            {}, None, LONG_FOR_PRODUCTS, HIDDEN_STATES, KERNEL, id="too long for products"
        ),
        pytest.param(
            {}, None, LONG_FOR_PRODUCTS, ATTENTIONS, PRODUCTS, id="long, attentions recorded"
        ),
        pytest.param({}, None, LONG_FOR_PACKING, {}, KERNEL, id="too long to pack"),
        pytest.param(
            {"implementation": "eager"}, None, LONG_FOR_PACKING, {}, PRODUCTS, id="long, eager"
        ),
        pytest.param({"implementation": "flex_attention"}, RIGHT, 5, {}, KERNEL, id="flex"),
    ],
)  # fmt: skip
@pytest.mark.usefixtures("uncompiled")
def test_circumstances_choose_the_way(stack, config, mask, length, kwargs, way):
    plan = plan_both(configured(**config), mask, length, kwargs)[stack]

    assert way_of(plan) == way


@pytest.mark.parametrize("stack", [0, 1], ids=["encoder", "decoder"])
@pytest.mark.parametrize(
    ("implementation", "kwargs", "way"),
    [("sdpa", {}, KERNEL), ("eager", {}, PRODUCTS), ("sdpa", ATTENTIONS, PRODUCTS)],
    ids=["sdpa", "eager", "attentions recorded"],
)
def test_on_another_device_the_configured_implementation_is_taken(
    stack, implementation, kwargs, way
):
    plan = plan_both(configured(implementation), None, 5, kwargs, device="meta")[stack]

    assert way_of(plan) == way


@pytest.mark.parametrize("stack", [0, 1], ids=["encoder", "decoder"])
@pytest.mark.parametrize(
    "recording", [(torch.compiler, "is_compiling"), (torch.jit, "is_tracing")], ids=lambda r: r[1]
)
def test_a_recorded_graph_calls_the_kernel(stack, recording, monkeypatch):
    monkeypatch.setattr(*recording, lambda: True)

    assert way_of(plan_both(configured(), RIGHT, 5, {})[stack]) == KERNEL


@pytest.mark.parametrize(
    "cache", [DynamicCache(), EncoderDecoderCache(DynamicCache(), DynamicCache())]
)
def test_with_a_cache_nothing_is_packed(cache):
    plan = plan_decoder(configured(), words(), None, words(), RIGHT, cache, {}, may_pack=True)

    assert way_of(plan) == PRODUCTS


def test_a_decoder_without_a_source_is_not_packed():
    plan = plan_decoder(configured(), words(), None, None, None, None, {}, may_pack=True)

    assert way_of(plan) == PRODUCTS
    assert plan.source_mask is None


@pytest.mark.parametrize(("mask", "source_mask"), [(LEFT, RIGHT), (RIGHT, LEFT)])
def test_one_side_padded_at_the_start_keeps_both_padded(mask, source_mask):
    plan = plan_decoder(configured(), words(), mask, words(), source_mask, None, {}, may_pack=True)

    assert way_of(plan) == PRODUCTS
    assert plan.source_layout is plan.layout


@pytest.mark.parametrize(
    ("length", "source_length", "way"),
    [(200, 300, PACKED), (200, 400, KERNEL), (300, 5, KERNEL), (5, 400, PACKED)],
)
def test_the_number_of_pairs_counts_not_the_length_of_a_side(length, source_length, way):
    plan = plan_decoder(
        configured(), words(length), None, words(source_length), None, None, {}, may_pack=True
    )

    assert way_of(plan) == way


def test_a_packed_plan_has_a_mask_for_each_group():
    encoder, decoder = plan_both(configured(), RIGHT, 5, {})

    assert len(encoder.mask) == len(encoder.layout.groups) == 2
    assert len(decoder.mask) == len(decoder.layout.groups)
    assert len(decoder.source_mask) == len(decoder.source_layout.groups)


@pytest.mark.parametrize("name", ["output_attentions", "output_hidden_states"])
def test_a_call_has_the_last_word_on_what_is_recorded(name):
    config = VanillaTransformerConfig(**{name: True})

    assert records_layers(config, {})
    assert not records_layers(config, {name: False})
    assert records_layers(VanillaTransformerConfig(), {name: True})


# Other ways to say what right padding says, each of which takes another way through attention.
SAME_MEANING = {
    "attentions recorded": ("sdpa", lambda mask: mask, ATTENTIONS),
    "hidden states recorded": ("sdpa", lambda mask: mask, HIDDEN_STATES),
    "a mask of pairs": ("sdpa", lambda mask: mask.bool()[:, None, None, :], {}),
    "eager, recorded": ("eager", lambda mask: mask, HIDDEN_STATES),
    "flex": ("flex_attention", lambda mask: mask, {}),
}


def logits_of(model, pairs, **kwargs):
    """The logits of real words."""
    with torch.no_grad():
        return model(**{**pairs, **kwargs}).logits[pairs["labels"] >= 0]


@pytest.mark.filterwarnings("ignore:flex_attention called without torch.compile")
@pytest.mark.usefixtures("uncompiled")
@pytest.mark.parametrize(
    ("implementation", "rewrite", "kwargs"), SAME_MEANING.values(), ids=SAME_MEANING
)
def test_all_ways_agree_on_real_words(implementation, rewrite, kwargs, tiny_model, sentence_pairs):
    packed = logits_of(tiny_model, sentence_pairs)
    tiny_model.set_attn_implementation(implementation)
    mask = rewrite(sentence_pairs["attention_mask"])

    assert_close(logits_of(tiny_model, sentence_pairs, attention_mask=mask, **kwargs), packed)


def test_padding_at_either_end_says_the_same(build_tiny, sentence_pairs):
    model = build_tiny(position_encoding="learned")
    torch.nn.init.zeros_(model.model.encoder.embed_positions.weight)  # a source without order
    source, mask = sentence_pairs["input_ids"], sentence_pairs["attention_mask"]

    flipped = logits_of(
        model, sentence_pairs, input_ids=source.flip(1), attention_mask=mask.flip(1)
    )

    assert_close(flipped, logits_of(model, sentence_pairs))


def test_attentions_can_be_read_on_any_device(tiny_model):
    model = tiny_model.to("meta")
    ids = torch.ones(2, 5, dtype=torch.long, device="meta")
    outputs = model(input_ids=ids, decoder_input_ids=ids, output_attentions=True)

    assert {attention.shape[-2:] for attention in outputs.decoder_attentions} == {(5, 5)}


@pytest.mark.parametrize("implementation", ["sdpa", "eager"])
@pytest.mark.parametrize("length", [5, LONG_FOR_PRODUCTS, LONG_FOR_PACKING])
def test_any_length_gives_what_its_words_one_by_one_give(length, implementation, build_tiny):
    model = build_tiny(encoder_layers=1, decoder_layers=1)
    model.set_attn_implementation(implementation)
    source, target = torch.randint(3, 30, (2, 1, length))
    with torch.no_grad():
        whole = model(input_ids=source, decoder_input_ids=target)
        first = model(input_ids=source, decoder_input_ids=target[:, :-1], use_cache=True)
        last = model(
            encoder_outputs=(first.encoder_last_hidden_state,),
            decoder_input_ids=target[:, -1:],
            past_key_values=first.past_key_values,
        )

    assert_close(last.logits, whole.logits[:, -1:])
