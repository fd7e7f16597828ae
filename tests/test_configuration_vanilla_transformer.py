"""The configuration is the paper's table, and refuses everything that is no Transformer."""

import copy
import json
import pickle
import typing

import pytest
from huggingface_hub.errors import StrictDataclassError
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from table3 import DIFFERENCES_NOT_REACHED, FITTING_VOCAB_SIZE, PRINTED
from transformers import MarianConfig

from vanilla_transformer.configuration_rules import FOREIGN_NAMES, OTHER_TYPES
from vanilla_transformer.configuration_vanilla_transformer import (
    TABLE_3,
    AttentionScore,
    PositionEncoding,
    VanillaTransformerConfig,
)

unhurried = settings(deadline=None, suppress_health_check=list(HealthCheck))
SCORES = typing.get_args(AttentionScore)


def reasons(**values):
    with pytest.raises(ValueError, match=r"must|needs|is no value") as refusal:
        VanillaTransformerConfig(**values)
    return str(refusal.value).splitlines()


def difference_from_base(name):
    return (PRINTED[name].parameters() - PRINTED["base"].parameters()) / 1e6


# The paper


@pytest.mark.parametrize("name", PRINTED)
def test_every_row_of_table_3_is_built_as_printed(name):
    row, config = PRINTED[name], VanillaTransformerConfig.from_paper(name)

    for stack in ("encoder", "decoder"):
        heads = getattr(config, f"{stack}_attention_heads")
        assert getattr(config, f"{stack}_layers") == row.layers
        assert getattr(config, f"{stack}_ffn_dim") == row.ffn_dim
        assert heads == row.heads
        assert config.head_widths(heads) == (row.d_k, row.d_v)
    assert config.d_model == row.d_model
    assert config.dropout == row.dropout
    assert config.label_smoothing == row.label_smoothing
    assert config.position_encoding == row.positions


def test_the_rows_stand_in_the_order_of_the_table():
    assert list(TABLE_3) == list(PRINTED)


def test_the_defaults_are_the_base_model():
    assert VanillaTransformerConfig() == VanillaTransformerConfig.from_paper("base")


def test_a_row_takes_overrides():
    config = VanillaTransformerConfig.from_paper("big", vocab_size=32000, dropout=0.1)

    assert (config.d_model, config.vocab_size, config.dropout) == (1024, 32000, 0.1)


def test_an_unknown_row_is_refused_with_the_nearest_one():
    with pytest.raises(ValueError, match=r"base, A-1, .*, E, big\), got 'C3': did you mean 'C-3'"):
        VanillaTransformerConfig.from_paper("C3")


@pytest.mark.parametrize("name", PRINTED)
def test_the_closed_formula_is_near_the_printed_count(name):
    assert PRINTED[name].parameters() / 1e6 == pytest.approx(PRINTED[name].millions, rel=0.07)


@pytest.mark.parametrize("name", PRINTED)
def test_rows_differ_from_the_base_model_as_printed(name):
    printed = PRINTED[name].millions - PRINTED["base"].millions

    bar = DIFFERENCES_NOT_REACHED.get(name, 1.5)
    assert difference_from_base(name) == pytest.approx(printed, abs=bar)


@pytest.mark.parametrize("name", sorted(PRINTED.keys() - {"E", "big"}))
def test_a_slightly_larger_vocabulary_gives_every_printed_figure(name):
    assert round(PRINTED[name].parameters(FITTING_VOCAB_SIZE) / 1e6) == PRINTED[name].millions


# Refusals

WRONG_VALUES = [
    ("d_model", 0),
    ("d_model", 7.5),
    ("d_model", None),
    ("vocab_size", -1),
    ("vocab_size", "37000"),
    ("vocab_size", 10**12),
    pytest.param("vocab_size", 10**6000, id="vocab_size-of-6000-digits"),
    ("encoder_layers", 0),
    ("decoder_layers", True),
    ("decoder_layers", 10**6),
    ("encoder_attention_heads", -8),
    ("decoder_ffn_dim", 0),
    ("max_position_embeddings", 0),
    ("d_k", 0),
    ("d_v", -1),
    ("attention_window", 0),
    ("attention_window", -3),
    *((name, 1) for name in ("dropout", "attention_dropout", "activation_dropout")),
    ("dropout", -0.1),
    ("dropout", float("nan")),
    ("dropout", float("inf")),
    ("dropout", "0.1"),
    ("dropout", False),
    ("label_smoothing", 1.0),
    ("label_smoothing", None),
    ("attention_score", "cosin"),
    ("attention_score", None),
    ("position_encoding", "rotary"),
    ("activation_function", "rely"),
    ("activation_function", ["relu"]),
    ("scale_embedding", 1),
    ("tie_word_embeddings", "yes"),
    ("is_encoder_decoder", False),
    ("pad_token_id", 37000),
    ("eos_token_id", -1),
    ("eos_token_id", [2, 37000]),
    ("eos_token_id", [2, "3"]),
    ("bos_token_id", 37000),
    ("decoder_start_token_id", None),
    ("model_type", "bert"),
    ("dtype", "load"),
    ("torch_dtype", "float31"),
    ("architectures", "VanillaTransformerModel"),
    ("auto_map", 5),
    ("custom_pipelines", []),
    ("num_labels", 10**12),
    ("attn_implementation", 3),
    ("output_attentions", "yes"),
]


@pytest.mark.parametrize(("name", "value"), WRONG_VALUES)
def test_a_wrong_value_is_refused_with_rule_value_and_way_out(name, value):
    (reason,) = reasons(**{name: value})

    assert reason.startswith(f"{name} must be ")
    assert "got " in reason
    assert ": " in reason


WRONG_TOGETHER = [
    ({"encoder_attention_heads": 7}, "got 512 and 7: choose heads that divide d_model, or set d_k"),
    ({"decoder_attention_heads": 7, "d_k": 64}, "d_model must be divisible by decoder_attention"),
    ({"d_model": 9, "d_k": 4, "d_v": 4}, "d_model must be even for sinusoidal positions"),
    ({"pad_token_id": 2}, "pad_token_id must differ from eos_token_id"),
    ({"eos_token_id": [2, 0]}, "pad_token_id must differ from eos_token_id"),
    ({"decoder_vocab_size": 9}, "set share_encoder_decoder_embeddings=False"),
    ({"vocab_size": 2**24, "d_model": 2**18}, "the embeddings must have at most"),
    ({"encoder_ffn_dim": 2**24, "d_model": 2**18}, "the encoder must have at most"),
    ({"decoder_attention_heads": 2**20, "d_k": 2**20, "d_v": 1}, "the decoder must have at most"),
]


@pytest.mark.parametrize(("values", "reason"), WRONG_TOGETHER)
def test_values_that_do_not_fit_together_are_refused(values, reason):
    assert reason in "\n".join(reasons(**values))


@pytest.mark.parametrize("score", ["additive", "location"])
@pytest.mark.parametrize("asked", ["sdpa", "flash_attention_2", {"": "sdpa"}])
def test_a_score_without_kernel_is_refused_with_a_fused_kernel(score, asked):
    (reason,) = reasons(attention_score=score, attn_implementation=asked)

    needed = f"attention_score={score!r} needs attn_implementation='eager', got {asked!r}."
    assert reason == needed


@pytest.mark.parametrize("score", SCORES)
def test_every_score_works_with_eager_attention(score):
    config = VanillaTransformerConfig(attention_score=score, attn_implementation="eager")

    assert config._attn_implementation == "eager"


def test_all_reasons_are_given_at_once():
    found = reasons(
        vocab_size="many", dropout=2, attention_score="cosin", encoder_attention_heads=7, to_dict=1
    )

    assert len(found) == 5
    assert "did you mean 'cosine'?" in "\n".join(found)


def test_a_refused_value_is_not_blamed_a_second_time():
    (reason,) = reasons(d_model=-7)

    assert reason.startswith("d_model must be from 1")


def test_a_value_under_the_library_s_name_is_checked_too():
    assert reasons(hidden_size=7) == reasons(d_model=7)


def test_special_words_belong_to_the_vocabularies_they_are_used_in():
    sizes = {"share_encoder_decoder_embeddings": False, "vocab_size": 9, "decoder_vocab_size": 5}

    VanillaTransformerConfig(**sizes, bos_token_id=4)
    assert len(reasons(**sizes, eos_token_id=6, bos_token_id=6, decoder_start_token_id=6)) == 3


def test_padding_may_start_the_target_as_in_marian():
    config = VanillaTransformerConfig(decoder_start_token_id=0, bos_token_id=None)

    assert config.decoder_start_token_id == config.pad_token_id


# Hostile files

HOSTILE_NAMES = [
    *("__class__", "__init__", "__dict__", "__getattribute__", "__module__", "__reduce__"),
    *("from_paper", "from_dict", "to_dict", "save_pretrained", "validate", "validate_values"),
    *("head_widths", "target_vocab_size", "attribute_map", "base_model_tp_plan", "sub_configs"),
    *FOREIGN_NAMES,
]


@pytest.mark.parametrize("name", HOSTILE_NAMES)
def test_a_name_that_would_change_more_than_a_value_is_refused(name):
    assert reasons(**{name: "os.system"}) == [
        f"{name!r} is no value of this configuration: remove it."
    ]


@pytest.mark.parametrize("text", ["[]", "5", '"bert"', "null", "[" * 10**5, '{"a":' * 10**5])
def test_a_file_that_is_no_flat_object_is_refused(tmp_path, text):
    (tmp_path / "config.json").write_text(text + "]" * text.count("["))

    with pytest.raises((ValueError, OSError), match=r"config.json"):
        VanillaTransformerConfig.from_pretrained(tmp_path)


def test_a_value_nested_too_deep_is_refused():
    nested = {}
    for _ in range(500):
        nested = {"deeper": nested}

    assert reasons(notes=nested) == ["'notes' must be nested at most 32 deep: remove it."]


def test_the_file_of_another_model_is_refused(tmp_path):
    MarianConfig().save_pretrained(tmp_path)

    with pytest.raises(ValueError, match="model_type must be 'vanilla_transformer', got 'marian'"):
        VanillaTransformerConfig.from_pretrained(tmp_path)


JSON_NAMES = st.sampled_from(
    sorted({*dir(VanillaTransformerConfig), *OTHER_TYPES, *FOREIGN_NAMES, "rope", "problem_type"})
)
JSON_LEAVES = st.one_of(
    *(st.none(), st.booleans(), st.integers(), st.floats(), st.text(max_size=5)),
    st.sampled_from(["float16", "load", "sdpa", "additive", "learned", 0, 1, 2, 8, 10**12]),
)
JSON_VALUES = st.recursive(
    JSON_LEAVES,
    lambda inner: st.one_of(
        st.lists(inner, max_size=3),
        st.dictionaries(st.sampled_from(["", "0", "dtype", "model_type"]), inner, max_size=3),
    ),
    max_leaves=5,
)


@unhurried
@given(values=st.dictionaries(JSON_NAMES, JSON_VALUES, max_size=3))
def test_any_json_object_is_refused_by_us_or_survives_a_round_trip(values):
    try:
        config = VanillaTransformerConfig.from_dict(values)
    except ValueError as refusal:
        assert str(refusal)  # noqa: PT017 - both outcomes are right, any other error is not
        return

    again = VanillaTransformerConfig.from_dict(config.to_dict())
    assert again.to_json_string() == config.to_json_string()


# A good citizen


@st.composite
def sound_values(draw):
    heads = st.sampled_from([1, 2, 4, 8])
    sizes = st.integers(1, 64)
    return {
        "d_model": 8 * draw(sizes),
        "encoder_attention_heads": draw(heads),
        "decoder_attention_heads": draw(heads),
        "d_k": draw(st.none() | sizes),
        "d_v": draw(st.none() | sizes),
        "encoder_layers": draw(sizes),
        "decoder_ffn_dim": draw(sizes),
        "dropout": draw(st.floats(0, 1, exclude_max=True)),
        "attention_score": draw(st.sampled_from(SCORES)),
        "position_encoding": draw(st.sampled_from(typing.get_args(PositionEncoding))),
        "attention_window": draw(st.none() | sizes),
        "eos_token_id": draw(st.sampled_from([None, 2, [2, 3]])),
        "pad_token_id": draw(st.sampled_from([None, 0, 7])),
        "dtype": draw(st.sampled_from([None, "bfloat16"])),
    }


@unhurried
@given(values=sound_values())
def test_every_copy_of_a_configuration_equals_it(values):
    config = VanillaTransformerConfig(**values)

    assert copy.copy(config) == config
    assert copy.deepcopy(config) == config
    assert pickle.loads(pickle.dumps(config)) == config
    assert VanillaTransformerConfig.from_dict(json.loads(config.to_json_string())).to_dict() == (
        config.to_dict()
    )


@unhurried
@given(values=sound_values())
def test_the_library_sees_the_right_sizes_of_each_stack(values):
    config = VanillaTransformerConfig(**values, decoder_layers=3)
    decoder = config.get_text_config(decoder=True)

    assert config.get_text_config() is config
    assert decoder.num_hidden_layers == config.decoder_layers
    assert decoder.num_attention_heads == config.decoder_attention_heads
    assert decoder.vocab_size == config.target_vocab_size == config.vocab_size
    assert config.get_text_config(encoder=True).num_hidden_layers == config.encoder_layers


def test_a_separate_target_vocabulary_is_the_decoder_s():
    config = VanillaTransformerConfig(
        share_encoder_decoder_embeddings=False, decoder_vocab_size=500, vocab_size=300
    )

    assert config.target_vocab_size == config.get_text_config(decoder=True).vocab_size == 500
    assert config.get_text_config(encoder=True).vocab_size == 300


def test_a_resized_vocabulary_is_also_the_target_s():
    config = VanillaTransformerConfig()
    config.get_text_config().vocab_size = 37008

    assert config.target_vocab_size == 37008


def test_a_saved_folder_gives_the_same_configuration(tmp_path):
    config = VanillaTransformerConfig.from_paper("C-4", attention_window=5)
    config.save_pretrained(tmp_path)
    again = VanillaTransformerConfig.from_pretrained(tmp_path)

    assert again.to_dict() == config.to_dict()
    assert again.to_diff_dict() == config.to_diff_dict()


def test_values_given_beside_a_folder_are_checked_with_it(tmp_path):
    VanillaTransformerConfig().save_pretrained(tmp_path)

    config, unused = VanillaTransformerConfig.from_pretrained(
        tmp_path, dropout=0.3, hidden_size=256, colour="red", return_unused_kwargs=True
    )
    assert (config.dropout, config.d_model, unused["colour"]) == (0.3, 256, "red")
    with pytest.raises(ValueError, match=r"dropout must be .*\n.*divisible by encoder_attention"):
        VanillaTransformerConfig.from_pretrained(tmp_path, dropout=3, encoder_attention_heads=7)


def test_names_of_other_versions_and_plugins_are_kept():
    kept = {
        "auto_map": {"AutoConfig": "configuration_vanilla_transformer.VanillaTransformerConfig"},
        "custom_pipelines": {"translation": {"impl": "pipeline_translation.TranslationPipeline"}},
        "architectures": ["VanillaTransformerModel"],
        "id2label": {0: "no", 1: "yes", 2: "perhaps"},
        "transformers_version": "6.1.0",
        "invented_in_2030": {"by": ["somebody"]},
    }
    config = VanillaTransformerConfig(**kept, torch_dtype="float16")

    assert {name: getattr(config, name) for name in kept} == kept
    assert str(config.dtype) == "torch.float16"


def test_nonsense_assigned_later_is_refused_on_saving(tmp_path):
    config = VanillaTransformerConfig()
    config.dropout = 2.0

    with pytest.raises(StrictDataclassError, match="dropout must be at least 0 and below 1"):
        config.save_pretrained(tmp_path)


def test_what_the_library_assigns_later_can_be_saved(tmp_path):
    config = VanillaTransformerConfig()
    config.pad_token_id = config.eos_token_id = config.bos_token_id = None
    config.vocab_size = 99
    config.use_cache = False

    config.save_pretrained(tmp_path)
    assert VanillaTransformerConfig.from_pretrained(tmp_path).pad_token_id is None


def test_the_cache_is_never_told_of_a_sliding_window():
    config = VanillaTransformerConfig(attention_window=3)

    assert not hasattr(config, "sliding_window")
