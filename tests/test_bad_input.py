"""Wrong input is refused at once, by us, with the rule, the value and the way out."""

import json

import pytest
import torch
from safetensors.torch import load_file, save_file
from torch import nn
from transformers import AutoConfig, AutoModel, AutoModelForSeq2SeqLM
from transformers.modeling_outputs import BaseModelOutput

from vanilla_transformer import (
    VanillaTransformerConfig,
    VanillaTransformerForConditionalGeneration,
    VanillaTransformerModel,
    VanillaTransformerPreTrainedModel,
)

EAGER_SCORES = ("additive", "location")
UNTIED = {"tie_word_embeddings": False}
INDEX = "model.safetensors.index.json"
VOCABULARY = 40  # of the tiny model


def refusal(words, call, *args, **kwargs):
    """The text of the ValueError that a call must end in; it holds all the given words."""
    with pytest.raises(ValueError, match=r"must|needs") as caught:
        call(*args, **kwargs)
    text = str(caught.value)
    for word in words:
        assert word in text
    return text


# Configurations; the whole list is in test_configuration_vanilla_transformer.py

WRONG_CONFIGURATIONS = [
    ({"encoder_attention_heads": 7}, ["divisible", "512", "7", "choose heads"]),
    ({"d_model": 9, "d_k": 4, "d_v": 4}, ["even", "9", "choose an even d_model"]),
    ({"encoder_layers": 0}, ["encoder_layers must be from 1", "got 0"]),
    ({"vocab_size": -1}, ["vocab_size must be from 1", "got -1"]),
    ({"vocab_size": 10**12}, ["vocab_size must be from 1", "got 1000000000000"]),
    ({"dropout": 1.0}, ["dropout must be at least 0 and below 1", "got 1.0"]),
    ({"attention_dropout": -0.1}, ["attention_dropout must be at least 0", "got -0.1"]),
    ({"eos_token_id": 0}, ["pad_token_id must differ from eos_token_id", "0 and 0", "give"]),
    ({"pad_token_id": 37000}, ["pad_token_id must be", "below", "37000", "tokenizer"]),
    ({"attention_score": "cosin"}, ["attention_score must be", "'cosin'", "'cosine'"]),
    ({"position_encoding": "rotary"}, ["position_encoding must be", "'rotary'", "'learned'"]),
    (
        {"is_causal": True, "dropout": 5},
        ["'is_causal' is no value of this configuration", "remove it", "dropout"],
    ),
]


@pytest.mark.parametrize(("values", "words"), WRONG_CONFIGURATIONS)
@pytest.mark.parametrize("way", ["constructor", "from_paper", "AutoConfig", "config.json"])
def test_a_wrong_configuration_is_refused_wherever_it_comes_from(way, values, words, tmp_path):
    if way == "constructor":
        refusal(words, VanillaTransformerConfig, **values)
    elif way == "from_paper":
        refusal(words, VanillaTransformerConfig.from_paper, "base", **values)
    elif way == "AutoConfig":
        refusal(words, AutoConfig.for_model, "vanilla_transformer", **values)
    else:
        saved = {"model_type": "vanilla_transformer", **values}
        (tmp_path / "config.json").write_text(json.dumps(saved))
        refusal(words, AutoModelForSeq2SeqLM.from_pretrained, tmp_path)


# Scores without a fused kernel


@pytest.fixture(params=EAGER_SCORES)
def unfused(request, build_tiny):
    return build_tiny(attention_score=request.param)


@pytest.mark.parametrize("asked", ["sdpa", "flex_attention", {"": "sdpa"}])
@pytest.mark.parametrize("way", ["construct", "from_config", "from_pretrained", "set"])
def test_a_score_without_kernel_is_refused_with_one(way, asked, unfused, tmp_path):
    score = unfused.config.attention_score
    words = [f"attention_score={score!r} needs attn_implementation='eager'", "got"]
    if way == "construct":
        refusal(words, VanillaTransformerConfig, attention_score=score, attn_implementation=asked)
    elif way == "from_config":
        config = VanillaTransformerConfig(attention_score=score)
        refusal(words, AutoModel.from_config, config, attn_implementation=asked)
    elif way == "from_pretrained":
        unfused.save_pretrained(tmp_path)
        load = AutoModelForSeq2SeqLM.from_pretrained
        refusal(words, load, tmp_path, attn_implementation=asked)
    else:
        refusal(words, unfused.set_attn_implementation, asked)
        assert unfused.config._attn_implementation == "eager"


def test_an_unknown_attention_is_refused_with_the_known_ones(tiny_model):
    with pytest.raises(ValueError, match="eager"):
        tiny_model.set_attn_implementation("spda")


# Words


@pytest.mark.parametrize("mode", ["train", "eval"])
@pytest.mark.parametrize("wrong", [VOCABULARY, -1, 10**9])
@pytest.mark.parametrize("name", ["input_ids", "decoder_input_ids", "labels"])
def test_a_word_outside_the_vocabulary_is_refused_by_name(
    name, wrong, mode, tiny_model, sentence_pairs
):
    sentence_pairs["decoder_input_ids"] = sentence_pairs["labels"].clamp(min=0)
    sentence_pairs[name][1, 2] = wrong
    getattr(tiny_model, mode)()

    words = [f"{name} must be at least 0 and below", str(VOCABULARY), f"got {wrong}", "tokenizer"]
    assert refusal(words, tiny_model, **sentence_pairs).startswith(name)


def test_source_and_target_words_are_judged_by_their_own_vocabulary(build_tiny, sentence_pairs):
    model = build_tiny(share_encoder_decoder_embeddings=False, decoder_vocab_size=60)
    sentence_pairs["labels"][0, 0] = 50
    model(**sentence_pairs)

    sentence_pairs["input_ids"][0, 0] = 50
    refusal(["input_ids must be", "40", "got 50"], model, **sentence_pairs)


def test_a_word_outside_the_vocabulary_is_refused_by_generate(tiny_model):
    words = ["input_ids must be", "below", "got 99"]
    refusal(words, tiny_model.generate, torch.tensor([[5, 99, 2]]), max_new_tokens=2)


IDS = torch.tensor([[5, 6, 2]])
VECTORS = torch.zeros(1, 3, 16)
MISSING_WORDS = [
    ({"decoder_input_ids": IDS}, ["input_ids or inputs_embeds", "neither"]),
    (
        {"input_ids": IDS, "inputs_embeds": VECTORS, "decoder_input_ids": IDS},
        ["input_ids or inputs_embeds", "both"],
    ),
    ({"input_ids": IDS}, ["decoder_input_ids or decoder_inputs_embeds", "neither"]),
    (
        {"input_ids": IDS, "decoder_input_ids": IDS, "decoder_inputs_embeds": VECTORS},
        ["decoder_input_ids or decoder_inputs_embeds", "both"],
    ),
    (
        {"encoder_outputs": BaseModelOutput(VECTORS)},
        ["decoder_input_ids or decoder_inputs_embeds", "neither"],
    ),
]


@pytest.mark.parametrize(("inputs", "words"), MISSING_WORDS)
def test_a_side_needs_its_words_once(inputs, words, tiny_model):
    refusal(["needs either", *words], tiny_model, **inputs)
    refusal(["needs either", *words], tiny_model.model, **inputs)


# Weights


@pytest.fixture
def folder(tiny_model, tmp_path):
    tiny_model.save_pretrained(tmp_path / "model")
    return tmp_path / "model"


def change_weights(folder, change):
    """Save what `change` makes of a folder's dictionary of weights."""
    weights = load_file(folder / "model.safetensors")
    change(weights)
    save_file(weights, folder / "model.safetensors", metadata={"format": "pt"})


FC1 = "model.decoder.layers.1.fc1.weight"
HEAD = "lm_head.weight"


@pytest.mark.parametrize("auto_class", [AutoModel, AutoModelForSeq2SeqLM])
def test_missing_weights_are_refused_by_name(auto_class, folder):
    change_weights(folder, lambda weights: weights.pop(FC1))

    name = FC1 if auto_class is AutoModelForSeq2SeqLM else FC1.removeprefix("model.")
    words = ["complete", f"got none for {name}", "output_loading_info=True"]
    refusal(words, auto_class.from_pretrained, folder)


def test_a_long_list_of_weights_is_cut(folder):
    change_weights(folder, lambda weights: [weights.pop(n) for n in [*weights] if "layers" in n])

    refusal(["complete", "model.decoder.layers.0", "and 79 more"], load, folder)


def test_unexpected_weights_are_refused_by_name(folder):
    change_weights(folder, lambda weights: weights.update(extra=torch.zeros(2)))

    refusal(["belong", "got also extra", "output_loading_info=True"], load, folder)


def test_weights_under_another_prefix_are_refused_for_both_reasons(folder):
    def rename(weights):
        weights["module." + FC1] = weights.pop(FC1)

    change_weights(folder, rename)

    refusal([f"got none for {FC1}", f"got also module.{FC1}"], load, folder)


def test_weights_of_another_shape_are_refused_with_both_shapes(folder):
    change_weights(folder, lambda weights: weights.update({FC1: torch.zeros(25, 16)}))

    words = ["shapes", f"{FC1} [25, 16] instead of [24, 16]", "ignore_mismatched_sizes=True"]
    refusal(words, load, folder)


def test_a_folder_of_another_size_is_refused(folder):
    words = ["shapes", "model.shared.weight [40, 16] instead of [41, 16]"]
    refusal(words, load, folder, vocab_size=41)


def load(folder, **kwargs):
    return AutoModelForSeq2SeqLM.from_pretrained(folder, **kwargs)


def test_whoever_asks_for_a_report_gets_the_incomplete_model_too(folder):
    change_weights(folder, lambda weights: weights.update(extra=weights.pop(FC1)))

    model, report = load(folder, output_loading_info=True)

    assert report["missing_keys"] == {FC1}
    assert report["unexpected_keys"] == {"extra"}
    assert model.get_parameter(FC1).isfinite().all()


def test_whoever_ignores_shapes_gets_new_weights_in_their_place(folder, tiny_model):
    model = load(folder, vocab_size=41, ignore_mismatched_sizes=True)

    assert model.model.shared.weight.shape == (41, 16)
    assert torch.equal(model.get_parameter(FC1), tiny_model.get_parameter(FC1))


def test_the_body_of_an_untied_model_loads_without_its_head(build_tiny, tmp_path):
    model = build_tiny(**UNTIED)
    model.save_pretrained(tmp_path)

    body = AutoModel.from_pretrained(tmp_path)

    assert HEAD in load_file(tmp_path / "model.safetensors")
    assert_same_weights(body, model.model)


def test_an_untied_head_is_not_invented(build_tiny, tmp_path):
    build_tiny(**UNTIED).model.save_pretrained(tmp_path)

    refusal(["complete", f"got none for {HEAD}"], load, tmp_path)


def test_a_tied_head_needs_no_weights_of_its_own(tiny_model, tmp_path):
    tiny_model.model.save_pretrained(tmp_path)

    assert_same_weights(load(tmp_path), tiny_model)


def test_a_head_that_somebody_adds_begins_anew(folder, tiny_model):
    model = Classifier.from_pretrained(folder)

    assert_same_weights(model.model, tiny_model.model)
    assert model.classifier.weight.isfinite().all()


def test_a_saved_model_with_an_added_head_loads_whole(tiny_config, tmp_path):
    model = Classifier(tiny_config)
    model.save_pretrained(tmp_path)

    assert_same_weights(Classifier.from_pretrained(tmp_path), model)


class Classifier(VanillaTransformerPreTrainedModel):
    """What a user builds on the body."""

    def __init__(self, config):
        super().__init__(config)
        self.model = VanillaTransformerModel(config)
        self.classifier = nn.Linear(config.d_model, 3)
        self.post_init()


def test_a_resized_model_loads_whole(build_tiny, tmp_path):
    model = build_tiny()
    model.resize_token_embeddings(48)
    model.save_pretrained(tmp_path)

    assert_same_weights(load(tmp_path), model)


def test_fresh_weights_are_the_library_s_empty_dictionary(tiny_config):
    model = VanillaTransformerForConditionalGeneration.from_pretrained(
        None, config=tiny_config, state_dict={}
    )

    assert all(parameter.isfinite().all() for parameter in model.parameters())


def test_a_given_dictionary_must_be_complete_too(tiny_model):
    weights = tiny_model.state_dict()
    del weights[FC1]
    from_pretrained = VanillaTransformerForConditionalGeneration.from_pretrained

    words = [f"got none for {FC1}"]
    refusal(words, from_pretrained, None, config=tiny_model.config, state_dict=weights)


def assert_same_weights(model, other):
    torch.testing.assert_close(dict(model.state_dict()), dict(other.state_dict()), rtol=0, atol=0)


# Pickles and broken files


class Bomb:
    """What a pickle may hold: something that runs when it is read."""

    def __init__(self, file):
        self.file = file

    def __reduce__(self):
        return type(self.file).touch, (self.file,)


@pytest.fixture
def pickled(folder, tiny_model):
    """A folder whose weights are a harmless pickle, as in the old days."""
    (folder / "model.safetensors").unlink()
    torch.save(tiny_model.state_dict(), folder / "pytorch_model.bin")
    return folder


def test_a_pickle_is_refused_with_the_way_out(pickled):
    words = ["safetensors", "got pytorch_model.bin", "use_safetensors=False", "save_pretrained"]
    refusal(words, load, pickled)


def test_no_pickle_is_read_by_default(pickled):
    exploded = pickled / "exploded"
    torch.save({"bomb": Bomb(exploded)}, pickled / "pytorch_model.bin")

    refusal(["got pytorch_model.bin"], load, pickled)
    refusal(["got pytorch_model.bin"], load, pickled, dtype="auto", weights_only=False)
    assert not exploded.exists()


def test_a_pickle_of_many_parts_is_refused(pickled):
    (pickled / "pytorch_model.bin").rename(pickled / "pytorch_model-00001-of-00001.bin")
    weight_map = {FC1: "pytorch_model-00001-of-00001.bin"}
    index = json.dumps({"metadata": {}, "weight_map": weight_map})
    (pickled / "pytorch_model.bin.index.json").write_text(index)

    refusal(["got pytorch_model-00001-of-00001.bin"], load, pickled)


def test_a_pickle_in_the_clothes_of_a_part_is_refused(pickled):
    index = json.dumps({"metadata": {}, "weight_map": {FC1: "pytorch_model.bin"}})
    (pickled / INDEX).write_text(index)

    refusal(["got pytorch_model.bin"], load, pickled)


def test_a_pickle_named_by_itself_is_refused(pickled, tiny_config):
    from_pretrained = VanillaTransformerForConditionalGeneration.from_pretrained
    file = pickled / "pytorch_model.bin"

    refusal(["got pytorch_model.bin"], from_pretrained, file, config=tiny_config)


def test_a_pickle_named_in_the_configuration_is_refused(pickled):
    config = json.loads((pickled / "config.json").read_text())
    config["transformers_weights"] = "pytorch_model.bin"
    (pickled / "config.json").write_text(json.dumps(config))

    with pytest.raises(ValueError, match="safetensors"):
        load(pickled)


def test_a_trusted_pickle_converts_in_two_steps(pickled, tiny_model, tmp_path):
    load(pickled, use_safetensors=False).save_pretrained(tmp_path / "converted")

    assert_same_weights(load(tmp_path / "converted"), tiny_model)


def test_a_pickle_beside_safetensors_is_not_looked_at(folder, tiny_model):
    torch.save({"bomb": Bomb(folder / "exploded")}, folder / "pytorch_model.bin")

    assert_same_weights(load(folder), tiny_model)
    assert not (folder / "exploded").exists()


BROKEN = {
    "truncated": lambda data: data[: len(data) // 2],
    "one byte short": lambda data: data[:-1],
    "one byte long": lambda data: data + b"0",
    "empty": lambda data: b"",
    "a pickle": lambda data: b"PK" + data,
    "a page": lambda data: b"<html>404 Not Found</html>" * 9,
    "huge header": lambda data: b"\xff" * 8 + data[8:],
    "broken header": lambda data: data[:8] + b"[" + data[9:],
}


@pytest.mark.parametrize("how", BROKEN)
@pytest.mark.parametrize("auto_class", [AutoModel, AutoModelForSeq2SeqLM])
def test_broken_weights_are_refused(auto_class, how, folder):
    file = folder / "model.safetensors"
    file.write_bytes(BROKEN[how](file.read_bytes()))

    words = ["whole safetensors", str(folder), "download or save them again"]
    refusal(words, auto_class.from_pretrained, folder)


@pytest.mark.parametrize("how", ["truncated", "absent", "index"])
def test_a_broken_part_is_refused(how, tiny_model, tmp_path):
    tiny_model.save_pretrained(tmp_path, max_shard_size="4KB")
    part = sorted(tmp_path.glob("model-*.safetensors"))[1]
    if how == "absent":
        part.unlink()
    elif how == "truncated":
        part.write_bytes(part.read_bytes()[:-9])
    else:
        (tmp_path / INDEX).write_text("{")

    refusal(["whole safetensors", "download or save them again"], load, tmp_path)


def test_a_model_in_parts_loads_whole(tiny_model, tmp_path):
    tiny_model.save_pretrained(tmp_path, max_shard_size="4KB")

    assert len(list(tmp_path.glob("model-*.safetensors"))) > 2
    assert_same_weights(load(tmp_path), tiny_model)


def test_a_model_saved_whole_over_its_parts_loads_whole(tiny_model, tmp_path):
    tiny_model.save_pretrained(tmp_path, max_shard_size="4KB")
    tiny_model.save_pretrained(tmp_path)

    assert [file.name for file in tmp_path.glob("*.safetensors")] == ["model.safetensors"]
    assert_same_weights(load(tmp_path), tiny_model)


def test_a_folder_without_weights_is_refused(folder):
    (folder / "model.safetensors").unlink()

    with pytest.raises((OSError, ValueError), match=r"model\.safetensors"):
        load(folder)


def test_a_folder_of_another_model_is_refused(folder):
    config = json.loads((folder / "config.json").read_text())
    (folder / "config.json").write_text(json.dumps(config | {"model_type": "marian"}))

    words = ["model_type must be 'vanilla_transformer'", "'marian'"]
    refusal(words, VanillaTransformerModel.from_pretrained, folder)


def test_hostile_fields_of_a_configuration_run_nothing(folder):
    config = json.loads((folder / "config.json").read_text())
    hostile = {"__class__": "os.system", "from_dict": "x", "dtype": "load", "auto_map": 5}
    (folder / "config.json").write_text(json.dumps(config | hostile))

    refusal(
        ["__class__", "from_dict", "dtype", "auto_map"],
        VanillaTransformerModel.from_pretrained,
        folder,
    )
