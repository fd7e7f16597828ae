"""The paper's decoding is the default, and what is not plain takes the library's way to it."""

import copy
import functools
import types

import pytest
import torch
from accelerate.hooks import ModelHook, add_hook_to_module, remove_hook_from_module
from transformers import CompileConfig, GenerationConfig
from transformers.generation.streamers import BaseStreamer

from vanilla_transformer import VanillaTransformerForConditionalGeneration, generation_call
from vanilla_transformer import generation_vanilla_transformer as generation


def decoding_of(model):
    settings = model.generation_config.to_dict()
    return {name: settings.get(name) for name in generation.PAPER_DECODING}


def test_a_new_model_decodes_like_the_paper(attentive_model):
    assert decoding_of(attentive_model) == {
        "num_beams": 4,
        "length_penalty": 0.6,
        "length_penalty_type": "gnmt",
        "early_stopping": "never",
        "max_extra_tokens": 50,
    }


@pytest.mark.parametrize("is_forgotten", [False, True])
def test_a_loaded_model_decodes_like_the_paper(is_forgotten, attentive_model, tmp_path):
    attentive_model.save_pretrained(tmp_path)
    if is_forgotten:
        (tmp_path / "generation_config.json").unlink()

    loaded = VanillaTransformerForConditionalGeneration.from_pretrained(tmp_path)

    assert decoding_of(loaded) == generation.PAPER_DECODING


def test_a_saved_wish_is_kept(attentive_model, tmp_path):
    attentive_model.generation_config.num_beams = 2
    attentive_model.generation_config.length_penalty_type = "standard"
    attentive_model.save_pretrained(tmp_path)

    loaded = VanillaTransformerForConditionalGeneration.from_pretrained(tmp_path)

    assert loaded.generation_config.num_beams == 2
    assert loaded.generation_config.length_penalty_type == "standard"


def test_a_configuration_of_the_caller_keeps_the_penalty_of_the_model(attentive_model, source):
    asked = GenerationConfig(num_beams=3, max_new_tokens=9)

    found = attentive_model.generate(**source, generation_config=asked)

    assert found.equal(attentive_model.generate(**source, num_beams=3, max_new_tokens=9))


@pytest.mark.parametrize(
    "wish",
    [
        {"output_scores": True, "return_dict_in_generate": True},
        {"output_attentions": True, "return_dict_in_generate": True},
        {"cache_implementation": "static"},
        {"use_cache": False},
        {"stopping_criteria": [generation_call.MaxLengthCriteria(8)], "max_time": 60.0},
    ],
    ids=lambda wish: next(iter(wish)),
)
@pytest.mark.parametrize("num_beams", [1, 4])
def test_other_wishes_take_the_library_s_way_to_the_same_words(
    num_beams, wish, attentive_model, source, is_plain
):
    model = attentive_model.double()
    asked = {"num_beams": num_beams, "max_new_tokens": 7}

    found = model.generate(**source, **asked, **wish)
    words = found if isinstance(found, torch.Tensor) else found.sequences

    assert words.equal(model.generate(**source, **asked))
    assert is_plain == [False, True]


class Listener(BaseStreamer):
    """A streamer that hears every word."""

    def __init__(self):
        self.words = []

    def put(self, value):
        self.words += value.flatten().tolist()

    def end(self):
        pass


def compile_eagerly():
    config = CompileConfig(backend="eager")
    config._compile_all_devices = True
    return {"compile_config": config, "cache_implementation": "static"}


ASSISTED = {
    "prompt_lookup": lambda model: {"prompt_lookup_num_tokens": 2},
    "assistant": lambda model: {"assistant_model": copy.deepcopy(model)},
}
ONE_BEAM_WISHES = {
    **ASSISTED,
    "do_sample": lambda model: {"do_sample": False},
    "generation_config": lambda model: {
        "generation_config": GenerationConfig(do_sample=False, max_new_tokens=9)
    },
    "streamer": lambda model: {"streamer": Listener()},
    "compile": lambda model: compile_eagerly(),
}


@pytest.fixture
def varied_model(attentive_model):
    """It does not repeat its words, and its beams find other ones than the most probable."""
    attentive_model.generation_config.no_repeat_ngram_size = 1
    return attentive_model.double()


@pytest.fixture
def one_source(source):
    return {name: tensor[2:3] for name, tensor in source.items()}


@pytest.mark.parametrize("wish", ["prompt_lookup", "assistant"])
def test_assisted_decoding_finds_the_most_probable_words(wish, varied_model, one_source):
    asked = {"max_new_tokens": 9, "eos_token_id": None, "num_beams": 1}

    found = varied_model.generate(**one_source, **asked, **ASSISTED[wish](varied_model))

    assert found.equal(varied_model.generate(**one_source, **asked))


@pytest.mark.parametrize("wish", ONE_BEAM_WISHES)
def test_who_chooses_a_way_of_one_beam_gets_one_beam(wish, varied_model, one_source):
    asked = {"max_new_tokens": 9, "eos_token_id": None}
    greedy = varied_model.generate(**one_source, **asked, num_beams=1)

    found = varied_model.generate(**one_source, **asked | ONE_BEAM_WISHES[wish](varied_model))

    assert found.equal(greedy)
    assert not found.equal(varied_model.generate(**one_source, **asked))


def test_who_samples_gets_samples(attentive_model, source):
    # Six: four beams would have four at most.
    asked = {"do_sample": True, "max_new_tokens": 7, "num_return_sequences": 6}

    torch.manual_seed(0)
    found = attentive_model.generate(**source, **asked)
    torch.manual_seed(0)

    assert found.equal(attentive_model.generate(**source, **asked, num_beams=1))


@pytest.mark.parametrize(
    "wish", [{"num_beams": 4}, {"length_penalty": 0.6}, {"num_return_sequences": 2}]
)
def test_who_speaks_of_beams_gets_beams(wish, varied_model, one_source):
    asked = {"max_new_tokens": 9, "eos_token_id": None}

    found = varied_model.generate(**one_source, **asked, **wish, do_sample=False)

    assert found[:1].equal(varied_model.generate(**one_source, **asked))


def test_a_streamer_hears_the_words(attentive_model, one_source):
    listener = Listener()

    found = attentive_model.generate(**one_source, streamer=listener, max_new_tokens=7)

    assert listener.words == found[0].tolist()


@pytest.mark.parametrize("with_mask", [False, True])
@pytest.mark.parametrize("later", [{"num_beams": 1}, {"num_beams": 4}, {}, {"do_sample": False}])
@pytest.mark.parametrize("num_beams", [1, 4])
def test_going_on_from_a_cache_changes_nothing(num_beams, later, with_mask, varied_model, source):
    asked = {"max_new_tokens": 3, "eos_token_id": None}
    returned = {"return_dict_in_generate": True, "output_scores": True}
    first = varied_model.generate(**source, **asked, **returned, num_beams=num_beams)
    start = {"decoder_input_ids": first.sequences}
    if with_mask:
        start["decoder_attention_mask"] = torch.ones_like(first.sequences)
    anew = varied_model.generate(**source, **start, **asked, **later)

    found = varied_model.generate(
        **source, **start, **asked, **later, past_key_values=first.past_key_values
    )

    assert found.equal(anew)


def test_a_cache_that_knows_every_word_of_the_start_changes_nothing(attentive_model, source):
    start = torch.tensor([[1, 5, 6]]).expand(len(source["input_ids"]), -1)
    known = attentive_model(**source, decoder_input_ids=start, use_cache=True).past_key_values
    asked = {"decoder_input_ids": start, "max_new_tokens": 1, "num_beams": 1}
    returned = {"return_dict_in_generate": True, "output_logits": True}

    found = attentive_model.generate(**source, **asked, **returned, past_key_values=known)

    anew = attentive_model.generate(**source, **asked, **returned)
    torch.testing.assert_close(found.logits, anew.logits)


def test_a_cache_of_one_beam_is_gone_on_with(varied_model, source):
    asked = {"num_beams": 1, "eos_token_id": None}
    returned = {"return_dict_in_generate": True, "output_scores": True}
    first = varied_model.generate(**source, **asked, **returned, max_new_tokens=3)
    start, cache = first.sequences, first.past_key_values

    varied_model.generate(
        **source, **asked, decoder_input_ids=start, past_key_values=cache, max_new_tokens=2
    )

    assert cache.get_seq_length() == 5


@pytest.mark.parametrize("num_beams", [1, 4])
@pytest.mark.parametrize("dtype", [torch.bool, torch.float32])
def test_masks_of_any_type_hide_the_same_words(dtype, num_beams, attentive_model, source, is_plain):
    asked = {"num_beams": num_beams, "max_new_tokens": 5}
    masked = {**source, "attention_mask": source["attention_mask"].to(dtype)}

    found = attentive_model.generate(**masked, **asked)

    assert found.equal(attentive_model.generate(**source, **asked))
    assert not found.equal(attentive_model.generate(source["input_ids"], **asked))
    assert is_plain == [True] * 3


def test_plain_calls_are_plain(attentive_model, source, is_plain):
    attentive_model.generate(**source)
    attentive_model.generate(**source, num_beams=1)
    attentive_model.generate(source["input_ids"])
    attentive_model.generate(**source, num_return_sequences=2, no_repeat_ngram_size=2)
    attentive_model.generate(**source, return_dict_in_generate=True)
    attentive_model.generate(
        attention_mask=source["attention_mask"],
        encoder_outputs=attentive_model.get_encoder()(**source),
    )

    assert all(is_plain)


@pytest.mark.parametrize(
    "change",
    [
        lambda model: model.train(),
        lambda model: model.model.decoder.layers[0].fc1.register_forward_hook(lambda *_: None),
        lambda model: setattr(model.model.decoder.layers[0], "fc1", torch.nn.Linear(16, 24)),
        lambda model: model.register_forward_hook(lambda *_: None),
        lambda model: model.model.register_forward_pre_hook(lambda *_: None),
        lambda model: setattr(model, "forward", functools.partial(model.forward)),
        lambda model: add_hook_to_module(model.model.decoder.layers[1], ModelHook()),
    ],
)
def test_a_model_that_somebody_changed_is_not_plain(change, attentive_model, source, is_plain):
    change(attentive_model)

    attentive_model.generate(**source, max_new_tokens=3)

    assert is_plain == [False]


def test_a_model_that_was_given_back_is_plain_again(attentive_model, source, is_plain):
    add_hook_to_module(attentive_model.model.decoder.layers[1], ModelHook())
    remove_hook_from_module(attentive_model.model.decoder.layers[1])

    attentive_model.generate(**source, max_new_tokens=3)

    assert is_plain == [True]


def test_who_asks_for_autocast_gets_it(attentive_model, source, is_plain):
    with torch.autocast("cpu", torch.bfloat16):
        attentive_model.generate(**source, max_new_tokens=3)

    assert is_plain == [False]


def test_what_accelerate_prepared_for_mixed_precision_is_searched(
    attentive_model, source, is_plain
):
    words = attentive_model.generate(**source, max_new_tokens=5)
    own = attentive_model.forward

    attentive_model._original_forward = own  # as `Accelerator.prepare_model` leaves it
    autocast = torch.autocast("cpu", torch.bfloat16)(own.__func__)
    attentive_model.forward = types.MethodType(autocast, attentive_model)

    assert attentive_model.generate(**source, max_new_tokens=5).equal(words)
    assert is_plain == [True, True]


def test_every_word_of_a_watched_model_is_seen(attentive_model, source, is_plain):
    own, seen = attentive_model.forward, []

    def watched(*args, **kwargs):
        seen.append(kwargs["past_key_values"])
        return own(*args, **kwargs)

    attentive_model.forward = watched
    found = attentive_model.generate(**source, max_new_tokens=3)
    attentive_model.forward = own  # as tools leave it that restore what they replaced

    assert found.equal(attentive_model.generate(**source, max_new_tokens=3))
    assert len(seen) == 3
    assert None not in seen  # the library's loops find their cache prepared
    assert is_plain == [False, True]


@pytest.mark.parametrize("fields", [{"attention_score": "additive"}, {"attention_window": 2}])
def test_models_beyond_the_paper_are_not_plain(fields, build_tiny, source, is_plain):
    build_tiny(**fields).generate(**source, max_new_tokens=3)

    assert is_plain == [False]


@pytest.mark.parametrize("num_beams", [1, 4])
def test_own_widths_and_activations_are_searched_too(num_beams, build_tiny, source, is_plain):
    model = build_tiny(d_k=6, d_v=10, activation_function="gelu", position_encoding="learned")

    plain = model.double().generate(**source, num_beams=num_beams, max_new_tokens=9)
    with_scores = model.generate(
        **source,
        num_beams=num_beams,
        max_new_tokens=9,
        output_scores=True,
        return_dict_in_generate=True,
    )

    assert is_plain == [True, False]
    assert plain.equal(with_scores.sequences)


def test_sequence_scores_are_those_of_an_independent_rescoring(attentive_model, source):
    model = attentive_model.double()
    asked = {"max_new_tokens": 9, "return_dict_in_generate": True, "num_return_sequences": 3}
    plain = model.generate(**source, **asked)
    library = model.generate(**source, **asked, output_scores=True)

    steps = model.compute_transition_scores(
        library.sequences, library.scores, library.beam_indices, normalize_logits=False
    )
    lengths = (library.beam_indices >= 0).sum(dim=1)
    rescored = steps.sum(dim=1) / ((5 + lengths) / 6) ** 0.6

    torch.testing.assert_close(plain.sequences_scores, library.sequences_scores)
    torch.testing.assert_close(rescored.float(), library.sequences_scores, atol=1e-5, rtol=1e-5)


@pytest.mark.parametrize("in_a_config", [False, True])
@pytest.mark.parametrize(
    ("name", "value"),
    [
        ("num_beams", 0),
        ("num_beams", -2),
        ("num_beams", 2.5),
        ("num_beams", "4"),
        ("num_return_sequences", 0),
        ("num_return_sequences", -1),
        ("max_extra_tokens", -30),
        ("max_extra_tokens", "a"),
    ],
)
def test_numbers_that_mean_nothing_are_refused(name, value, in_a_config, attentive_model, source):
    wish = {name: value}
    if in_a_config:
        wish = {"generation_config": GenerationConfig()}
        setattr(wish["generation_config"], name, value)

    with pytest.raises(ValueError, match=f"{name} must be a whole number of at least .* {value!r}"):
        attentive_model.generate(**source, **wish)
