"""The model on many processes, many devices and few bytes gives the numbers of one plain model."""

import json
from pathlib import Path

import pytest
import torch
from accelerate import cpu_offload, infer_auto_device_map, init_empty_weights
from accelerate.utils import send_to_device
from accelerate.utils.dataclasses import get_module_class_from_name
from scripts.fresh_process import SCRIPTS, run_fresh
from transformers import AutoModelForSeq2SeqLM

import vanilla_transformer
from vanilla_transformer import VanillaTransformerForConditionalGeneration
from vanilla_transformer.attention_plan import AttentionPlan
from vanilla_transformer.modeling_vanilla_transformer import DecoderLayer, EncoderLayer

WAYS_TO_TRAIN = ("loop", "trainer", "sharded")
# `--num_processes 2 --cpu` would start one process: without MPI, accelerate wants the other switch.
TWO_PROCESSES = (
    *("-m", "accelerate.commands.launch", "--multi_gpu", "--num_processes", "2"),
    *("--num_machines", "1", "--main_process_port", "0"),
    *("--mixed_precision", "no", "--dynamo_backend", "no"),
)
SEPARATE = {"share_encoder_decoder_embeddings": False, "tie_word_embeddings": False}
LEARNED = {"position_encoding": "learned", "attention_score": "additive"}
MODELS = {"shared": {}, "separate": SEPARATE, "learned": LEARNED}


# Many processes


@pytest.fixture(scope="module")
def losses(tmp_path_factory):
    """Results of the same training by one process and by two, each on its half of every batch."""
    folder = tmp_path_factory.mktemp("parallel")
    package = Path(vanilla_transformer.__file__).parents[1]
    environment = {"ACCELERATE_USE_CPU": "true", "PYTHONPATH": str(package)}
    results = []
    for launcher in ((), TWO_PROCESSES):
        command = *launcher, SCRIPTS / "train_in_parallel.py", folder / "results.json"
        run_fresh(*command, folder=folder, **environment)
        results.append(json.loads((folder / "results.json").read_text()))
    return results


@pytest.mark.parametrize("way", WAYS_TO_TRAIN)
def test_two_processes_have_the_losses_of_one_on_the_same_batches(way, losses):
    one, two = losses

    assert (one["processes"], two["processes"]) == (1, 2)
    assert len(set(one["loop"])) > 1
    assert two[way] == pytest.approx(one["loop"], abs=1e-5)


def test_the_trainer_has_the_losses_of_a_loop(losses):
    assert losses[0]["trainer"] == pytest.approx(losses[0]["loop"], abs=1e-5)


def test_the_names_of_layers_that_stay_whole_are_those_of_classes(tiny_model):
    found = {get_module_class_from_name(tiny_model, n) for n in tiny_model._no_split_modules}

    assert found == {EncoderLayer, DecoderLayer}


# Many devices


@pytest.fixture(params=MODELS)
def model(request, build_tiny):
    return build_tiny(**MODELS[request.param])


@pytest.fixture
def folder(model, tmp_path):
    model.save_pretrained(tmp_path / "model", max_shard_size="8KB")
    return tmp_path / "model"


DEVICE_MAPS = {
    "auto": "auto",
    "one device": {"": "cpu"},
    "parts": {"model": "cpu", "lm_head": "cpu"},
    "layers on disk": {
        **{"model.shared": "cpu", "model.encoder": "cpu", "lm_head": "cpu"},
        **{"model.decoder.embed_tokens": "cpu", "model.decoder.embed_positions": "cpu"},
        "model.decoder.layers": "disk",
    },
    "a layer on disk": {
        **{"model.shared": "cpu", "model.encoder.embed_tokens": "cpu"},
        **{"model.encoder.embed_positions": "cpu", "model.encoder.layers.0": "cpu"},
        **{"model.encoder.layers.1": "disk", "model.decoder": "cpu", "lm_head": "cpu"},
    },
}


@pytest.mark.parametrize("device_map", DEVICE_MAPS.values(), ids=DEVICE_MAPS)
def test_a_model_in_parts_gives_the_same_logits_and_words(
    device_map, model, folder, sentence_pairs, tmp_path
):
    if isinstance(device_map, dict) and not hasattr(model.model, "shared"):
        device_map = {name: place for name, place in device_map.items() if "shared" not in name}

    loaded = AutoModelForSeq2SeqLM.from_pretrained(
        folder, device_map=device_map, offload_folder=tmp_path / "offload"
    )

    assert_same_answers(loaded, model, sentence_pairs)


@pytest.mark.parametrize("kilobytes", [12, 20, 30])
def test_a_model_larger_than_memory_gives_the_same_logits_and_words(
    kilobytes, model, folder, sentence_pairs, tmp_path
):
    loaded = AutoModelForSeq2SeqLM.from_pretrained(
        folder,
        device_map="auto",
        max_memory={"cpu": kilobytes * 1000},
        offload_folder=tmp_path / "offload",
    )

    assert set(loaded.hf_device_map.values()) >= {"disk"}
    assert_same_answers(loaded, model, sentence_pairs)


def test_a_model_fetched_layer_by_layer_gives_the_same_logits_and_words(
    model, folder, sentence_pairs
):
    fetched = cpu_offload(AutoModelForSeq2SeqLM.from_pretrained(folder), "cpu")

    assert_same_answers(fetched, model, sentence_pairs)


def test_a_device_map_never_cuts_a_layer(model):
    size = sum(p.numel() * p.element_size() for p in model.parameters())
    for share in range(1, 8):
        device_map = infer_auto_device_map(
            model,
            max_memory={0: size * share // 8, "cpu": 10 * size},
            no_split_module_classes=model._no_split_modules,
        )
        assert not [name for name in device_map if ".layers." in name and name.count(".") > 3]


def test_a_plan_travels_to_the_device_of_its_layer(model, sentence_pairs):
    plans = []
    for layer in (model.model.encoder.layers[0], model.model.decoder.layers[0]):
        layer.register_forward_pre_hook(
            lambda _, args, kwargs: plans.extend(
                value for value in (*args, *kwargs.values()) if isinstance(value, AttentionPlan)
            ),
            with_kwargs=True,
        )
    is_word = sentence_pairs["labels"] >= 0
    model(**sentence_pairs, decoder_attention_mask=is_word, output_attentions=True)
    encoder_plan, decoder_plan = (send_to_device(plan, torch.device("meta")) for plan in plans)

    assert encoder_plan.mask.is_meta
    assert decoder_plan.mask.is_meta
    assert decoder_plan.source_mask.is_meta


def assert_same_answers(loaded, model, batch):
    source = {name: batch[name] for name in ("input_ids", "attention_mask")}
    with torch.no_grad():
        logits, expected = loaded(**batch).logits, model(**batch).logits
    words = [m.generate(**source, num_beams=2, max_new_tokens=6) for m in (loaded, model)]

    torch.testing.assert_close(logits, expected, rtol=0, atol=1e-6)
    assert torch.equal(*words)


# Few bytes


@pytest.mark.parametrize("dtype", [torch.bfloat16, torch.float16])
def test_a_model_loads_in_half_precision(dtype, model, folder, sentence_pairs):
    spelled = str(dtype).removeprefix("torch.")
    for asked in (dtype, spelled):
        half = AutoModelForSeq2SeqLM.from_pretrained(folder, dtype=asked)

        assert {parameter.dtype for parameter in half.parameters()} == {dtype}
        assert half.config.dtype == dtype
        with torch.no_grad():
            logits, expected = half(**sentence_pairs).logits, model(**sentence_pairs).logits
        assert logits.dtype == dtype
        torch.testing.assert_close(logits.float(), expected, rtol=0.1, atol=0.15)


def test_a_model_saved_in_half_precision_loads_so(model, sentence_pairs, tmp_path):
    model.bfloat16().save_pretrained(tmp_path)

    loaded = AutoModelForSeq2SeqLM.from_pretrained(tmp_path)

    assert loaded.dtype == torch.bfloat16
    assert_same_answers(loaded, model, sentence_pairs)


def test_nothing_stays_on_the_meta_device(model, folder):
    loaded = AutoModelForSeq2SeqLM.from_pretrained(folder, low_cpu_mem_usage=True)
    tensors = [*loaded.named_parameters(), *loaded.named_buffers()]

    assert [name for name, tensor in tensors if tensor.is_meta] == []


def test_a_model_built_without_memory_takes_its_weights_later(model, sentence_pairs):
    with init_empty_weights():
        empty = VanillaTransformerForConditionalGeneration(model.config)
    assert all(parameter.is_meta for parameter in empty.parameters())

    empty.load_state_dict(model.state_dict(), assign=True)
    empty.tie_weights()

    assert_same_answers(empty.eval(), model, sentence_pairs)
